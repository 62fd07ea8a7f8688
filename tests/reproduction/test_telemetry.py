"""Rate against quality of measurements, on small data that are made here."""

import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from reproduction import telemetry, telemetry_data
from reproduction.pages.telemetry import _compared as compared
from reproduction.pages.telemetry import _least_error as least_error
from reproduction.pages.telemetry import page as text_of
from reproduction.telemetry_data import Part, Source, Telemetry, prepared
from reproduction.telemetry_levels import Levels
from reproduction.telemetry_peers import PEERS, histogram_bits, packages_of, quantized
from runs_here import run_here
from sdlgm import DataError

CHEAP = ("pca", "pca-levels", "dct", "delta")


def toy(*, with_labels: bool = False) -> Telemetry:
    """Return windows of three waves and a constant, with holes, of which the last step says what comes next."""
    rng = np.random.default_rng(0)

    def part(n: int, stride: int) -> Part:
        times = stride * np.arange(n)[:, None] + np.arange(9)
        waves = np.stack(
            [np.sin(times / 7), np.cos(times / 11), (times % 30) / 10.0, np.full(times.shape, 5.0)], axis=1
        )
        waves[:, 0] += 0.05 * rng.normal(size=times.shape)
        waves[::5, 1, 3] = np.nan
        labels = (times[:, :-1] % 100 < 3) if with_labels else None
        return Part(waves[:, :, :-1], None if with_labels else waves[:, 0, -1:], labels)

    return prepared(part(400, 2), part(60, 8), part(50, 8), 2)


@pytest.fixture
def known(monkeypatch):
    """The toy data as data sets of the command."""
    telemetry_data.load_telemetry.cache_clear()
    sources = {
        "waves": Source("Waves", "made", "the next value", toy),
        "labelled": Source("Labelled waves", "made", None, lambda: toy(with_labels=True)),
    }
    for module in (telemetry, telemetry_data):
        monkeypatch.setattr(module, "SOURCES", sources)
    yield
    telemetry_data.load_telemetry.cache_clear()


def test__prepared__statistics__are_those_of_training():
    data = toy()
    assert data.shape == [400, 60, 50, 3, 8]
    np.testing.assert_allclose(data.train.series.mean(axis=(0, 2)), 0, atol=0.05)
    np.testing.assert_allclose(data.train.series.std(axis=(0, 2)), 1, atol=0.05)
    assert np.isfinite(data.test.rows).all()


def test__histogram_bits__frequencies_of_training__are_the_entropy_and_new_numbers_cost_more():
    rng = np.random.default_rng(0)
    known = rng.choice([0, 1, 5], (20_000, 1), p=[0.5, 0.25, 0.25])
    assert histogram_bits(known, known) / 20_000 == pytest.approx(1.5, abs=0.01)
    assert histogram_bits(known, np.array([[3]])) > 16 + histogram_bits(known, np.array([[5]]))


def test__quantized__dead_zone__rounds_towards_zero():
    values = np.array([0.0, 0.49, 0.6, -0.6, 1.4, -1.7])
    assert quantized(values, 1.0, 0.5).tolist() == [0, 0, 1, -1, 1, -2]
    assert quantized(values, 1.0, 0.65).tolist() == [0, 0, 0, 0, 1, -2]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("product", "sparse", "vq") else name for name in PEERS],
)
def test__peer__more_bits__have_less_error(name, monkeypatch):
    package = PEERS[name].package
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    data, found = toy(), []
    for candidate in PEERS[name].candidates(data):
        coded = candidate.code(data.test.rows)
        assert coded.decoded.shape == data.test.rows.shape
        found.append((coded.bits / data.test.rows.size, float(np.square(coded.decoded - data.test.rows).mean())))
    bits, errors = map(np.array, zip(*found, strict=True))
    assert (bits > 0).any()
    most, least = errors[bits.argmax()], errors[bits.argmin()]
    assert most < 0.5 * least


def test__wavelets__length_that_is_no_power_of_two__are_read_back():
    pytest.importorskip("pywt")
    data, series = toy(), np.random.default_rng(0).normal(size=(30, 3, 12)).astype(np.float32)
    data = replace(data, train=Part(series), test=Part(series))
    errors = [
        np.abs(one.code(data.test.rows).decoded - data.test.rows).max() for one in PEERS["wavelets"].candidates(data)
    ]
    assert min(errors) < 0.5


