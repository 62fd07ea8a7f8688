"""docs/scaling.md: rows a second from files and memory, and by several processes."""

from collections.abc import Mapping
from typing import Any

from reproduction.pages.markdown import heading, line, protocol_lines

Result = Mapping[str, Any]
N_MANY = 100_000_000
SOURCES = {"memory": "an array in memory", "npy": "a folder of `.npy` files", "parquet": "a folder of parquet files"}
ENGINES = {"local": "`--engine local`, one process", "ray, 2 workers": "`--engine ray --workers 2`, one machine"}


def blocks(result: Result) -> dict[str, list[str]]:
    """Return the block with all measurements."""
    return {
        "measured": [
            *_training(result),
            "",
            *_processes(result),
            "",
            *_encoding(result),
            "",
            *_many(result),
            "",
            *protocol_lines(result),
        ]
    }


def _training(result: Result) -> list[str]:
    rates = result["training"]
    lines = heading("training by one process, rows from", "rows a second", "of memory")
    return lines + [
        line(text, f"{rates[name]:,.0f}", f"{100 * rates[name] / rates['memory']:.0f} %")
        for name, text in SOURCES.items()
    ]


def _processes(result: Result) -> list[str]:
    alone, *teams = result["teams"]
    columns = [part for team in teams for part in (team, "gain")]
    lines = heading("training on one machine, rows a second", alone, *columns)
    for batch in result["batches"]:
        one, *rates = (result["processes"][f"{team}, batches of {batch}"] for team in result["teams"])
        gains = [part for rate in rates for part in (f"{rate:,.0f}", f"{rate / one:.2f}")]
        lines.append(line(f"batches of {batch}", f"{one:,.0f}", *gains))
    return lines


def _encoding(result: Result) -> list[str]:
    lines = heading("encoding files into files", "rows a second")
    lines += [line(text, f"{result['encoding'][name]:,.0f}") for name, text in ENGINES.items()]
    return [*lines, "", f"The Ray workers take {result['encoding']['ray, start']:.0f} seconds to start."]


def _many(result: Result) -> list[str]:
    """Extrapolate the rates to a hundred million rows."""
    encoding, training = result["encoding"], result["training"]
    size = 4 * result["n_columns"] * N_MANY / 1e9
    one, two = (N_MANY / encoding[name] / 60 for name in ENGINES)
    epoch = N_MANY / training["npy"] / 3600
    default = result["default_iterations"] * result["batch_size"]
    return [
        f"**A hundred million rows** of {result['n_columns']} numbers in single precision are {size:,.0f} GB. Encoding "
        f"them takes {N_MANY:,} / {encoding['local']:,.0f} a second = {one:.0f} minutes with one process, {two:.0f} "
        f"minutes with two workers, and {two / 10:.0f} minutes with ten such machines if the rate scales, each reading "
        f"{1000 * size / (two * 60):,.0f} MB a second. Training does not need all rows: the default "
        f"{result['default_iterations']:,} iterations use {default:,} rows, drawn from all files, and take "
        f"{default / training['npy'] / 60:.0f} minutes. One epoch over all rows would take {epoch:.0f} hours. Before "
        "training, all files are read once to check the data and to find their ranges.",
    ]
