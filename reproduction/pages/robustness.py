"""docs/results/robustness.md: kills, changed files, budgets and the memory of readers."""

from collections.abc import Mapping, Sequence
from typing import Any

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines

Result = Mapping[str, Any]


def page(result: Result) -> str:
    """Return the page."""
    sections = result["sections"]
    times = ", ".join(f"{name} {part['seconds']:.0f} s" for name, part in sections.items())
    return "\n".join(
        [
            "# Robustness, measured",
            "",
            generated_from("robustness.json"),
            "",
            "What [Security](../../SECURITY.md) promises, tried many times. The numbers of lost files, of unequal "
            "resumes, of unnamed errors and of rows beyond their budget should be 0.",
            "",
            "## Kills",
            "",
            *_kills(sections["kills"]["result"]),
            "",
            "## Changed files",
            "",
            *_mutations(sections["mutations"]["result"]),
            "",
            "## Budgets",
            "",
            *_budgets(sections["budgets"]["result"]),
            "",
            "## Memory of readers",
            "",
            *_memory(sections["memory"]["result"]),
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            f"- **seed**: {sections['kills']['settings']['seed']}",
            f"- **time**: {times}",
            "",
        ]
    )


def _kills(found: Result) -> list[str]:
    return [
        *heading("", "number"),
        line("kills", f"{found['kills']:,}"),
        line("files lost or damaged", str(found["lost_files"])),
        line("resumed runs that ended elsewhere than an uninterrupted one", str(found["unequal_resumes"])),
        line("iterations of training lost at most (a checkpoint every 4)", str(found["most_iterations_lost"])),
    ]


def _mutations(rows: Sequence[Result]) -> list[str]:
    names = ("tried", "read", "named_errors", "unnamed")
    total = {name: sum(row[name] for row in rows) for name in names}
    return [
        *heading("reader", "changed files", "read", "refused by a named error", "other errors"),
        *(line(row["target"], *(f"{row[name]:,}" for name in names)) for row in rows),
        line("all", *(f"{total[name]:,}" for name in names)),
        "",
        "The readers `parquet_lists`, `sparse_...`, `settings_...` and `weights_...` do several things with a file. "
        "They go on after an error of sdlgm, and skip settings that are no JSON, so that they count every file as "
        '"read" that causes no other error.',
    ]


def _budgets(found: Result) -> list[str]:
    return [
        *heading("", "number"),
        line("rows encoded or predicted", f"{found['rows']:,}"),
        line("beyond their budget", str(found["beyond"])),
    ]


def _memory(rows: Sequence[Result]) -> list[str]:
    largest = max(row["peak_bytes"] for row in rows)
    return [
        f"The largest process took {largest / 2**20:,.0f} MiB, its imports included; the limit is 2,048. Hostile files "
        "are refused, honest ones are read.",
        "",
        *heading("file", "reader", "size", "outcome", "memory at the start", "largest memory"),
        *(
            line(
                f"{row['kind']}: {row['file']}",
                row["reader"],
                f"{row['file_bytes']:,} bytes",
                row["outcome"],
                *(f"{row[name] / 2**20:,.0f} MiB" for name in ("start_bytes", "peak_bytes")),
            )
            for row in rows
        ),
    ]
