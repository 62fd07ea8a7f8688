"""Rows within bounds of their errors: no value differs by more, and no file is longer than with delta coding."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sdlgm
from commands import run
from sdlgm import SDLGM, DataError
from sdlgm._kernels.residuals import LARGEST, MISSING, RAW, Series, read_series, write_series
from sdlgm.codec import _bounded, _files, describe
from sdlgm.data import windows

GOLDEN = Path(__file__).parents[1] / "golden"
QUICK = {"n_components": 24, "max_active": 6, "hidden": (32,), "likelihood": "gaussian", "random_state": 0}


def within(decoded: np.ndarray, rows: np.ndarray, max_error: float | np.ndarray) -> bool:
    """Return whether no value differs by more than its bound, and what is missing is missing."""
    missing = np.isnan(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        near = (np.abs(decoded - rows) <= max_error) | (decoded == rows)
    return bool((np.isnan(decoded) == missing).all() and near[~missing].all())


def kinds_of(content: bytes) -> list[int]:
    with _files.opened(content) as reader:
        return [block[0] for _, block in reader.blocks()]


def plain_size(model: SDLGM, rows: np.ndarray, max_error: float, monkeypatch) -> int:
    """Return the size of a file whose blocks are all delta coded."""
    with monkeypatch.context() as patch:
        patch.setattr(_bounded.Bounded, "_decoded", lambda self, codes: np.full((codes.shape[0], rows.shape[1]), 1e100))
        content = model.compress(rows, max_error=max_error)
    assert set(kinds_of(content)) == {_bounded.DELTA}
    return len(content)


@pytest.fixture(scope="module")
def shapes() -> np.ndarray:
    """Rows of many columns that few causes explain, one after the other at random."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, (1500, 4)) @ rng.normal(size=(4, 40)) * 10 + 0.2 * rng.normal(size=(1500, 40)) + 1e3


@pytest.fixture(scope="module")
def of_shapes(shapes) -> SDLGM:
    return SDLGM(**QUICK, max_iter=400).fit(shapes)


# Whole numbers


@pytest.mark.parametrize("common", [True, False])
def test__series__of_all_kinds_and_sizes__are_read_back(common):
    rng = np.random.default_rng(0)
    numbers = rng.integers(-LARGEST, LARGEST, (4, 300)) >> rng.integers(0, 41, (4, 300))
    base = rng.integers(-LARGEST, LARGEST, (4, 300)) >> rng.integers(0, 41, (4, 300))
    kinds = rng.choice([0, MISSING, RAW], (4, 300), p=[0.8, 0.1, 0.1]).astype(np.uint8)
    kinds[0] = 0
    numbers[1, :20], base[1, :20], kinds[1, :20] = LARGEST, -LARGEST, 0
    numbers[kinds == MISSING] = 0
    numbers[kinds == RAW] = rng.integers(-(2**63), 2**63 - 1, int((kinds == RAW).sum()))
    content = write_series(Series(numbers, kinds), base, common=common)
    found = read_series(content, base, common=common)
    np.testing.assert_array_equal(found.numbers, numbers)
    np.testing.assert_array_equal(found.kinds, kinds)


def test__series__bytes_that_nobody_wrote__are_some_series():
    for seed in range(20):
        content = np.random.default_rng(seed).bytes(50)
        assert read_series(content, np.zeros((2, 100), np.int64), common=False).numbers.shape == (2, 100)


def test__series__size__is_near_the_entropy():
    rng = np.random.default_rng(0)
    numbers = np.rint(rng.normal(0, 3, (2, 20_000))).astype(np.int64)
    _, counts = np.unique(numbers, return_counts=True)
    entropy = -(counts @ np.log2(counts / counts.sum())) / 8
    content = write_series(Series(numbers, np.zeros(numbers.shape, np.uint8)), np.zeros_like(numbers), common=False)
    assert len(content) < 1.02 * entropy


# The bound


NASTY = st.one_of(
    st.floats(-1e3, 1e3),
    st.floats(allow_nan=True, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1e308, 0.5, 1.5, 1e6 + 0.05]),
)


