"""The ranges of parameters, read from the source of the estimators, so that a wrong number is an error at once.

scikit-learn checks the same constraints when a fit begins, but by then torch has been imported, which takes seconds.
"""

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sdlgm.cli._signatures import class_of, constant, value_of

_KINDS = {"Integral": "a whole number", "Real": "a number"}
# Constraints of which no number is part.
_NOT_NUMBERS = {"StrOptions", "Registered"}


@dataclass(frozen=True)
class Range:
    """An interval of numbers."""

    kind: Literal["Integral", "Real"]
    low: float | None
    high: float | None
    closed: Literal["left", "right", "both", "neither"]

    def __contains__(self, number: float) -> bool:
        if self.kind == "Integral" and not isinstance(number, int):
            return False
        low, high = (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)
        above = number >= low if self.closed in ("left", "both") else number > low
        below = number <= high if self.closed in ("right", "both") else number < high
        return above and below

    def __str__(self) -> str:
        parts = []
        if self.low is not None:
            parts.append(f"{'at least' if self.closed in ('left', 'both') else 'above'} {self.low:g}")
        if self.high is not None:
            parts.append(f"{'at most' if self.closed in ('right', 'both') else 'below'} {self.high:g}")
        return ", ".join([_KINDS[self.kind], *([" and ".join(parts)] if parts else [])])


def read_ranges(estimator: str) -> dict[str, tuple[Range, ...]]:
    """Return the ranges of the parameters of a class that ``sdlgm.estimators`` exports.

    Parameters whose constraints are not all known here are left out.
    """
    module, definition = class_of(estimator)
    for node in definition.body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id == "_parameter_constraints":
                return dict(_entries(module, node.value))
    return {}


def _entries(module: str, constraints: ast.expr) -> Iterator[tuple[str, tuple[Range, ...]]]:
    """Yield the entries of a dict of constraints; those of a dict that is unpacked into it come first."""
    if isinstance(constraints, ast.Name):
        found = constant(module, constraints.id)
        if found is not None:
            yield from _entries(*found)
    elif isinstance(constraints, ast.Dict):
        for key, value in zip(constraints.keys, constraints.values, strict=True):
            if key is None:
                yield from _entries(module, value)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.List):
                ranges = [_range(module, member) for member in value.elts]
                if all(member is not None for member in ranges):
                    yield key.value, tuple(member for member in ranges if isinstance(member, Range))


def _range(module: str, constraint: ast.expr) -> Range | Literal["no number"] | None:
    """Return the range of a constraint. None if it is not known what it says about numbers."""
    match constraint:
        case ast.Call(func=ast.Name("Interval"), args=[ast.Name(("Integral" | "Real") as kind), low, high]):
            try:
                closed = value_of(module, constraint.keywords[0].value)
                return Range(kind, value_of(module, low), value_of(module, high), closed)  # pyright: ignore[reportArgumentType]
            except (ValueError, TypeError, IndexError):
                return None
        case ast.Call(func=ast.Name(name)) if name in _NOT_NUMBERS:
            return "no number"
        case ast.Constant(value=None):
            return "no number"
        case _:
            return None


def violation(ranges: tuple[Range, ...], value: object) -> str | None:
    """Return what is wrong with a value; None if it is no number, or in one of the ranges."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not ranges:
        return None
    if any(value in interval for interval in ranges):
        return None
    return f"{value:g} is out of range; it has to be {', or '.join(map(str, ranges))}"
