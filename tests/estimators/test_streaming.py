"""Rows in files and from iterators, larger than memory or not."""

import json
import subprocess
import sys
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from sdlgm import SDLGM
from sdlgm.data import RowFiles, open_rows
from sdlgm.errors import ModelFileError
from sdlgm.train import StreamedBatches, batches


@pytest.fixture(scope="module")
def folder(digits, tmp_path_factory):
    """The digits in three files with row groups of 60."""
    folder = tmp_path_factory.mktemp("digits")
    for number, part in enumerate(np.array_split(digits, 3)):
        columns = {f"p{i}": part[:, i] for i in range(part.shape[1])}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=60)
    return folder


@pytest.fixture
def small_buffer(monkeypatch):
    monkeypatch.setattr(batches, "BUFFER_BYTES", 1)
    monkeypatch.setattr(batches, "BUFFER_BATCHES", 2)


def numbered(tmp_path, n_rows=103):
    """Rows that hold their number, in parts of seven."""
    pq.write_table(pa.table({"n": np.arange(float(n_rows))}), tmp_path / "n.parquet", row_group_size=7)
    return opened(tmp_path / "n.parquet")


def opened(path) -> RowFiles:
    rows = open_rows(path)
    assert rows is not None
    return rows


def test__batches__epochs__have_rows_at_most_once_and_lose_few(tmp_path, small_buffer):
    source = numbered(tmp_path)
    stream = StreamedBatches(source, range(len(source.parts)), 10, 0, "")
    seen: list[Counter] = []
    for iteration in range(60):
        while len(seen) <= stream._plan[stream._block_of(iteration)].epoch:
            seen.append(Counter())
        batch = stream[iteration]
        assert batch.shape == (10, 1)
        assert batch.dtype == np.float32
        seen[-1].update(batch[:, 0].astype(int).tolist())
    for epoch in seen[:-1]:
        assert max(epoch.values()) == 1
        assert sum(epoch.values()) >= 70  # of 103: less than a batch is left of each buffer
    assert set().union(*seen) == set(range(103))
    assert list(seen[0]) != list(seen[1])
    stream.close()


def test__batches__any_iteration__is_what_it_was_in_order(tmp_path, small_buffer):
    source = numbered(tmp_path)
    first = StreamedBatches(source, range(len(source.parts)), 8, 3, "")
    in_order = [first[iteration] for iteration in range(40)]
    for iteration in (0, 39, 17, 18, 5):
        again = StreamedBatches(source, range(len(source.parts)), 8, 3, "")
        np.testing.assert_array_equal(again[iteration], in_order[iteration])
        again.close()
    other = StreamedBatches(source, range(len(source.parts)), 8, 4, "")
    assert not np.array_equal(other[0], in_order[0])
    other.close()
    first.close()


def test__batches__fewer_rows_than_a_batch__are_one_batch(tmp_path):
    source = numbered(tmp_path, 5)
    stream = StreamedBatches(source, range(len(source.parts)), 100, 0, "")
    assert sorted(stream[3][:, 0].tolist()) == [0, 1, 2, 3, 4]
    stream.close()


def test__fit__folder__learns_as_well_as_in_memory(folder, digits, small):
    settings = {**small, "likelihood": "bernoulli", "max_iter": 150, "random_state": 0}
    streamed, in_memory = SDLGM(**settings).fit(folder), SDLGM(**settings).fit(digits)
    assert streamed.n_features_in_ == 64
    assert streamed.feature_names_in_[0] == "p0"
    assert streamed.likelihood_ == "bernoulli"
    assert streamed.score(folder) == pytest.approx(in_memory.score(digits), abs=1.0)
    again = SDLGM(**settings).fit(str(folder))
    np.testing.assert_array_equal(again.transform(folder).toarray(), streamed.transform(folder).toarray())


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test__every_method__rows_in_files__answers_as_in_memory(folder, digits, small, measurements, tmp_path):
    model = SDLGM(**small, random_state=0).fit(folder)
    np.testing.assert_array_equal(model.transform(folder).toarray(), model.transform(digits).toarray())
    np.testing.assert_array_equal(
        model.transform(iter([digits[:150], digits[150:]])).toarray(), model.transform(digits).toarray()
    )
    assert model.score(folder) == model.score(digits)
    assert model.evaluate(folder, random_state=0) == model.evaluate(digits, random_state=0)
    assert model.evaluate(iter([digits]), random_state=0) == model.evaluate(digits, random_state=0)
    np.save(tmp_path / "m.npy", measurements)
    gaussian = SDLGM(**small, random_state=0).fit(tmp_path / "m.npy")
    assert gaussian.likelihood_ == "gaussian"
    np.testing.assert_array_equal(
        gaussian.transform(tmp_path / "m.npy").toarray(), gaussian.transform(measurements).toarray()
    )


