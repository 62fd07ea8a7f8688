"""Mulan's format for multi-label data: an ARFF file, and an XML file that says which of its attributes are labels."""

import io
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from xml.parsers import expat

import arff
import numpy as np

from sdlgm.data.dataset import Dataset, MultiLabelDataset, binary_labels
from sdlgm.data.idx import read_bytes
from sdlgm.errors import DataError

MAX_XML_BYTES = 2**24
MAX_ARFF_BYTES = 2**30
# A sparse file of a few kilobytes can promise a dense matrix of terabytes.
MAX_VALUES = 2**28

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"""@attribute\s+({_QUOTED}|[^\s{{}}'"][^\s{{}}]*)(?:\s+|(?={{))(\S.*)""", re.IGNORECASE)
_VALUE = re.compile(rf"{_QUOTED}|[^\s,][^,]*")
_NUMERIC = ("numeric", "real", "integer")
# What the values of a nominal label may be called, in any case.
_BINARY = {"0": 0.0, "false": 0.0, "no": 0.0, "1": 1.0, "true": 1.0, "yes": 1.0}
# liac-arff's own messages know no line when rows are read one by one, and fail on a percent sign.
_PROBLEMS = {
    arff.BadDataFormat: "another number of values than there are attributes",
    arff.BadLayout: "not what a row of ARFF looks like",
}


