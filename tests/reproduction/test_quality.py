"""The comparison of codes after the same time: data, peers, measures and the page, on small data and a false clock."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from reproduction import pages, quality, quality_data, quality_measures, quality_networks, quality_peers
from reproduction.code_lengths import POOLED_WEIGHT
from reproduction.pages import quality as quality_page
from reproduction.quality_data import Part, QualityData, Source, prepared
from reproduction.quality_networks import Decoder, QuantizedAutoencoder, SparseAutoencoder, Stopwatch, train_for
from reproduction.quality_peers import PEERS, Wanted, one_hot_rows, support_only
from reproduction.runs import run_folder
from reproduction.telemetry_data import filled, split_traces
from sdlgm import SDLGM, DataError
from sdlgm.model.modules import Batch, Objective
from sdlgm.train import Trainer, clock

N_FEATURES, K = 12, 3


@pytest.fixture
def false_clock(monkeypatch):
    """A clock that goes on by a hundredth of a second whenever it is read."""
    times = iter(range(10**9))
    monkeypatch.setattr(quality_networks, "now", lambda: next(times) / 100)


def toy(task: quality_data.Task = "classes") -> QualityData:
    """Rows that are sums of two out of six patterns; the pattern of the first half is to be predicted."""
    generator = np.random.default_rng(0)
    patterns = np.kron(np.eye(6), np.ones(2))
    first, second = generator.integers(0, 3, 300), generator.integers(3, 6, 300)
    X = patterns[first] + patterns[second] + 0.05 * generator.normal(size=(300, 12))
    targets = {"classes": first, "labels": np.eye(3, dtype=int)[first], "number": X[:, 0] + first}
    parts = [Part(X[rows], targets[task][rows]) for rows in np.split(np.arange(300), [180, 240])]
    return prepared(task, (parts[0], parts[1], parts[2]))


# Data


def test__prepared__by_hand__is_this():
    nan = np.nan
    train = Part(np.array([[1.0, 5.0, 0.0], [3.0, 5.0, nan], [nan, 5.0, 8.0]]), np.zeros(3))
    other = Part(np.array([[4.0, 9.0, nan], [100.0, 5.0, -4.0]]), np.zeros(2))
    data = prepared("number", (train, other, other))
    np.testing.assert_allclose(data.train.X, [[-1, -1], [1, 0], [0, 1]])
    np.testing.assert_allclose(data.validation.X, [[2, 0], [quality_data.LARGEST, -2]])
    assert data.shape == [3, 2, 2, 2]
    common = prepared("number", (train, other, other), common_scale=True)
    np.testing.assert_allclose(common.train.X, np.array([[-1, -4], [1, 0], [0, 4]]) / np.sqrt((1 + 16) / 2), rtol=1e-6)


def test__filled__windows__take_the_last_value_before():
    nan = np.nan
    series = np.array([[[nan, 1.0, nan, 3.0], [2.0, nan, nan, nan]]])
    np.testing.assert_array_equal(filled(series), [[[nan, 1.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0]]])


def test__split_traces__every_kind__is_in_every_part_once():
    traces = [Path("data/5g", kind, mobility, f"{n}.csv") for kind in "ab" for mobility in "cd" for n in range(5)]
    parts = split_traces(traces)
    assert sorted(path for part in parts for path in part) == sorted(traces)
    for part in parts:
        assert {path.parts[2:4] for path in part} == {(kind, mobility) for kind in "ab" for mobility in "cd"}
    assert split_traces(traces) == parts


def test__digits__load__has_all_rows_once():
    data = quality_data.SOURCES["digits"].load()
    n = [len(part) for part in (data.train, data.validation, data.test)]
    assert n == [quality_data.DIGITS_TRAIN, quality_data.DIGITS_VALIDATION, 1797 - sum(n[:2])]
    rows = {row.tobytes() for part in (data.train, data.validation, data.test) for row in part.X}
    assert len(rows) == 1797
    assert np.square(data.train.X).mean() == pytest.approx(1.0, rel=1e-4)


def test__file__unknown_folder__is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SDLGM_DATA", str(tmp_path))
    with pytest.raises(DataError, match="forecasting/ETTm1.parquet: not found; set SDLGM_DATA"):
        quality_data.SOURCES["ett"].load()


# Measures


def test__unexplained__mean_and_rows__are_one_and_zero():
    X, mean = np.array([[1.0, 2.0], [3.0, -2.0]]), np.array([2.0, 1.0])
    assert quality_measures.unexplained(np.tile(mean, (2, 1)), X, mean) == 1.0
    assert quality_measures.unexplained(X, X, mean) == 0.0
    assert quality_measures.unexplained(X + np.array([[1.0, 0.0], [0.0, 0.0]]), X, mean) == pytest.approx(1 / 12)


def test__score__by_hand__is_this():
    score = quality_measures.score
    assert score("classes", np.array([1, 2, 2, 0]), np.array([1, 2, 0, 0])) == 0.75
    assert score("number", np.array([0.0, 2.0, 4.0]), np.array([0.0, 2.0, 2.0])) == pytest.approx(1 - 4 / 8)
    labels = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 1]])
    predicted = np.array([[0.9, 0.5, 0.9], [0.8, 0.5, 0.2], [0.1, 0.5, 0.8]])
    # Label 0: ranks 1 and 3; label 2: ranks 2 and 3. No row has label 1.
    expected = ((1 + 2 / 3) / 2 + (1 / 2 + 2 / 3) / 2) / 2
    assert score("labels", labels, predicted) == pytest.approx(expected)


@pytest.mark.parametrize("task", ["classes", "labels", "number"])
@pytest.mark.parametrize("probe", [quality_measures.linear_probe, quality_measures.neighbours])
def test__probes__noise_and_the_columns__take_the_columns(task, probe):
    data = toy(task)
    columns = (data.train.X, data.validation.X, data.test.X)
    noise = tuple(np.random.default_rng(1).normal(size=part.shape) for part in columns)
    assert probe(data, [noise]) < 0.6
    assert probe(data, [noise, columns]) > 0.95
    assert probe(data, [columns]) == probe(data, [noise, columns])
    sparse = tuple(sp.csr_matrix(part) for part in columns)
    assert probe(data, [sparse]) == pytest.approx(probe(data, [columns]), abs=1e-3)


def test__label_wise__label_that_does_not_vary__gets_its_frequency():
    X, Y = np.random.default_rng(0).normal(size=(20, 2)), np.zeros((20, 2), int)
    Y[:, 1] = X[:, 0] > 0
    predicted = quality_measures._LabelWise(1.0).fit(X, Y).predict(X)
    assert (predicted[:, 0] == 0).all()
    assert ((predicted[:, 1] > 0.5) == Y[:, 1]).mean() > 0.9


def test__support_bits__two_features__are_their_entropies():
    train = np.array([[1, 1], [1, 0], [0, 0], [0, 0]])
    shares = np.array([2.5, 1.5]) / 5
    expected = -np.log2(shares[0]) - np.log2(1 - shares[1])
    assert quality_measures.support_bits(train, np.array([[1, 0]])) == pytest.approx(expected)


def test__index_bits__by_hand__are_these():
    train, test = np.array([[0, 1], [0, 1], [1, 1]]), np.array([[0, 0], [1, 1]])
    first, second = np.array([2.5, 1.5]) / 4, np.array([0.5, 3.5]) / 4
    expected = -np.log2([first[0] * second[0], first[1] * second[1]]).mean()
    assert quality_measures.index_bits(train, test, 2) == pytest.approx(expected)


def test__value_bits__two_values__have_one_bit_and_the_support():
    codes = np.where(np.arange(10_000) % 2, 1.0, -1.0)[:, None]
    n_levels = quality_measures.LEVELS[-1] + 1  # an exact decoder allows no rounding: the finest is taken
    pooled = (5000 + 0.5) / (10_000 + 0.5 * n_levels)
    by_feature = (5000 + POOLED_WEIGHT * pooled) / (10_000 + POOLED_WEIGHT)  # the shorter one
    expected = -np.log2(by_feature) - np.log2(10_000.5 / 10_001)
    bits = quality_measures.value_bits((codes, codes, codes), lambda of: of, codes)
    assert bits == pytest.approx(expected, abs=1e-6)
    assert quality_measures.value_bits((codes * 0, codes * 0, codes), lambda of: of, codes) == 0.0


def test__value_bits__decoder_with_an_error__rounds_to_few_levels():
    generator = np.random.default_rng(0)
    codes = generator.uniform(1, 3, size=(2000, 4))
    target = codes + generator.normal(size=codes.shape)
    bits = quality_measures.value_bits((codes, codes, codes), lambda of: of, target)
    assert bits < 4 * 3.1  # 2.6 bits are those of six levels
    fine = quality_measures.value_bits((codes, codes, codes), lambda of: of, codes + 1e-3)
    assert fine > bits + 8


# Networks


def test__stopwatch__pauses__do_not_count(monkeypatch):
    times = iter([0.0, 1.0, 2.0, 5.0, 6.0, 100.0])
    monkeypatch.setattr(quality_networks, "now", lambda: next(times))
    watch = Stopwatch(10.0)
    assert watch.elapsed == 1.0
    with watch.paused():  # from 2 to 5
        pass
    assert watch.elapsed == 3.0
    assert watch.fraction == 1.0


@pytest.mark.usefixtures("false_clock")
def test__train_for__time__ends_it_and_the_best_parameters_are_kept():
    torch.manual_seed(0)
    model = Decoder(3, (), 3)
    x = torch.randn(100, 3)
    trained = train_for(model, (x, x), (x, x), seconds=4.0, learning_rate=0.03, seed=0)
    assert 200 < trained.iterations <= 400
    assert trained.seconds == pytest.approx(4.0, abs=0.1)
    assert trained.error < 0.01
    assert quality_networks.error_of(model, x, x) == pytest.approx(trained.error)
    # With other targets for validation it only gets worse: training ends early, and the first parameters come back.
    worse = Decoder(3, (), 3)
    with torch.no_grad():
        worse.layers[0].weight.copy_(-torch.eye(3))
        worse.layers[0].bias.zero_()
    stopped = train_for(worse, (x, x), (x, -x), seconds=4.0, learning_rate=0.03, seed=0)
    assert stopped.seconds == pytest.approx(quality_networks.PATIENCE * 4.0, abs=0.2)
    assert torch.equal(worse.layers[0].weight, -torch.eye(3))


@pytest.mark.parametrize("hidden", [(), (8,)])
def test__sparse_autoencoder__codes__have_k_non_zeros(hidden):
    torch.manual_seed(0)
    x = torch.randn(500, 10)
    each = SparseAutoencoder(10, 20, 4, hidden=hidden, of_batch=False)
    assert ((each.codes(x) > 0).sum(1) <= 4).all()
    kept, activations = each.codes(x), each.activations(x)
    assert torch.equal(kept.sum(1), activations.topk(4).values.sum(1)) or torch.allclose(
        kept.sum(1), activations.topk(4).values.sum(1)
    )
    batch = SparseAutoencoder(10, 20, 4, hidden=hidden, of_batch=True)
    assert int((batch.codes(x) > 0).sum()) == 2000
    batch.set_threshold(x)
    assert int((batch.codes(x) > 0).sum()) == 2000
    alone = torch.cat([batch.codes(row[None]) for row in x])
    torch.testing.assert_close(alone, batch.codes(x))


def test__sparse_autoencoder__dead_feature__is_revived_by_the_loss():
    torch.manual_seed(0)
    model, x = SparseAutoencoder(6, 5, 2, hidden=(), of_batch=False), torch.randn(50, 6)
    with torch.no_grad():
        model.encoder[0].bias[0] = -5.0
        model.encoder[0].weight[0] *= 5.0
        model.encoder[0].bias[1:] = 20.0  # others always win
    error = (model.reconstruct(x) - x).square().sum(1).mean()
    assert model.loss(x, x).item() == pytest.approx(error.item(), rel=1e-5)
    model.unused.fill_(quality_networks.DEAD_AFTER + 1)
    loss = model.loss(x, x)
    loss.backward()
    assert loss.item() > error.item()
    gradient = model.encoder[0].weight.grad
    assert gradient is not None
    assert gradient[0].abs().sum() > 0


def test__quantized_autoencoder__indices__are_the_nearest_words():
    torch.manual_seed(0)
    model = QuantizedAutoencoder(6, 3, 5, hidden=(), seed=0)
    x = torch.randn(40, 6)
    model.loss(x, x)
    encoded, indices = model.encoded(x), model.indices(model.encoded(x))
    distances = (encoded[:, :, None] - model.words[None]).square().sum(-1)
    torch.testing.assert_close(distances.gather(2, indices[..., None])[..., 0], distances.min(2).values)
    torch.testing.assert_close(model.reconstruct(x), model.decode(indices))
    rows = one_hot_rows(indices.numpy(), 5)
    assert rows.shape == (40, 15)
    assert (rows.sum(axis=1) == 3).all()
    assert rows[7, 5 + int(indices[7, 1])] == 1


# Peers


@pytest.mark.usefixtures("false_clock")
@pytest.mark.parametrize("peer", list(PEERS))
def test__peers__toy_data__keep_the_non_zeros_and_learn(peer):
    data = toy()
    coded = PEERS[peer].run(data, Wanted(N_FEATURES, K, 8.0, 3.0, 0))
    assert [each.system for each in coded] == list(PEERS[peer].titles)
    for each in coded:
        assert each.n_active == pytest.approx({"vq": 2.0}.get(peer, K), rel=0.15)
        if peer in ("top_k", "dictionary"):
            assert (each.views[0][2] != 0).sum(axis=1).max() <= K
        if each.kind == "discrete":
            assert set(np.unique(each.views[0][2].toarray() if peer == "vq" else each.views[0][2])) <= {0.0, 1.0}
        assert 0 < each.unexplained < 0.75
        assert each.bits is not None
        assert each.bits > 0
        assert quality_measures.linear_probe(data, each.views) > (
            0.6 if peer == "nmf" else 0.8
        )  # three of six patterns
        assert 0 <= each.seconds <= 3.2
    if len(coded) == 2:  # the numbers say more than the support
        assert coded[0].unexplained < coded[1].unexplained


@pytest.mark.usefixtures("false_clock")
def test__support_only__rows_that_are_linear_in_it__are_decoded():
    generator = np.random.default_rng(0)
    codes = [generator.uniform(1, 2, size=(n, 6)) * (generator.random((n, 6)) < 0.4) for n in (200, 50, 50)]
    weight = generator.normal(size=(6, 4))
    parts = [Part(((code != 0) @ weight).astype(np.float32), np.zeros(len(code))) for code in codes]
    data = QualityData("number", *parts)
    trained = quality_networks.Trained(0.0, 5, 1.0)
    coded = support_only("name", (codes[0], codes[1], codes[2]), data, Wanted(6, 2, 6.0, 1.0, 0), trained, {})
    assert coded.unexplained < 1e-3
    assert coded.setting["decoder"] == "linear"
    assert coded.n_active == pytest.approx((codes[2] != 0).sum(axis=1).mean())


# The SDLGM and the runs


@pytest.mark.filterwarnings("ignore::UserWarning")
def test__fit_for__time__is_that_of_the_processor(monkeypatch):
    seconds, step, wall = [0.0], Trainer.step, clock.now

    def timed(self: Trainer, batch: Batch) -> Objective:
        seconds[0] += 0.5
        return step(self, batch)

    monkeypatch.setattr(Trainer, "step", timed)
    monkeypatch.setattr("time.process_time", lambda: seconds[0])
    model = SDLGM(n_components=4, max_active=2, hidden=(4,), max_iter=3, random_state=0)
    X = np.random.default_rng(0).normal(size=(40, 3))
    model, used = quality.fit_for(model, X, 20.0)
    assert (used, model.n_iter_) == (20.0, 40)
    assert clock.now is wall


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A function that measures toy data in this process."""
    done: Counter[str] = Counter()

    def run_all(work, runs, folder, n_jobs, *, fresh, after_each):
        results = []
        for run in runs:
            path = run_folder(folder, run) / "result.json"
            if not path.exists():
                done[run["system"]] += 1
                path.parent.mkdir(parents=True)
                path.write_text(json.dumps(run | work(run, path.parent), allow_nan=False))
            results.append(json.loads(path.read_text()))
            after_each(results)
        return results

    monkeypatch.setattr(quality, "run_all", run_all)
    sources = {name: Source(name, "sums of patterns", "a pattern", partial(toy, "classes")) for name in ("one", "two")}
    for module in (quality, quality_data):
        monkeypatch.setattr(module, "SOURCES", sources)
    quality_data.load_quality.cache_clear()
    monkeypatch.setattr(quality, "N_COMPONENTS", N_FEATURES)
    monkeypatch.setattr(quality, "MAX_ACTIVE", 4)
    monkeypatch.setattr(quality, "LOADING_ITERATIONS", 5)

    def fit_for(model: SDLGM, X: np.ndarray, seconds: float) -> tuple[SDLGM, float]:
        return model.set_params(max_iter=int(100 * seconds), batch_size=50).fit(X), seconds

    monkeypatch.setattr(quality, "fit_for", fit_for)
    reproduce = partial(quality.reproduce_quality, tmp_path / "quality.json", n_jobs=1, work_folder=tmp_path / "runs")
    yield reproduce, done
    quality_data.load_quality.cache_clear()


