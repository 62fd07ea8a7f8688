"""Which likelihood each column has."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

MIXED = "mixed"
"""The name of a likelihood whose columns have different ones."""


@dataclass(frozen=True)
class Layout:
    """The likelihood of each column, the number of levels of each category, and where values were missing.

    Parameters
    ----------
    likelihoods : tuple of str
        Names in `LIKELIHOODS`, one for each column.
    n_levels : tuple of int, default=()
        Number of levels of each categorical column, in their order.
    with_missing : tuple of int, default=()
        Columns that had missing values in the training data. The encoder sees where.

    """

    likelihoods: tuple[str, ...]
    n_levels: tuple[int, ...] = ()
    with_missing: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the likelihood of all columns, or "mixed"."""
        return self.likelihoods[0] if len(set(self.likelihoods)) == 1 else MIXED

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Columns of each likelihood, by its name, in the order in which the names appear."""
        found: dict[str, list[int]] = {}
        for column, name in enumerate(self.likelihoods):
            found.setdefault(name, []).append(column)
        return found

    @cached_property
    def levels_of(self) -> dict[int, int]:
        """Number of levels by the index of a categorical column."""
        return dict(zip(self.groups.get("categorical", []), self.n_levels, strict=True))

    def as_json(self) -> dict[str, Any]:
        """Return the layout as JSON; equal likelihoods that follow each other are one entry."""
        runs = [[name, len(list(same))] for name, same in groupby(self.likelihoods)]
        return {"likelihoods": runs, "n_levels": list(self.n_levels), "with_missing": list(self.with_missing)}

    @classmethod
    def from_json(cls, content: Any, n_columns: int, known: Collection[str]) -> "Layout":
        """Return the layout of a file, or raise ValueError for one that no model of ``n_columns`` columns has."""
        try:
            runs, n_levels, with_missing = (content[key] for key in ("likelihoods", "n_levels", "with_missing"))
            lengths = [(name, length) for name, length in runs]
        except (TypeError, KeyError, ValueError):
            raise ValueError("the likelihoods of the columns are not a list of names and numbers") from None
        for name, length in lengths:
            if name not in known:
                raise ValueError(f"likelihood {str(name)[:80]!r} of a column is not known")
            _check_whole("columns of a likelihood", length, 1, n_columns)
        if sum(length for _, length in lengths) != n_columns:
            raise ValueError(f"the likelihoods are not those of {n_columns} columns")
        names = tuple(name for name, length in lengths for _ in range(length))
        if not isinstance(n_levels, list) or len(n_levels) != names.count("categorical"):
            raise ValueError("the numbers of levels are not those of the categorical columns")
        for number in n_levels:
            _check_whole("levels of a column", number, 1, 2**31)
        if not isinstance(with_missing, list):
            raise ValueError("the columns with missing values are not a list")
        for column in with_missing:
            _check_whole("a column with missing values", column, 0, n_columns - 1)
        if sorted(set(with_missing)) != with_missing:
            raise ValueError("the columns with missing values are not in order")
        return cls(names, tuple(n_levels), tuple(with_missing))


def _check_whole(what: str, number: object, least: int, most: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise ValueError(f"{what}: {str(number)[:80]}; it has to be a whole number from {least} to {most}")
