"""Parse values that can be written in more than one way, or that are tuples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import typer

Value = int | float | str | tuple[int, ...] | dict[str, str]


@dataclass(frozen=True)
class Form:
    """One way to write a value."""

    metavar: str
    description: str
    convert: Callable[[str], Value]
    """Raises ValueError for a text that is not of this form."""


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if text.strip() else ()


def _two_integers(text: str) -> tuple[int, ...]:
    first, second = _integers(text)
    return first, second


def _names_by_column(text: str) -> dict[str, str]:
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(column and name for column, _, name in pairs):
        raise ValueError
    return {column.strip(): name.strip() for column, _, name in pairs}


FORMS = {
    "int": Form("int", "a whole number", int),
    "float": Form("float", "a number", float),
    "str": Form("str", "a text", str),
    "tuple[int, ...]": Form("int,...", "a list of whole numbers such as 512,384,256", _integers),
    "tuple[int, int]": Form("int,int", "two whole numbers such as 8,4", _two_integers),
    "Mapping[int | str, str]": Form(
        "column=name,...", "names for some columns such as visits=poisson", _names_by_column
    ),
}
"""The forms of the types that an annotation can have."""


def choice_form(choices: Sequence[str]) -> Form:
    """Return the form of a text that is one of several."""

    def convert(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    return Form("name", f"one of {', '.join(choices)}", convert)


def parser_of(forms: Sequence[Form]) -> Callable[[str], Value]:
    """Return a parser that converts a text by the first form that it has."""

    def parse(text: str) -> Value:
        for form in forms:
            try:
                return form.convert(text)
            except ValueError:
                continue
        raise typer.BadParameter(f"{text!r} is not {' or '.join(form.description for form in forms)}.")

    return parse
