"""Nine real data sets of different kinds, each with rows for training, validation and testing and something to predict.

All systems get the same numbers: columns that do not vary in training are left out, missing values are filled in, and
columns are centred and scaled by training statistics.
"""

import csv
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from reproduction.telemetry_data import (
    ETT_MONTH,
    KPIS,
    LARGEST,
    TRACES_TEST,
    TRACES_VALIDATION,
    all_traces,
    data_file,
    filled,
    trace_windows,
)
from sdlgm.data import TableOptions, Windows, load_data, load_mulan, read_for_fit, windows

Task = Literal["classes", "labels", "number"]

MNIST_TRAIN, MNIST_VALIDATION = 20_000, 2_000
DIGITS_TRAIN, DIGITS_VALIDATION = 1_200, 200
SMALL_VALIDATION = 0.2
"""Share of the training rows of small tables that is for validation."""
CAL500_TRAIN = 400
TRACE_SECONDS, TRACE_STRIDE = 16, 4
SMD_MACHINE, SMD_STEPS, SMD_STRIDE, SMD_VALIDATION = "machine-3-4", 8, 2, 0.15
ETT_STEPS, ETT_STRIDE, ETT_AHEAD = 32, 2, 24
SENTENCE_SIZE, SENTENCES_VALIDATION = 256, 1_500


@dataclass(frozen=True)
class Part:
    """Rows and what is to be predicted for each: a class, 0/1 labels or a number."""

    X: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True)
