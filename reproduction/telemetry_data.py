"""Series of measurements as windows: what is read for several tables, and the data sets of `telemetry`."""

import gzip
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from sdlgm.data import TableOptions, Windows, load_data, read_for_fit, windows
from sdlgm.errors import DataError

KPIS = (
    "Speed",
    "RSRP",
    "RSRQ",
    "SNR",
    "CQI",
    "RSSI",
    "DL_bitrate",
    "UL_bitrate",
    "NRxRSRP",
    "NRxRSRQ",
)
TRACES_VALIDATION, TRACES_TEST = 0.15, 0.2
ETT_MONTH = 30 * 24 * 4
LARGEST = 10.0
"""Standardised values beyond this are moved to it."""
SECONDS, SERVER_STEPS, ETT_STEPS = 16, 16, 96
"""Length of a window of each kind of data."""
TRAINING_STRIDES = {"5g": 4, "server": 2, "ett": 2}
"""Steps from a window for training to the next."""
HELD_OUT = 0.15
"""Share of the training steps of a server, the last ones, that are for validation."""
ETT_AHEAD = 24
"""Steps after a window that are forecast."""


def data_file(*parts: str) -> Path:
    """Return a file or folder below $SDLGM_DATA."""
    root = os.environ.get("SDLGM_DATA")
    path = Path(root or "").joinpath(*parts)
    if not root or not path.exists():
        raise DataError(f"{'/'.join(parts)}: not found; set SDLGM_DATA to the folder that has it")
    return path


def filled(series: np.ndarray) -> np.ndarray:
    """Fill missing values of windows (rows, columns, times) with the last value before, if there is one."""
    times = np.where(np.isnan(series), 0, np.arange(series.shape[-1]))
    return np.take_along_axis(series, np.maximum.accumulate(times, axis=-1), axis=-1)


def all_traces() -> tuple[list[Path], list[Path], list[Path]]:
    """Return the 5G traces for training, validation and testing."""
    return split_traces(sorted(data_file("telemetry", "5g").rglob("*.csv.gz")))


def split_traces(traces: list[Path]) -> tuple[list[Path], list[Path], list[Path]]:
    """Split the traces of every application, static and driving, for training, validation and testing."""
    kinds: dict[tuple[str, str], list[Path]] = {}
    for path in traces:
        application, mobility = path.parts[path.parts.index("5g") + 1 :][:2]
        kinds.setdefault((application, mobility), []).append(path)
    generator, parts = np.random.default_rng(0), ([], [], [])
    for of_kind in kinds.values():
        n_test, n_validation = (max(1, round(share * len(of_kind))) for share in (TRACES_TEST, TRACES_VALIDATION))
        order = generator.permutation(len(of_kind))
        ends = (len(order) - n_test - n_validation, len(order) - n_test)
        for part, which in zip(parts, np.split(order, ends), strict=True):
            part.extend(of_kind[number] for number in which)
    return parts


def trace_windows(traces: Sequence[Path], length: int, stride: int) -> np.ndarray:
    """Return windows of all KPIs of some traces, of shape (windows, KPIs, length). None spans two traces or a gap."""
    table = pa.concat_tables(_trace(path, str(number)) for number, path in enumerate(traces))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gaps and repeated times are known
        made = windows(table, length=length, stride=stride, time_column="Timestamp", group="trace")
    return made.matrix.reshape(len(made), len(KPIS), length)


def _trace(path: Path, name: str) -> pa.Table:
    """Return the KPIs of a trace; its columns may be empty, so their type is given."""
    types = {"Timestamp": pa.string(), **dict.fromkeys(KPIS, pa.float64())}
    options = arrow_csv.ConvertOptions(column_types=types, null_values=["-"], include_columns=list(types))
    table = arrow_csv.read_csv(path, convert_options=options)
    return table.append_column("trace", pa.array([name] * table.num_rows))


# Data sets of `telemetry`


@dataclass(frozen=True)
class Part:
    """Windows, and what is to be predicted from each, or whether each of its steps is an anomaly."""

    series: np.ndarray
    """(windows, columns, length)"""
    y: np.ndarray | None = None
    """(windows, numbers)"""
    is_anomaly: np.ndarray | None = None
    """(windows, length)"""

    @property
    def rows(self) -> np.ndarray:
        """Windows as rows, column by column."""
        return self.series.reshape(len(self.series), -1)