def test__chosen__settings__by_validation_alone():
    points = [
        {"data": "a", "system": "s", "validation_bits_per_sample": bits, "validation_fvu": fvu, "fvu": 1 - fvu}
        for bits, fvu in ((0.04, 0.9), (0.3, 0.5), (0.3, 0.4), (0.6, 0.1))
    ]
    rows = list(telemetry.chosen(points, "a", "s"))
    assert [row["rate"] for row in rows] == [0.05, 0.1, 0.2, 0.35, 0.5, 1.0]
    assert [row["validation_fvu"] for row in rows] == [0.9, 0.9, 0.9, 0.4, 0.4, 0.1]
    assert not list(telemetry.chosen(points, "a", "other"))


def test__anomalies__steps_with_larger_errors__are_found():
    data = toy(with_labels=True)
    assert data.test.is_anomaly is not None
    wrong = data.test.series + data.test.is_anomaly[:, None]
    assert telemetry.anomalies_found(data, wrong.reshape(len(wrong), -1)) == (1.0, 1.0)
    area, f1 = telemetry.by_window(data, data.test.is_anomaly.mean(axis=1))
    assert area > 0.9
    assert 0.5 < f1 < 1  # a window has steps that are none


def test__prediction__from_the_windows__is_better_than_from_nothing():
    data = toy()
    parts = [part.rows for part in (data.train, data.validation, data.test)]
    parts[0] = parts[0][:: telemetry.prediction_stride(data)]
    nothing = [np.zeros_like(part) for part in parts]
    of_windows, of_nothing = (telemetry.prediction_error(data, of) for of in (parts, nothing))
    assert all(known < 0.5 * other for known, other in zip(of_windows, of_nothing, strict=True))
    with_codes = telemetry.prediction_error(data, [sp.csr_matrix(part) for part in parts])
    assert with_codes == pytest.approx(of_windows)


def test__prediction__ridge__is_that_of_scikit_learn():
    data = toy()
    assert data.train.y is not None
    assert data.validation.y is not None
    assert data.test.y is not None
    train, validation, test = (part.rows.astype(np.float64) for part in (data.train, data.validation, data.test))
    found = {}
    for penalty in telemetry.PENALTIES:
        model = Ridge(penalty).fit(train, data.train.y.ravel())
        parts = ((validation, data.validation.y), (test, data.test.y))
        found[penalty] = [np.sqrt(np.square(model.predict(rows) - y.ravel()).mean()) for rows, y in parts]
    best = min(found, key=lambda penalty: found[penalty][0])
    assert telemetry.prediction_error(data, [train, validation, test]) == pytest.approx(found[best])


def test__page__least_error__is_that_of_a_setting_or_between_two():
    points = [{"bits_per_sample": bits, "fvu": fvu} for bits, fvu in ((0.1, 0.8), (0.2, 0.9), (0.3, 0.4))]
    assert least_error(points, 0.05) is None
    assert least_error(points, 0.1) == 0.8
    assert least_error(points, 0.2) == pytest.approx(0.6)  # between the first and the last
    assert least_error(points, 0.5) == 0.4


def test__page__sdlgm_that_uses_fewer_bits__is_compared_with_what_the_rate_allows():
    own = {"data": "a", "system": "sdlgm", "rate": 0.5, "validation_fvu": 0.5, "fvu": 0.5, "bits_per_sample": 0.1}
    other = {"data": "a", "system": "pca", "title": "PCA", "fvu": 0.25, "bits_per_sample": 0.4}
    assert compared({"rows": [own], "points": [other]}, "a", 0.5) == (2.0, "PCA")
    assert compared({"rows": [own], "points": [other]}, "a", 0.2) is None
    wide = {**own, "bits_per_sample": 0.6}  # more than for the validation windows
    finer = {**other, "fvu": 0.125, "bits_per_sample": 0.6}
    assert compared({"rows": [wide], "points": [other, finer]}, "a", 0.5) == (4.0, "PCA")