@pytest.mark.usefixtures("false_clock")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test__reproduce_quality__parts__are_added_and_not_repeated(small, tmp_path):
    reproduce, done = small
    first = reproduce(data=["one"], systems=["sdlgm", "pca", "top_k", "raw"], seconds=[2.0])
    assert [row["system"] for row in first["rows"]] == ["sdlgm", "top_k", "top_k_support", "pca", "raw"]
    own, top_k, support, pca, raw = first["rows"]
    k = max(1, round(own["n_active"]))
    assert abs(pca["n_active"] - k) <= 1  # k is that of the validation rows
    assert top_k["n_active"] <= pca["n_active"]
    assert support["n_active"] == top_k["n_active"]
    assert own["n_active"] <= 4
    assert own["setting"]["likelihood"] in quality.LIKELIHOODS
    assert (own["kind"], support["kind"], top_k["kind"], raw["kind"]) == ("discrete", "discrete", "real", "reference")
    assert raw["probe"] > 0.95
    assert raw["error"] == 0.0
    assert first["data"]["one"]["shape"] == [180, 60, 60, 12]

    second = reproduce(data=["two"], systems=["sdlgm", "vq"], seconds=[1.0])
    assert [(row["data"], row["system"]) for row in second["rows"]][-2:] == [("two", "sdlgm"), ("two", "vq")]
    assert second["rows"][:5] == first["rows"]
    before = dict(done)
    third = reproduce(data=["one"], systems=["pca"], seconds=[2.0])
    assert third["rows"] == second["rows"]
    assert done == before == {"sdlgm": 2, "top_k": 1, "pca": 1, "raw": 1, "vq": 1}
    assert json.loads((tmp_path / "quality.json").read_text()) == third

    text = quality_page.page(third)
    assert "There is no result of 120 s or more." in text
    for row in third["rows"]:
        assert row["title"] in text
    assert f"{own['probe']:.3f}" in text
    assert "![Error and probe against seconds, one](../images/quality-one.png)" in text
    assert list(quality_page.pictures(third)) == ["quality-one.png", "quality-two.png"]