@dataclass(frozen=True)
class Telemetry:
    """A data set as all systems get it."""

    train: Part
    validation: Part
    test: Part
    stride: int
    """Steps from a window for training to the next; it divides the length. Other windows do not overlap."""
    gzip_bits: float
    """Bits a sample of the test windows without loss: numbers of single precision, column by column, by gzip."""

    @property
    def n_columns(self) -> int:
        return self.train.series.shape[1]

    @property
    def length(self) -> int:
        return self.train.series.shape[2]

    @property
    def shape(self) -> list[int]:
        """Windows for training, validation and testing, columns, and steps."""
        return [*(len(part.series) for part in (self.train, self.validation, self.test)), self.n_columns, self.length]


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, in words, and how it is loaded."""

    title: str
    rows: str
    predicted: str | None
    load: Callable[[], Telemetry]
    allowed: float = 0.1
    """Share by which the error of the prediction may be larger than that from the windows as they are."""


def prepared(train: Part, validation: Part, test: Part, stride: int) -> Telemetry:
    """Return parts without constant columns, filled in, centred and scaled by the statistics of the first part."""
    mean, deviation = (function(train.series, axis=(0, 2))[:, None] for function in (np.nanmean, np.nanstd))
    kept = (deviation > 1e-6 * np.maximum(1.0, np.abs(mean)))[:, 0]

    def ready(part: Part) -> Part:
        scaled = (filled(part.series)[:, kept] - mean[kept]) / deviation[kept]
        limited = np.clip(np.nan_to_num(scaled, nan=0.0), -LARGEST, LARGEST)
        return Part(limited.astype(np.float32), part.y, part.is_anomaly)

    in_time = test.series[:, kept].transpose(1, 0, 2).astype(np.float32)
    gzip_bits = 8 * len(gzip.compress(in_time.tobytes(), mtime=0)) / in_time.size
    return Telemetry(ready(train), ready(validation), ready(test), stride, gzip_bits)


def _five_g() -> Telemetry:
    def part(traces: Sequence[Path], stride: int) -> Part:
        made = trace_windows(traces, SECONDS + 1, stride)
        return Part(made[:, :, :-1], made[:, KPIS.index("DL_bitrate"), -1:])

    train, validation, test = all_traces()
    stride = TRAINING_STRIDES["5g"]
    return prepared(part(train, stride), part(validation, SECONDS), part(test, SECONDS), stride)


def _server(data: str, machine: str) -> Telemetry:
    before, after, labels = (
        np.asarray(load_data(str(data_file("telemetry", data, f"{machine}_{part}.csv.gz"))).X, np.float64)
        for part in ("train", "test", "test_label")
    )
    end = round(len(before) * (1 - HELD_OUT))

    def cut(steps: np.ndarray, stride: int) -> np.ndarray:
        made = windows(steps, length=SERVER_STEPS, stride=stride).matrix
        return made.reshape(len(made), steps.shape[1], SERVER_STEPS)

    return prepared(
        Part(cut(before[:end], TRAINING_STRIDES["server"])),
        Part(cut(before[end:], SERVER_STEPS)),
        Part(cut(after, SERVER_STEPS), is_anomaly=cut(labels.reshape(-1, 1), SERVER_STEPS)[:, 0] > 0),
        TRAINING_STRIDES["server"],
    )


def _transformer(name: str) -> Telemetry:
    def part(first: int, last: int, stride: int) -> Part:
        options = TableOptions(time_column="datetime", window=ETT_STEPS + ETT_AHEAD, stride=stride)
        made = read_for_fit(str(data_file("forecasting", f"{name}.parquet")), options)
        assert isinstance(made, Windows)
        names = [column.name for column in made.schema.columns]
        begin, end = made.origins.starts, made.origins.starts + ETT_STEPS + ETT_AHEAD
        series = made.matrix.reshape(len(made), len(names), -1)
        series = series[(begin >= first * ETT_MONTH) & (end <= last * ETT_MONTH)]
        return Part(series[:, :, :ETT_STEPS], series[:, names.index("OT"), ETT_STEPS:])

    stride = TRAINING_STRIDES["ett"]
    return prepared(part(0, 12, stride), part(12, 16, ETT_STEPS), part(16, 20, ETT_STEPS), stride)


_SERVER_ROWS = (
    f"windows of {SERVER_STEPS} steps of {{}}, the publisher's split; the last {HELD_OUT:.0%} of the training steps "
    "are for validation"
)
_ETT_ROWS = f"windows of {ETT_STEPS} quarters of an hour: 12 months, 4 and 4"
_ETT_PREDICTED = f"the oil temperature of the {ETT_AHEAD} steps after the window"
SOURCES: Mapping[str, Source] = {
    "5g": Source(
        "5G",
        f"windows of {SECONDS} rows, about as many seconds, split by trace: of every application, static and driving, "
        f"{TRACES_VALIDATION:.0%} of the traces for validation and {TRACES_TEST:.0%} for testing, chosen by a seed",
        "the downlink throughput of the next second",
        _five_g,
        allowed=0.05,
    ),
    **{
        f"smd-{machine}": Source(
            f"SMD {machine}",
            _SERVER_ROWS.format("a minute"),
            None,
            lambda machine=machine: _server("smd", f"machine-{machine}"),
        )
        for machine in ("1-6", "3-4")
    },
    **{
        f"asd-{machine}": Source(
            f"ASD {machine}",
            _SERVER_ROWS.format("five minutes"),
            None,
            lambda machine=machine: _server("asd", f"omi-{machine}"),
        )
        for machine in (1, 4, 8)
    },
    "ettm1": Source("ETTm1", _ETT_ROWS, _ETT_PREDICTED, lambda: _transformer("ETTm1")),
    "ettm2": Source("ETTm2", _ETT_ROWS, _ETT_PREDICTED, lambda: _transformer("ETTm2")),
}
"""The data sets, by name."""


@lru_cache(maxsize=1)
def load_telemetry(name: str) -> Telemetry:
    """Return a data set. The last one is kept, since many runs in a row need it."""
    return SOURCES[name].load()