def test__partial_fit__rows_in_files__are_the_same_pass(folder, digits, small):
    files, memory = SDLGM(**small, random_state=0), SDLGM(**small, random_state=0)
    frame = pa.table({f"p{i}": digits[:, i] for i in range(64)})
    for _ in range(2):
        files.partial_fit(folder)
        memory.partial_fit(frame)
    for name, tensor in files.module_.state_dict().items():
        np.testing.assert_allclose(tensor.numpy(), memory.module_.state_dict()[name].numpy(), rtol=1e-4, atol=1e-5)
    iterated = SDLGM(**small, random_state=0).partial_fit(iter([digits[:100], digits[100:]]))
    assert iterated.n_iter_ == files.n_iter_ // 2


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test__fit__iterables__take_what_arrays_take(digits, small):
    expected = SDLGM(**small, random_state=0).fit(iter([digits])).transform(digits[:9]).toarray()
    loader = torch.utils.data.DataLoader(torch.tensor(digits), batch_size=len(digits))
    for source in (loader, iter([pd.DataFrame(digits).astype("Float64")])):
        model = SDLGM(**small, random_state=0).fit(source)
        np.testing.assert_array_equal(model.transform(digits[:9]).toarray(), expected)


def test__iterables__bad_batches__are_named(digits, small):
    bad = np.where(np.arange(64) == 3, np.inf, digits[:5])
    with pytest.raises(ValueError, match="batch 1: Input X contains NaN or infinity"):
        SDLGM(**small).fit(iter([digits, bad]))
    model = SDLGM(**small).fit(digits)
    with pytest.raises(ValueError, match="the batches have no rows"):
        model.transform(iter([]))


def test__fit__iterator__is_gone_through_more_than_once(digits, small):
    model = SDLGM(**small, random_state=0).fit(digits[start : start + 50] for start in range(0, 400, 50))
    assert model.n_iter_ == small["max_iter"]
    assert model.score(digits) > -60
    codes = SDLGM(**small, random_state=0).fit_transform(digits[start : start + 50] for start in range(0, 400, 50))
    assert (codes != model.transform(digits[:400])).nnz == 0


def test__early_stopping__files__holds_whole_row_groups_out(folder, small, tmp_path, digits):
    model = SDLGM(**small, early_stopping=True, random_state=0).fit(folder)
    assert model.history_
    np.save(tmp_path / "one.npy", digits)
    with pytest.raises(ValueError, match="whole row groups"):
        SDLGM(**small, early_stopping=True, random_state=0).fit(tmp_path / "one.npy")


def test__fit__wrong_files__are_refused_before_training(folder, digits, small, tmp_path, fitted):
    np.save(tmp_path / "big.npy", 2 * digits)
    with pytest.raises(ValueError, match="Bernoulli"):
        SDLGM(**small, likelihood="bernoulli").fit(tmp_path / "big.npy")
    with pytest.raises(ValueError, match="Bernoulli"):
        SDLGM(**small, likelihood="bernoulli").partial_fit(tmp_path / "big.npy")
    np.save(tmp_path / "wide.npy", digits[:, :60])
    with pytest.raises(ValueError, match="features"):
        fitted.transform(tmp_path / "wide.npy")
    with pytest.raises(ValueError, match="no such"):
        SDLGM(**small).fit(tmp_path / "nothing.parquet")


def interrupted(source, folder, at: int, **options) -> None:
    """Leave the checkpoint of a run that was stopped at an iteration."""

    class StopError(Exception):
        pass

    def stop(_module, iteration: int) -> None:
        if iteration == at:
            raise StopError

    with pytest.raises(StopError):
        SDLGM(**options, checkpoint_dir=folder, checkpoint_every=10).fit(source, callback=stop)