# The page


def rows_of(data: str, seconds: float, numbers: dict[str, tuple[float, float]]) -> list[dict[str, object]]:
    kinds = {"sdlgm": "discrete", "top_k_support": "discrete", "vq": "discrete"}
    rest = {"knn": 0.5, "bits": 1.0, "n_active": 1.0, "alive": 2, "iterations": 3, "seconds_used": 4.0, "setting": {}}
    return [
        {
            "data": data,
            "system": system,
            "title": quality.TITLES[system],
            "kind": kinds.get(system, "real"),
            "seconds": seconds,
            "error": error,
            "probe": probe,
            **rest,
        }
        for system, (error, probe) in numbers.items()
    ]


def test__summary__by_hand__counts_the_goals():
    source = {"title": "tiny", "rows": "r", "predicted": "p", "task": "classes", "shape": [1, 2, 3, 4]}
    rows = [
        *rows_of("a", 30.0, {"sdlgm": (0.9, 0.1), "vq": (0.1, 0.9), "pca": (0.1, 0.9)}),
        *rows_of(
            "a", 120.0, {"sdlgm": (0.3, 0.8), "vq": (0.4, 0.81), "top_k_support": (0.35, 0.7), "pca": (0.1, 0.82)}
        ),
        *rows_of("a", 480.0, {"sdlgm": (0.2, 0.9), "vq": (0.2, 0.89), "pca": (0.1, 0.94), "nmf": (0.5, 0.2)}),
    ]
    result = {"data": {"a": source}, "rows": rows}
    lines = quality_page.summary(result)
    assert "- of all discrete codes, the least error: 2 of 2" in lines
    titles = quality.TITLES
    behind = f". Behind: tiny after 120 s by 0.010 ({titles['vq']})"
    assert f"- of all discrete codes, the best probe: 1 of 2{behind}" in lines
    behind = f". Behind: tiny after 480 s by 0.040 ({titles['pca']})"
    assert f"- a probe within 3 points of the best real-valued code: 1 of 2{behind}" in lines
    table = [text for text in lines if text.startswith("| tiny")]
    assert table[0].startswith(f"| tiny | 30 | 0.900 | 0.100 ({titles['vq']}) | **no** ")  # does not count above
    assert table[1:] == [
        f"| tiny | 120 | 0.300 | 0.350 ({titles['top_k_support']}) | yes | 0.800 | 0.810 ({titles['vq']}) | **no** "
        f"| 0.820 ({titles['pca']}) | yes |",
        f"| tiny | 480 | 0.200 | 0.200 ({titles['vq']}) | yes | 0.900 | 0.890 ({titles['vq']}) | yes "
        f"| 0.940 ({titles['pca']}) | **no** |",
    ]
    axes = quality_page.picture(result, "a").axes
    figure_titles = {text.get_text() for text in quality_page.picture(result, "a").legends[0].get_texts()}
    assert figure_titles == {row["title"] for row in rows}
    styles = {line.get_label(): line.get_linestyle() for line in axes[0].lines}
    assert styles == {titles["sdlgm"]: "-", titles["vq"]: "-", titles["top_k_support"]: "-", titles["pca"]: "--"} | {
        titles["nmf"]: "--"
    }