def test__levels__bytes__are_the_levels_again_and_new_ones_too():
    data = toy()
    levels = Levels.of(data, 0.25)
    numbers = levels.numbers(data.test.rows)
    numbers[7] += 400  # no training window is there
    content = levels.to_bytes(numbers)
    np.testing.assert_array_equal(levels.from_bytes(content, len(numbers)), numbers)
    ideal = histogram_bits(
        *(np.diff(levels.numbers(rows), axis=0, prepend=0) for rows in (data.train.rows[::4], data.test.rows))
    )
    assert 8 * len(levels.to_bytes(levels.numbers(data.test.rows))) == pytest.approx(ideal, rel=0.1)
    near = levels.rows(levels.numbers(data.test.rows)).reshape(data.test.series.shape)
    assert np.abs(near.mean(axis=2) - data.test.series.mean(axis=2)).max() <= 0.125 + 1e-6


def test__loss__fewest_bits__by_validation():
    source = {"name": "a", "allowed": 0.1, "gzip_bits": 10.0}
    source["references"] = {"kpi_error": 2.0, "validation_kpi_error": 1.0}
    names = ("title", "setting", "fvu")
    points = [
        {
            **dict.fromkeys(names),
            "data": "a",
            "system": "s",
            "validation_bits_per_sample": bits,
            "bits_per_sample": bits,
            "validation_kpi_error": error,
            "kpi_error": 2.2,
        }
        for bits, error in ((0.1, 1.2), (0.2, 1.05), (0.4, 1.0))
    ]
    (row,) = telemetry.within_loss(points, source, "s")
    assert row["bits_per_sample"] == 0.2
    assert row["ratio"] == pytest.approx(50)
    assert row["loss"] == pytest.approx(0.1)
    assert not list(telemetry.within_loss(points[:1], source, "s"))


def test__telemetry__small_run__has_rows_and_a_page(known, monkeypatch, tmp_path):
    monkeypatch.setattr(telemetry, "ITERATIONS", 100)
    monkeypatch.setattr(telemetry, "N_COMPONENTS", 16)
    settings = {"sdlgm": (telemetry.Setting(4),), "sdlgm-levels": (telemetry.Setting(4, 0.5),)}
    monkeypatch.setattr(telemetry, "OWN", settings)
    monkeypatch.setattr(telemetry, "run_all", run_here)
    out = tmp_path / "telemetry.json"
    systems = ["sdlgm", "sdlgm-levels", *CHEAP, "reference"]
    result = telemetry.reproduce_telemetry(
        out, data=["waves", "labelled"], systems=systems, n_jobs=1, work_folder=tmp_path
    )
    assert result == json.loads(out.read_text())
    assert {row["system"] for row in result["rows"]} == {"sdlgm", "sdlgm-levels", *CHEAP}
    own = next(point for point in result["points"] if (point["data"], point["system"]) == ("waves", "sdlgm"))
    assert own["coding"] == "real"
    assert own["kpi_error_from_codes"] > 0
    of_labelled = [point for point in result["points"] if point["data"] == "labelled"]
    assert all(0 <= point["auroc"] <= 1 for point in of_labelled)
    assert all(0 < point["f1_of_codes"] <= 1 for point in of_labelled if point["system"] == "sdlgm-levels")
    assert result["data"]["waves"]["systems"] == [one for one in telemetry.SYSTEMS if one in systems]
    everything = {**result, "data": {**result["data"]}}
    for name, source in result["data"].items():
        everything["data"][name] = {**source, "systems": list(telemetry.SYSTEMS)}
    assert "Not run" not in text_of(everything)
    assert "- Not run: product quantisation" in text_of(result)
    part = {**result, "data": {**result["data"], "waves": {**result["data"]["waves"], "systems": ["pca"]}}}
    assert "autoencoder, SDLGM, SDLGM, levels apart, PCA, levels apart" in text_of(part)
    again = telemetry.reproduce_telemetry(out, data=["labelled"], systems=["pca"], n_jobs=1, work_folder=tmp_path)
    assert {name: again[name] for name in ("data", "rows", "ratios")} == {
        name: result[name] for name in ("data", "rows", "ratios")
    }  # what other runs have found is kept
    text = text_of(result)
    assert "| PCA, rounded | ideal |" in text
    assert "## Labelled waves" in text
    assert "isolation forest" in text
    assert "| Waves |" in text


def test__telemetry__package_that_is_missing__is_said_before_work(monkeypatch, tmp_path):
    assert packages_of(["pca", "sz3", "zfp"]) == {"sz3": "pysz", "zfp": "zfpy"}
    monkeypatch.setattr(telemetry, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pysz: not installed"):
        telemetry.reproduce_telemetry(tmp_path / "x.json", data=["5g"], systems=["sz3"], n_jobs=1, work_folder=tmp_path)