@settings(max_examples=60, deadline=None)
@given(
    rows=arrays(np.float64, st.tuples(st.integers(1, 5), st.just(6)), elements=NASTY),
    max_error=st.one_of(st.floats(1e-3, 1e3), st.floats(5e-324, 1e308), st.sampled_from([0.05, 0.5, 5e-324])),
)
def test__max_error__any_values_and_bounds__holds(fitted_gaussian, rows, max_error):
    content = fitted_gaussian.compress(rows, max_error=max_error)
    assert within(fitted_gaussian.decompress(content), rows, max_error)


@pytest.mark.parametrize("max_error", [1e-6, 0.05, 0.3, 5.0])
def test__max_error__values_halfway_between_steps__holds(of_shapes, shapes, max_error):
    rows = np.rint(shapes / max_error) * max_error
    content = of_shapes.compress(rows, max_error=max_error)
    assert within(of_shapes.decompress(content), rows, max_error)
    assert len(content) < rows.size * 6  # few values are written as they are


def test__max_error__one_for_each_column__holds_for_each(of_shapes, shapes, tmp_path):
    bounds = np.geomspace(0.01, 10, 40).tolist()
    path = tmp_path / "x.sdl"
    path.write_bytes(of_shapes.compress(shapes, max_error=bounds))
    decoded = of_shapes.decompress(path)
    assert within(decoded, shapes, np.array(bounds))
    assert np.abs(decoded - shapes)[:, -1].max() > bounds[20]  # and not of all the smallest
    assert describe(path)["max_error"] == bounds


def test__max_error__missing_values__stay_missing(of_shapes, shapes):
    rows = np.where(np.random.default_rng(0).random(shapes.shape) < 0.2, np.nan, shapes)
    rows[:, 3], rows[7] = np.nan, np.nan
    assert within(of_shapes.decompress(of_shapes.compress(rows, max_error=0.5)), rows, 0.5)


def test__max_error__single_precision_and_no_rows__hold(of_shapes, shapes):
    rows = shapes[:5].astype(np.float32)
    assert within(of_shapes.decompress(of_shapes.compress(rows, max_error=0.1)), rows.astype(np.float64), 0.1)
    file = io.BytesIO()
    assert of_shapes.write_bounded(file, [], 0.1) == 0
    assert of_shapes.decompress(file.getvalue()).shape == (0, 40)


# Sizes


@pytest.mark.parametrize("max_error", [0.01, 0.5, 5.0, 100.0])
def test__max_error__size__is_never_beyond_delta_coding(of_shapes, shapes, max_error, monkeypatch):
    content = of_shapes.compress(shapes, max_error=max_error)
    assert len(content) <= plain_size(of_shapes, shapes, max_error, monkeypatch)


def test__max_error__rows_that_the_model_knows__are_much_shorter_than_delta_coding(of_shapes, shapes, monkeypatch):
    content = of_shapes.compress(shapes, max_error=0.5)
    assert set(kinds_of(content)) == {_bounded.MODEL}
    assert len(content) < 0.6 * plain_size(of_shapes, shapes, 0.5, monkeypatch)


def test__max_error__series_that_the_model_does_not_know__is_no_longer_than_the_entropy_of_its_steps():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(20_000, 2)), axis=0)
    model = SDLGM(**QUICK, max_iter=2).fit(walk[:100])
    content = model.compress(walk, max_error=0.2)
    assert set(kinds_of(content)) == {_bounded.DELTA}
    steps = np.diff(np.rint(walk / 0.4), axis=0)
    _, counts = np.unique(steps, return_counts=True)
    entropy = -(counts @ np.log2(counts / counts.sum())) / 8
    assert len(content) < 1.05 * entropy


def test__max_error__windows__are_coded_in_the_order_of_time():
    minutes = np.arange(1600)
    table = pd.DataFrame({"a": np.cumsum(np.random.default_rng(0).normal(size=1600)), "b": minutes % 50 + 0.0})
    table.loc[::7, "b"] = np.nan
    made = windows(table, length=16, stride=16)
    model = SDLGM(**QUICK, max_iter=20).fit(made)
    content = model.compress(table, max_error=[0.5, 1.0])
    assert within(model.decompress(content), made.matrix, np.repeat([0.5, 1.0], 16))
    apart = SDLGM(**QUICK, max_iter=20).fit(np.nan_to_num(made.matrix))
    assert len(content) < 0.8 * len(apart.compress(made.matrix, max_error=np.repeat([0.5, 1.0], 16).tolist()))


