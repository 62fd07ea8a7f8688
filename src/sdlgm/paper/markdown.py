"""Lines of a table in Markdown."""

from collections.abc import Sequence

import numpy as np


def heading(first: str, *others: str) -> list[str]:
    """The first column to the left, the others to the right."""
    return [line(first, *others), f"|---{'|---:' * len(others)}|"]


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def mean_and_deviation(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard deviation; of a single value, the value."""
    text = f"{np.mean(values):.{digits}f}"
    return f"{text} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else text
