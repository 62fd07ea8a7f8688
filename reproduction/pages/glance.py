"""docs/results/README.md: the main tables on one page."""

from collections.abc import Mapping
from typing import Any

from reproduction.pages import counts, long, performance, table1, table2


def blocks(results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the summaries of Table I, Table II, counting and speed."""
    rows = results["table1"]["rows"]
    return {
        "results": [*table1.summary(rows), "", *table1.standing(rows), *long.summary(results["long"])],
        "labels": table2.summary(results["table2"]),
        "counts": counts.summary(results["counts"]),
        "speed": performance.ratios_table(results["speed"]),
    }