def test__not_measured__by_hand__names_data_times_and_systems():
    source = {"rows": "r", "predicted": "p", "task": "classes", "shape": [1, 2, 3, 4]}
    every = dict.fromkeys(quality.TITLES, (0.3, 0.8))
    rows = [row for seconds in quality.SECONDS for row in rows_of("digits", seconds, every)]
    few = rows_of("smd", 30.0, {system: (0.3, 0.8) for system in every if system not in ("nmf", "dictionary", "raw")})
    data = {"digits": {**source, "title": "digits"}, "smd": {**source, "title": "SMD"}}
    lines = quality_page.not_measured({"data": data, "rows": [*rows, *few]})
    absent = "; ".join(source.title for name, source in quality_data.SOURCES.items() if name not in data)
    titles = quality.TITLES
    assert lines[2:-1] == [
        f"- data sets: {absent}",
        "- 120 s: SMD",
        "- 480 s: SMD",
        f"- {titles['dictionary']}; {titles['nmf']}: SMD after 30 s",
    ]
    whole = [row | {"data": name} for name in quality_data.SOURCES for row in rows]
    assert quality_page.not_measured({"data": dict.fromkeys(quality_data.SOURCES), "rows": whole}) == []


def test__pages__results_of_quality__have_a_page_and_pictures(tmp_path, monkeypatch):
    for name, empty in (("RESULTS", ()), ("WHOLE", {}), ("WITH_BLOCKS", {}), ("PICTURES", {})):
        monkeypatch.setattr(pages, name, empty)
    assert pages.find_problems(tmp_path) == []  # no results, no page
    source = {"title": "tiny", "rows": "r", "predicted": "p", "task": "classes", "shape": [1, 2, 3, 4]}
    rows = rows_of("a", 120.0, {"sdlgm": (0.3, 0.8), "vq": (0.4, 0.81)})
    about = {"protocol": {}, "command": "c", "cores": 1, "versions": {}}
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    (results / "quality.json").write_text(json.dumps({"data": {"a": source}, "rows": rows, **about}))
    assert pages.find_problems(tmp_path) == ["not up to date: docs/results/quality.md; run 'make docs'"]
    pages.build(tmp_path)
    assert pages.find_problems(tmp_path) == []  # the link to the picture leads somewhere
    assert (tmp_path / "docs" / "images" / "quality-a.png").stat().st_size > 1000
    rows[0]["error"] = 0.5
    (results / "quality.json").write_text(json.dumps({"data": {"a": source}, "rows": rows, **about}))
    assert pages.find_problems(tmp_path) == ["not up to date: docs/results/quality.md; run 'make docs'"]


def test__protocol__titles__name_every_row():
    assert set(quality.TITLES) == {"sdlgm", "raw"} | {name for peer in PEERS.values() for name in peer.titles}
    assert {name.removesuffix("_support") for name in quality.TITLES} - {"raw"} <= set(quality_page.COLOURS)
    assert quality_peers.TRIAL < 1