def test__resume__rows_in_files__ends_where_an_uninterrupted_run_does(folder, small, tmp_path, small_buffer):
    options = {**small, "random_state": 0}
    whole = SDLGM(**options).fit(folder)
    interrupted(folder, tmp_path, 37, **options)
    resumed = SDLGM(**options, checkpoint_dir=tmp_path, checkpoint_every=10, resume=True).fit(folder)
    for name, tensor in whole.module_.state_dict().items():
        np.testing.assert_array_equal(resumed.module_.state_dict()[name].numpy(), tensor.numpy())


MEMORY = """
import json, sys
from pathlib import Path
import numpy as np
import pandas as pd
from sdlgm import SDLGM

def peak():  # not of getrusage, which begins with the peak of the parent
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

small = {"n_components": 16, "max_active": 4, "hidden": (16,), "batch_size": 100, "random_state": 0}
SDLGM(max_iter=5, **small).fit(np.random.default_rng(0).random((200, 500), dtype=np.float32))
before = peak()
model = SDLGM(max_iter=1300, **small).fit(sys.argv[1])
model.transform(sys.argv[1])
model.partial_fit(sys.argv[1])
model.evaluate(sys.argv[1])
SDLGM(max_iter=20, early_stopping=True, validation_fraction=0.9, **small).fit(sys.argv[1])
print(json.dumps({"more": peak() - before}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test__memory__rows_in_files__does_not_grow_with_them(tmp_path, kind):
    rng = np.random.default_rng(0)
    n_files, rows_of_a_file = 10, 12_000
    for number in range(n_files):
        rows = rng.random((rows_of_a_file, 500), dtype=np.float32)
        if kind == "npy":
            np.save(tmp_path / f"{number}.npy", rows)
        else:
            table = pa.table({f"c{i}": rows[:, i] for i in range(500)})
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=4000, use_dictionary=False)
    size = n_files * rows_of_a_file * 500 * 4
    done = subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True)
    more = json.loads(done.stdout.splitlines()[-1])["more"]
    assert more < 0.8 * size, f"{more / 1e6:.0f} MB for {size / 1e6:.0f} MB of rows"


def test__resume__other_row_groups_or_held_out_rows__are_refused(tmp_path, small, digits):
    options = {**small, "max_iter": 40, "random_state": 0}
    source = tmp_path / "rows.parquet"

    def write(group: int) -> None:
        table = pa.table({f"c{i}": digits[:, i] for i in range(digits.shape[1])})
        pq.write_table(table, source, row_group_size=group)

    write(50)
    interrupted(source, tmp_path / "a", 20, **options)
    write(100)
    with pytest.raises(ModelFileError, match="was made with data"):
        SDLGM(**options, checkpoint_dir=tmp_path / "a", resume=True).fit(source)
    options["early_stopping"] = True
    interrupted(source, tmp_path / "b", 20, **options, validation_fraction=0.2)
    with pytest.raises(ModelFileError, match="was made with data"):
        SDLGM(**options, checkpoint_dir=tmp_path / "b", resume=True, validation_fraction=0.5).fit(source)


def test__early_stopping__files__held_out_rows_do_not_shape_the_scaling(tmp_path, small, measurements):
    for number, rows in enumerate(np.split(measurements[:60], 3)):
        np.save(tmp_path / f"{number}.npy", rows)
    model = SDLGM(**small, early_stopping=True, validation_fraction=0.3, random_state=0).fit(tmp_path)
    means = [np.delete(measurements[:60], np.s_[20 * i : 20 * (i + 1)], axis=0).mean(axis=0) for i in range(3)]
    assert sum(np.allclose(model._fitted.scaling.location, mean, rtol=1e-9) for mean in means) == 1


def test__batches_without_names__model_with_names__is_one_warning(small):
    X = np.random.default_rng(0).random((100, 3))
    model = SDLGM(**small, random_state=0).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    for call in (lambda: list(model.transform_batches([X, X, X])), lambda: model.evaluate(X)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert len([warning for warning in caught if "valid feature names" in str(warning.message)]) == 1