# What can go wrong


def test__max_error__every_flipped_bit__is_found(of_shapes, shapes):
    content = of_shapes.compress(shapes[:60], max_error=2.0)
    assert kinds_of(content) == [_bounded.MODEL]
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        with pytest.raises(DataError):
            of_shapes.decompress(bytes(flipped))


def test__max_error__file_cut_short__yields_its_whole_blocks_and_raises(of_shapes, shapes):
    content = of_shapes.compress(shapes, max_error=0.5)
    for length in (5, 20, len(content) // 3, len(content) - 40, len(content) - 1):
        parts = []
        with pytest.raises(DataError, match=r"copy it again|is not a file"):
            parts.extend(of_shapes.decompress_batches(content[:length]))
        whole = np.concatenate([shapes[:0], *parts])
        assert within(whole, shapes[: len(whole)], 0.5)
    assert len(whole) == 1500


def test__max_error__lying_sizes__allocate_nothing(of_shapes):
    bounds = np.array([0.5])
    for n_rows, block in ((1000, b"\0\0"), (1024, b"\1\xff\xff\xff\xff\xff\x7f1"), (3, b"\1"), (3, b""), (3, b"\7abc")):
        file = io.BytesIO()
        writer = _files.Writer(file, _files.BOUNDED, of_shapes.codec_.fingerprint, bounds)
        writer.append(n_rows, block)
        writer.close()
        if block == b"\0\0":  # zeros at the end are not written, so this is a block
            assert of_shapes.decompress(file.getvalue()).shape == (1000, 40)
        else:
            with pytest.raises(DataError):
                of_shapes.decompress(file.getvalue())
    header = _files.MAGIC + bytes([_files.VERSION, _files.BOUNDED]) + of_shapes.codec_.fingerprint
    with pytest.raises(DataError, match="cut short"):
        of_shapes.decompress(header + b"\xff\xff\xff\xff\xff\x7f" + b"1" * 100)
    file = io.BytesIO()
    _files.Writer(file, _files.BOUNDED, of_shapes.codec_.fingerprint, np.ones(7)).close()
    with pytest.raises(DataError, match="bounds of 7 columns, not 40"):
        of_shapes.decompress(file.getvalue())


def test__max_error__memory_of_many_rows__is_limited(of_shapes, shapes, monkeypatch):
    content = of_shapes.compress(np.repeat(shapes[:1], 4000, axis=0), max_error=0.5)
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "600K")
    with pytest.raises(DataError, match="use decompress_batches"):
        of_shapes.decompress(content)
    assert sum(map(len, of_shapes.decompress_batches(content))) == 4000


def test__max_error__another_model__is_refused(of_shapes, shapes, fitted_gaussian):
    with pytest.raises(DataError, match="was made by the model"):
        fitted_gaussian.decompress(of_shapes.compress(shapes[:5], max_error=0.5))
    with pytest.raises(DataError, match="has codes, and not rows within error bounds"):
        list(of_shapes._bounded.read(of_shapes.compress(shapes[:5])))


@pytest.mark.parametrize("max_error", [1e-2, 1.0])
def test__max_error__machine_that_rounds_otherwise__reads_values_within_the_bound(
    of_shapes, shapes, max_error, monkeypatch
):
    decoded = _bounded.Bounded._decoded
    near = decoded(of_shapes._bounded, of_shapes.transform(shapes[:200]))
    rows = near + max_error * np.random.default_rng(0).choice(
        [-3, -1, 0, 1, 1.001, 3], near.shape
    )  # halfway, or nearly
    content = of_shapes.compress(rows, max_error=max_error)
    assert _bounded.MODEL in kinds_of(content)
    for factor in (1 - 1e-13, 1 + 1e-13):
        with monkeypatch.context() as patch:
            patch.setattr(_bounded.Bounded, "_decoded", lambda self, codes, f=factor: decoded(self, codes) * f)
            assert within(of_shapes.decompress(content), rows, max_error)


def test__max_error__larger_than_the_errors_of_codes__decodes_to_what_codes_do(of_shapes, shapes):
    rows = shapes[:200]
    decoded = of_shapes.inverse_transform(of_shapes.transform(rows))
    content = of_shapes.compress(rows, max_error=1.01 * float(np.abs(decoded - rows).max()))
    assert kinds_of(content) == [_bounded.MODEL]
    np.testing.assert_allclose(of_shapes.decompress(content), decoded, rtol=1e-5)