def read_mulan(
    path: str | os.PathLike[str], labels: Sequence[str] = (), *, optional: bool = False, values: bool = True
) -> MultiLabelDataset:
    """Read an ARFF file, dense or sparse.

    ``labels`` names the attributes that are labels; with ``optional``, those that the file has not are left out, and
    without ``values`` all of them. If none is given, they are those of the XML file beside it: ``name.xml`` for
    ``name.arff``, ``name-train.arff`` and ``name-test.arff``.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    if not labels:
        labels = _labels_beside(path)
        if not labels:
            expected = " or ".join(map(str, _label_files(path)))
            raise DataError(f"{path}: the file that names its labels is missing; expected {expected}")
    return parse_mulan(read_bytes(path), labels, name=path.name, where=str(path), optional=optional, values=values)


def read_observations(path: Path) -> Dataset:
    """Read an ARFF file without its labels, which are those of the XML file beside it; none if there is no such file.

    What `label_column` is for other files, it does not know: a nominal class without an XML file is a feature.
    """
    labels = _labels_beside(path)
    return parse_mulan(read_bytes(path), labels, name=path.name, where=str(path), values=False).observations


def _labels_beside(path: Path) -> tuple[str, ...]:
    for xml in _label_files(path):
        if xml.is_file():
            return parse_labels(read_bytes(xml), str(xml))
    return ()


def _label_files(path: Path) -> list[Path]:
    """Where the names of the labels may be."""
    stems = (path.stem, path.stem.removesuffix("-train").removesuffix("-test"))
    return [path.with_name(f"{stem}.xml") for stem in dict.fromkeys(stems)]


def parse_labels(content: bytes, where: str) -> tuple[str, ...]:
    """The names in the bytes of a label file, those of nested labels too, in the order of the file."""
    if len(content) > MAX_XML_BYTES:
        raise DataError(f"{where}: is larger than {MAX_XML_BYTES} bytes, which no list of labels is")
    tags, names = [], []

    def start(tag: str, attributes: dict[str, str]) -> None:
        tags.append(tag.rpartition(" ")[2])
        if tags[0] != "labels":
            raise DataError(f"{where}: is no list of labels; it starts with <{tags[0]}>, not with <labels>")
        if tags[-1] == "label":
            if not attributes.get("name"):
                raise DataError(f"{where}: a label has no name")
            names.append(attributes["name"])

    def refuse(*_: Any) -> None:
        raise DataError(f"{where}: has a DTD, which could make a small file a huge one; remove its <!DOCTYPE ...>")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except DataError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two for encodings
        raise DataError(f"{where}: cannot be read as XML ({error})") from error
    if not names:
        raise DataError(f"{where}: names no labels")
    return tuple(names)


def parse_mulan(
    content: bytes, labels: Sequence[str], *, name: str, where: str, optional: bool = False, values: bool = True
) -> MultiLabelDataset:
    """The data set in the bytes of an ARFF file; ``where`` is for the messages, the options are those of `read_mulan`.

    Labels are found by their name, wherever they are. A nominal feature becomes one column for each value that it
    declares, called ``attribute=value``, so that training and test rows agree; one with the values 0 and 1 stays one
    column. A missing value is NaN, or no value at all among the columns of a nominal feature.
    """
    if len(content) > MAX_ARFF_BYTES:
        raise DataError(f"{where}: is larger than {MAX_ARFF_BYTES} bytes; cut it into parts")
    lines = _Lines(content, where)
    attributes = _header(lines)
    _no_repeats(where, "label", labels)
    places = {attribute.name: place for place, attribute in enumerate(attributes)}
    absent = [label for label in labels if label not in places]
    if optional:
        labels = [label for label in labels if label in places]
    elif absent:
        raise DataError(f"{where}: has no attribute for {len(absent)} of {len(labels)} labels, such as {absent[0]!r}")
    chosen = set(labels)
    features = [place for name, place in places.items() if name not in chosen]
    names = [column for place in features for column in attributes[place].columns]
    if not names:
        raise DataError(f"{where}: has no attributes but its labels")
    _no_repeats(where, "feature", names)
    table = _values(lines, attributes)
    if len(table) * len(names) > MAX_VALUES:
        raise DataError(f"{where}: is too large, {len(table)} rows of {len(names)} features")
    X = np.concatenate([attributes[place].encoded(table[:, place]) for place in features], axis=1)
    labels = labels if values else ()
    columns = [attributes[places[label]].label(table[:, places[label]], where) for label in labels]
    Y = np.column_stack(columns) if columns else np.empty((len(X), 0), np.int64)
    return MultiLabelDataset(name, X, Y, tuple(names), tuple(labels))


def _no_repeats(where: str, what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise DataError(f"{where}: more than one {what} is called {name!r}")


@dataclass(frozen=True)
class _Attribute:
    name: str
    values: tuple[str, ...] | None
    """What a nominal attribute declares; its values are read as places in here. None for numbers."""

    @property
    def is_number(self) -> bool:
        return self.values is None or set(self.values) == {"0", "1"}

    @property
    def columns(self) -> list[str]:
        return [self.name] if self.is_number else [f"{self.name}={value}" for value in self.values or ()]

    def encoded(self, column: np.ndarray) -> np.ndarray:
        """(n, columns)"""
        if self.values is None:
            return column[:, None]
        if self.is_number:
            return _replaced(column, [float(value) for value in self.values])[:, None]
        return (column[:, None] == np.arange(len(self.values))).astype(np.float64)

    def label(self, column: np.ndarray, where: str) -> np.ndarray:
        """(n,), 0 or 1"""
        if self.values is not None:
            numbers = [_BINARY.get(value.lower(), np.nan) for value in self.values]
            if np.isnan(numbers).any() or len(set(numbers)) < len(numbers):
                raise DataError(
                    f"{where}: label {self.name!r} has the values {', '.join(self.values)}; expected 0 and 1, or false "
                    "and true"
                )
            column = _replaced(column, numbers)
        return binary_labels(where, self.name, column)


def _replaced(places: np.ndarray, numbers: list[float]) -> np.ndarray:
    """The number at each place; NaN stays NaN."""
    missing = np.isnan(places)
    return np.where(missing, np.nan, np.array(numbers)[np.where(missing, 0, places).astype(np.intp)])


class _Lines(Iterator[str]):
    """The lines of a file but for comments and empty ones, with the number of the last one for the messages."""

    def __init__(self, content: bytes, where: str):
        self.where = where
        self.number = 0
        self._file = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig")

    def __next__(self) -> str:
        while True:
            try:
                line = next(self._file).strip()
            except UnicodeDecodeError as error:
                raise DataError(f"{self.where}: is not text in UTF-8 ({error})") from error
            self.number += 1
            if line and not line.startswith("%"):
                return line

    def error(self, problem: str) -> DataError:
        return DataError(f"{self.where}: line {self.number}: {problem}")


def _header(lines: _Lines) -> list[_Attribute]:
    attributes = []
    for line in lines:
        word = line.split(maxsplit=1)[0].lower()
        if word == "@attribute":
            attributes.append(_attribute(lines, line))
        elif word == "@data":
            break
        elif word != "@relation":
            raise lines.error(f"{line[:40]!r} is not part of the header of an ARFF file")
    else:
        raise DataError(f"{lines.where}: not an ARFF file, or cut short: it has no @data")
    if not attributes:
        raise DataError(f"{lines.where}: has no attributes")
    _no_repeats(lines.where, "attribute", [attribute.name for attribute in attributes])
    return attributes


def _attribute(lines: _Lines, line: str) -> _Attribute:
    match = _ATTRIBUTE.fullmatch(line)
    if match is None:
        raise lines.error(f"{line[:40]!r} lacks a name or a type")
    name, kind = match.groups()
    if name[0] in "'\"":
        (name,) = _declared(lines, name)
    if kind.startswith("{") and kind.endswith("}"):
        return _Attribute(name, _declared(lines, kind[1:-1]))
    if kind.lower() not in _NUMERIC:
        raise lines.error(f"attribute {name!r} is of the type {kind[:40]}; only numeric and nominal ones can be read")
    return _Attribute(name, None)


def _declared(lines: _Lines, text: str) -> tuple[str, ...]:
    """Names with commas between them, which are written like a row of data."""
    try:
        (values,) = _rows([text], len(_VALUE.findall(text)))
    except Exception as error:  # as below
        raise lines.error(f"{text[:40]!r} cannot be read as names with commas between them") from error
    if not all(values) or len(set(values)) < len(values):
        raise lines.error(f"a name is empty or given twice in {text[:40]!r}")
    return tuple(values)


def _rows(lines: Iterable[str], width: int, *, sparse: bool = False) -> Iterator[Any]:
    """The texts of each row, None for a missing one: lists, or dictionaries by place if the rows are sparse.

    liac-arff is told that every attribute is a string, for it would cut off the fractions of an ``integer``, keep the
    escapes in a name, and take for ever on a long list of nominal values with a space in it.
    """
    header = ["@relation rows", *(f"@attribute a{i} string" for i in range(width)), "@data"]
    return arff.load(chain(header, lines), return_type=arff.LOD_GEN if sparse else arff.DENSE_GEN)["data"]


def _values(lines: _Lines, attributes: list[_Attribute]) -> np.ndarray:
    """(n, attributes): numbers, or places among the declared values; NaN where a value is missing.

    What a sparse row leaves out is 0, and that is the first declared value of a nominal attribute, whatever its name.
    """
    first = next(lines, None)
    if first is None:
        raise DataError(f"{lines.where}: has no rows")
    sparse = first.startswith("{")
    readers = [
        float if attribute.values is None else {value: float(i) for i, value in enumerate(attribute.values)}.__getitem__
        for attribute in attributes
    ]

    def number(place: int, text: str | None) -> float:
        try:
            return np.nan if text is None else readers[place](text)
        except (ValueError, KeyError):
            raise lines.error(f"attribute {attributes[place].name!r} cannot be {text!r}") from None

    values, nothing = array("d"), array("d", [0.0]) * len(attributes)
    try:
        for row in _rows(_alike(lines, first), len(attributes), sparse=sparse):
            if sparse:
                numbers = nothing[:]
                for place, text in row.items():
                    numbers[place] = number(place, text)
            else:
                numbers = [number(place, text) for place, text in enumerate(row)]
            values.extend(numbers)
            if len(values) > MAX_VALUES:
                raise DataError(f"{lines.where}: is too large; it has more than {MAX_VALUES} values")
    except DataError:
        raise
    except Exception as error:  # damaged rows make liac-arff fail in many ways, even when it says what is wrong
        raise lines.error(_PROBLEMS.get(type(error), "cannot be read as a row of ARFF")) from error
    return np.frombuffer(values).reshape(-1, len(attributes))


def _alike(lines: _Lines, first: str) -> Iterator[str]:
    """All rows, the first of which has been read; liac-arff takes a sparse one among dense ones as it finds it."""
    yield first
    for line in lines:
        if line.startswith("{") != first.startswith("{"):
            raise lines.error("dense and sparse rows are mixed")
        yield line