class QualityData:
    """A data set as all systems get it."""

    task: Task
    train: Part
    validation: Part
    test: Part

    @property
    def shape(self) -> list[int]:
        """Rows for training, validation and testing, and columns."""
        return [len(self.train), len(self.validation), len(self.test), self.train.X.shape[1]]


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, in words, and how it is loaded."""

    title: str
    rows: str
    predicted: str
    load: Callable[[], QualityData]


def prepared(task: Task, parts: tuple[Part, Part, Part], *, common_scale: bool = False) -> QualityData:
    """Return parts without constant columns, filled in, centred and scaled by the statistics of the first part.

    Parameters
    ----------
    task : {"classes", "labels", "number"}
    parts : tuple of Part
        For training, validation and testing. Missing values are NaN.
    common_scale : bool, default=False
        Divide all columns by the same number, so that columns in the same unit keep their proportions. Otherwise every
        column is divided by its standard deviation.

    Returns
    -------
    QualityData

    """
    X = parts[0].X.astype(np.float64)
    mean, deviation = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    kept = deviation > 1e-6 * np.maximum(1.0, np.abs(mean))
    scale = np.sqrt(np.square(deviation[kept]).mean()) if common_scale else deviation[kept]

    def ready(part: Part) -> Part:
        scaled = (part.X[:, kept].astype(np.float64) - mean[kept]) / scale
        limited = np.clip(np.nan_to_num(scaled, nan=0.0), -LARGEST, LARGEST)
        return Part(limited.astype(np.float32), part.y)

    train, validation, test = map(ready, parts)
    return QualityData(task, train, validation, test)


def _three(X: np.ndarray, y: np.ndarray, n_train: int, n_validation: int, test: Part | None = None) -> tuple:
    """Split rows in an order that is fixed by a seed; the rest is for testing if there are no other test rows."""
    order = np.random.default_rng(0).permutation(len(X))
    ends = (n_train, n_train + n_validation)
    first, second, rest = (Part(X[rows], y[rows]) for rows in np.split(order, ends))
    return first, second, rest if test is None else test


def _mnist() -> QualityData:
    train, test = (load_data(f"mnist:{part}") for part in ("train", "test"))
    of_test = Part(np.asarray(test.X), np.asarray(test.labels))
    parts = _three(np.asarray(train.X), np.asarray(train.labels), MNIST_TRAIN, MNIST_VALIDATION, of_test)
    return prepared("classes", parts, common_scale=True)


def _digits() -> QualityData:
    data = load_data("digits")
    parts = _three(np.asarray(data.X), np.asarray(data.labels), DIGITS_TRAIN, DIGITS_VALIDATION)
    return prepared("classes", parts, common_scale=True)


def _published_split(name: str) -> QualityData:
    train, test = (load_mulan(f"{name}:{part}") for part in ("train", "test"))
    return _small(train.X, train.Y, Part(test.X, test.Y))


def _cal500() -> QualityData:
    whole = load_mulan("cal500")
    order = np.random.default_rng(0).permutation(len(whole.X))
    train, test = order[:CAL500_TRAIN], order[CAL500_TRAIN:]
    return _small(whole.X[train], whole.Y[train], Part(whole.X[test], whole.Y[test]))


def _small(X: np.ndarray, Y: np.ndarray, test: Part) -> QualityData:
    n_validation = round(SMALL_VALIDATION * len(X))
    return prepared("labels", _three(X, Y, len(X) - n_validation, n_validation, test))


def _telemetry() -> QualityData:
    """5G: windows of all KPIs; the downlink throughput of the next second is to be predicted."""

    def part(traces: list[Path]) -> Part:
        series = trace_windows(traces, TRACE_SECONDS + 1, TRACE_STRIDE)
        X = filled(series[:, :, :-1]).reshape(len(series), -1)
        return Part(X, series[:, KPIS.index("DL_bitrate"), -1])

    train, validation, test = map(part, all_traces())
    return prepared("number", (train, validation, test))


def _smd() -> QualityData:
    """Server metrics: the first principal component of the next step is to be predicted."""
    folder = data_file("telemetry", "smd")
    before, after = (
        np.asarray(load_data(str(folder / f"{SMD_MACHINE}_{part}.csv.gz")).X, np.float64) for part in ("train", "test")
    )
    end = round(len(before) * (1 - SMD_VALIDATION))
    component = PCA(1, random_state=0).fit(before[:end])

    def part(steps: np.ndarray) -> Part:
        made = windows(steps, length=SMD_STEPS + 1, stride=SMD_STRIDE).matrix
        series = made.reshape(len(made), steps.shape[1], SMD_STEPS + 1)
        return Part(series[:, :, :-1].reshape(len(made), -1), component.transform(series[:, :, -1])[:, 0])

    return prepared("number", (part(before[:end]), part(before[end:]), part(after)))


def _ett() -> QualityData:
    """Transformer temperatures: 12 months, 4 and 4; the oil temperature some hours ahead is to be predicted."""
    options = TableOptions(time_column="datetime", window=ETT_STEPS + ETT_AHEAD, stride=ETT_STRIDE)
    made = read_for_fit(str(data_file("forecasting", "ETTm1.parquet")), options)
    assert isinstance(made, Windows)
    names = [column.name for column in made.schema.columns]
    series = made.matrix.reshape(len(made), len(names), ETT_STEPS + ETT_AHEAD)
    X = series[:, :, :ETT_STEPS].reshape(len(made), -1)
    y = series[:, names.index("OT"), -1]
    begin, end = made.origins.starts, made.origins.starts + ETT_STEPS + ETT_AHEAD

    def part(first: int, last: int) -> Part:
        inside = (begin >= first * ETT_MONTH) & (end <= last * ETT_MONTH)
        return Part(X[inside], y[inside])

    return prepared("number", (part(0, 12), part(12, 16), part(16, 20)))


def _sentences() -> QualityData:
    """Questions of bank customers as latent semantic vectors, in 77 classes."""
    texts, names = zip(*(_questions(part) for part in ("train", "test")), strict=True)
    classes = {name: number for number, name in enumerate(sorted(set(names[0])))}
    of_train, of_test = (np.array([classes[name] for name in part]) for part in names)
    order = np.random.default_rng(0).permutation(len(of_train))
    train, validation = order[SENTENCES_VALIDATION:], order[:SENTENCES_VALIDATION]
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    counted = words.fit_transform([texts[0][row] for row in train])
    decomposition = TruncatedSVD(SENTENCE_SIZE, random_state=0).fit(counted)
    # Components come by size; in embeddings every column has a share of everything, which a rotation brings about.
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(SENTENCE_SIZE, SENTENCE_SIZE)))[0]

    def part(of: list[str], y: np.ndarray) -> Part:
        return Part(normalize(decomposition.transform(words.transform(of))) @ rotation, y)

    parts = (
        part([texts[0][row] for row in train], of_train[train]),
        part([texts[0][row] for row in validation], of_train[validation]),
        part(list(texts[1]), of_test),
    )
    return prepared("classes", parts)


def _questions(part: str) -> tuple[list[str], list[str]]:
    with gzip.open(data_file("text", "banking77", f"{part}.csv.gz"), "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["category"] for row in rows]


MULAN_PREDICTED = "the labels"
SOURCES: Mapping[str, Source] = {
    "mnist": Source(
        "MNIST, grey",
        f"{MNIST_TRAIN:,} and {MNIST_VALIDATION:,} of the 60,000 training images, and the 10,000 test images",
        "the digit",
        _mnist,
    ),
    "digits": Source("digits", "the 1,797 images of scikit-learn, split by a seed", "the digit", _digits),
    "emotions": Source("Emotions", "the published split", MULAN_PREDICTED, lambda: _published_split("emotions")),
    "birds": Source("Birds", "the published split, sites one-hot", MULAN_PREDICTED, lambda: _published_split("birds")),
    "cal500": Source("CAL500", f"{CAL500_TRAIN} rows and the other 102, chosen by a seed", MULAN_PREDICTED, _cal500),
    "5g": Source(
        "5G windows",
        f"windows of {TRACE_SECONDS} rows, about as many seconds, of {len(KPIS)} KPIs, every {TRACE_STRIDE} rows, "
        f"split by trace: of every application, static and driving, {TRACES_VALIDATION:.0%} of the traces for "
        f"validation and {TRACES_TEST:.0%} for testing, chosen by a seed",
        "the downlink throughput of the next row",
        _telemetry,
    ),
    "smd": Source(
        "SMD windows",
        f"windows of {SMD_STEPS} steps of all metrics of {SMD_MACHINE}, every {SMD_STRIDE} steps, with the published "
        f"split; the last {SMD_VALIDATION:.0%} of the training steps are for validation. Later data drift away",
        "the first principal component of the metrics at the next step",
        _smd,
    ),
    "ett": Source(
        "ETT windows",
        f"windows of {ETT_STEPS} steps of the 7 columns of ETTm1, every {ETT_STRIDE} steps: 12 months, 4 and 4",
        f"the oil temperature {ETT_AHEAD} steps after the window",
        _ett,
    ),
    "sentences": Source(
        "sentence vectors",
        f"the questions of Banking77 as {SENTENCE_SIZE} latent semantic dimensions (TF-IDF of words and pairs, "
        "truncated SVD, unit length, a fixed rotation that spreads them over all columns), learned from the training "
        f"rows; {SENTENCES_VALIDATION:,} of the published training rows are for validation",
        "one of 77 classes",
        _sentences,
    ),
}
"""The data sets, by name."""


@lru_cache(maxsize=1)
def load_quality(name: str) -> QualityData:
    """Return a data set. The last one is kept, since many runs in a row need it."""
    return SOURCES[name].load()