@pytest.mark.parametrize("max_error", [0, -1.0, np.inf, np.nan, "x", [1.0, 2.0], [[1.0]], np.zeros(40)])
def test__max_error__that_is_no_bound__is_refused(of_shapes, shapes, max_error):
    with pytest.raises(ValueError, match="max_error"):
        of_shapes.compress(shapes[:5], max_error=max_error)


def test__max_error__what_it_cannot_do__is_refused_before_work(fitted, of_shapes, shapes, monkeypatch):
    monkeypatch.setattr(SDLGM, "_codes_of", lambda *_: pytest.fail("rows were encoded"))
    with pytest.raises(ValueError, match="leave out max_error"):
        of_shapes.compress(shapes[:5], lossless=True, max_error=1.0)
    with pytest.raises(DataError, match=r"this model has columns with bernoulli.*leave out max_error"):
        fitted.compress(np.zeros((3, 64)), max_error=1.0)
    with pytest.raises(ValueError, match="infinity"):
        of_shapes.compress(np.where(np.arange(40) == 3, np.inf, shapes[:5]), max_error=1.0)


# Files and commands


def test__golden__file_of_a_release__decodes_to_the_same_numbers():
    paths = sorted(GOLDEN.glob("*.*.*/*.bounded"))
    assert any(path.parent.name == sdlgm.__version__ for path in paths)
    for path in paths:
        stored = json.loads(path.read_text(encoding="utf-8"))
        model, kinds = sdlgm.load(GOLDEN / stored["model"]), set()
        for part in stored["files"]:
            content = bytes.fromhex(part["file"])
            rows, decoded = (np.array(part[name], np.float64) for name in ("rows", "decoded"))
            np.testing.assert_allclose(model.decompress(content), decoded, rtol=1e-12)
            assert within(decoded, rows, np.array(part["max_error"]))
            assert kinds_of(content) == part["kinds"]
            kinds |= set(part["kinds"])
        assert kinds == {_bounded.DELTA, _bounded.MODEL}


def test__command__max_error__round_trip(of_shapes, shapes, tmp_path):
    of_shapes.save(tmp_path / "m.sdlgm")
    np.save(tmp_path / "x.npy", shapes)
    out = tmp_path / "x.sdl"
    arguments = ("compress", tmp_path / "x.npy", "--model", tmp_path / "m.sdlgm", "--out", out)
    assert "no error above 0.5" in run(*arguments, "--max-error", "0.5").output
    assert out.read_bytes() == of_shapes.compress(shapes, max_error=0.5)
    for name in ("y.npy", "y.csv"):
        run("decompress", out, "--model", tmp_path / "m.sdlgm", "--out", tmp_path / name)
    assert within(np.load(tmp_path / "y.npy"), shapes, 0.5)
    assert within(pd.read_csv(tmp_path / "y.csv").to_numpy(), shapes, 0.5)
    assert json.loads(run("info", out, "--json").output)["max_error"] == 0.5
    assert "rows within error bounds" in run("info", out).output


@pytest.mark.parametrize("options", [("--max-error", "0"), ("--max-error", "1", "--follow"), ("--max-error", "nan")])
def test__command__max_error_that_cannot_be__is_refused(of_shapes, options, tmp_path):
    of_shapes.save(tmp_path / "m.sdlgm")
    arguments = ("compress", tmp_path / "x.npy", "--model", tmp_path / "m.sdlgm", "--out", tmp_path / "x.sdl")
    assert "--max-error" in run(*arguments, *options, code=2).stderr


def test__command__max_error_of_other_columns__leaves_no_file(fitted, tmp_path):
    fitted.save(tmp_path / "m.sdlgm")
    np.save(tmp_path / "x.npy", np.zeros((3, 64)))
    out = tmp_path / "x.sdl"
    result = run(
        *("compress", tmp_path / "x.npy", "--model", tmp_path / "m.sdlgm", "--out", out, "--max-error", "1"), code=2
    )
    assert "max_error is for columns of measured numbers" in result.stderr
    assert not out.exists()
