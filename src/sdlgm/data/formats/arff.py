"""ARFF files, dense or sparse, and Mulan's XML files that name their labels."""

import io
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from xml.parsers import expat

import numpy as np
import scipy.sparse as sp

from sdlgm._limits import MAX_XML_BYTES, allowed_memory, check_memory
from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA
from sdlgm.data.compressed import read_bytes
from sdlgm.data.dataset import SparseLabelledDataset
from sdlgm.data.formats.sparse_rows import sparse_rows
from sdlgm.data.source import NO_TARGETS, Block, TargetColumns, WholeSource
from sdlgm.errors import DataError, MissingDependencyError, SDLGMError

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"""@attribute\s+({_QUOTED}|[^\s{{}}'"][^\s{{}}]*)(?:\s+|(?={{))(\S.*)""", re.IGNORECASE)
_VALUE = re.compile(rf"{_QUOTED}|[^\s,][^,]*")
# Memory for a byte of a line: its values as text, and their copies. Names of the header are keys of dictionaries too.
_LINE_RATIO, _HEADER_RATIO = 64, 128
# Bytes of the name of a column, beside its characters.
_NAME_BYTES = 128
_MAX_DEPTH = 100
# Bytes of a stored value of a sparse row, with its copies.
_STORED_BYTES = 64
_NUMERIC = ("numeric", "real", "integer")
# Names of the values of a nominal label, in lower case.
_BINARY = {"0": 0.0, "false": 0.0, "no": 0.0, "1": 1.0, "true": 1.0, "yes": 1.0}
# Errors of liac-arff by their names. Its own messages lack the line if rows are read one by one, and fail on "%".
_PROBLEMS = {
    "BadDataFormat": "another number of values than there are attributes",
    "BadLayout": "not a row of ARFF",
}


def labels_beside(path: Path) -> tuple[str, ...]:
    """Read the names of the labels from the XML file beside an ARFF file.

    Parameters
    ----------
    path : Path
        The ARFF file.

    Returns
    -------
    tuple of str
        Empty if there is no such file.

    """
    for xml in label_files(path):
        if xml.is_file():
            return parse_labels(read_bytes(xml, MAX_XML_BYTES + 1), str(xml))
    return ()


def label_files(path: Path) -> list[Path]:
    """Return where the names of the labels may be: ``name.xml`` for ``name.arff`` and ``name-train.arff``."""
    stems = (path.stem, path.stem.removesuffix("-train").removesuffix("-test"))
    return [path.with_name(f"{stem}.xml") for stem in dict.fromkeys(stems)]


def parse_labels(content: bytes, where: str) -> tuple[str, ...]:
    """Return the names of the labels in an XML file.

    Parameters
    ----------
    content : bytes
        Content of the file.
    where : str
        Name of the file in messages.

    Returns
    -------
    tuple of str
        Names in the order of the file, those of nested labels as well.

    """
    if len(content) > MAX_XML_BYTES:
        raise DataError(f"{where}: is larger than {MAX_XML_BYTES} bytes, too large for a list of labels")
    depth = 0
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        name = tag.rpartition(":")[2]
        if depth == 1 and name != "labels":
            raise DataError(f"{where}: is not a list of labels; it starts with <{name[:40]}> instead of <labels>")
        if depth > _MAX_DEPTH:
            raise DataError(f"{where}: its labels are nested more than {_MAX_DEPTH} deep; name them in one list")
        if name == "label":
            if not attributes.get("name"):
                raise DataError(f"{where}: a label has no name; give it one")
            names.append(attributes["name"])

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse_dtd(*_: object) -> None:
        raise DataError(f"{where}: has a DTD, which can expand without limit; remove its <!DOCTYPE ...>")

    # Without namespaces: expat would keep a copy of a namespace, of any length, for each element.
    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse_dtd
    try:
        parser.Parse(content, True)
    except DataError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: unknown encodings
        raise DataError(f"{where}: cannot be read as XML ({error})") from error
    if not names:
        raise DataError(f"{where}: names no labels")
    return tuple(names)


class ArffFile(WholeSource):
    """Rows of an ARFF file.

    A nominal feature becomes one column for each of its declared values, called ``attribute=value``, so that the
    columns do not depend on the rows. One with the values 0 and 1 stays one column. A missing number is NaN; a missing
    nominal value is 0 in all of its columns.

    Parameters
    ----------
    content : bytes
        Content of the file.
    where : str
        Name of the file in messages.
    name : str
        Name of the data set.
    labels : TargetColumns
        Attributes that are labels, wherever they are in the file.
    file_bytes : int or None, default=None
        Size of the file, which may be gzipped; that of the content if None.

    """

    has_missing_values = True

    def __init__(
        self,
        content: bytes,
        *,
        where: str,
        name: str,
        labels: TargetColumns = NO_TARGETS,
        file_bytes: int | None = None,
    ):
        self.where = where
        self.name = name
        self._lines = _Lines(content, where, len(content) if file_bytes is None else file_bytes)
        self._attributes = _read_header(self._lines)
        _check_no_repeats(where, "label", labels.names)
        self._indices = {attribute.name: index for index, attribute in enumerate(self._attributes)}
        absent = [label for label in labels.names if label not in self._indices]
        if absent and not labels.optional:
            raise DataError(
                f"{where}: has no attribute for {len(absent)} of {len(labels.names)} labels, such as {absent[0]!r}"
            )
        excluded = set(labels.names)
        self._features = [attribute for attribute in self._attributes if attribute.name not in excluded]
        self._labels = tuple(label for label in labels.names if label in self._indices) if labels.values else ()
        self._lines.check_memory(sum(attribute.names_bytes for attribute in self._features))
        names = tuple(column for attribute in self._features for column in attribute.columns)
        if not names:
            raise DataError(f"{where}: has no attributes but its labels")
        _check_no_repeats(where, "feature", names)
        self.feature_names = names
        self.row_shape = (len(names),)

    @classmethod
    def open(cls, path: Path, labels: TargetColumns) -> "ArffFile":
        """Open a file.

        Parameters
        ----------
        path : Path
            The file, gzipped or not.
        labels : TargetColumns
            Attributes that are labels.

        Returns
        -------
        ArffFile

        """
        content = read_bytes(path)
        return cls(content, where=str(path), name=path.name, labels=labels, file_bytes=path.stat().st_size)

    def _load(self) -> Block:
        n_features, n_labels = self.row_shape[0], len(self._labels)
        # Values as they are read, features and labels; or these, and later the same as named columns.
        row_bytes = 8 * max(2 * len(self._attributes) + n_features + n_labels, 2 * n_features + 3 * n_labels)
        table = _read_values(self._lines, self._attributes, row_bytes)
        X = np.empty((len(table), n_features))
        first = 0
        for attribute in self._features:
            for column in attribute.encode(table[:, self._indices[attribute.name]]):
                X[:, first] = column
                first += 1
        labels = {label: self._indices[label] for label in self._labels}
        return Block(X, {name: self._attributes[i].to_binary(table[:, i], self.where) for name, i in labels.items()})

    def read_sparse(self) -> SparseLabelledDataset:
        """Read rows that are written sparse, without making them dense."""
        lines, attributes = self._lines, self._attributes
        first = next(lines, None)
        if first is None:
            raise DataError(f"{self.where}: has no rows")
        if not first.startswith("{"):
            raise DataError(f"{self.where}: its rows are written dense; read it without sparse=True")
        labels = {self._indices[name]: column for column, name in enumerate(self._labels)}
        features = {self._indices[attribute.name]: column for column, attribute in enumerate(self._features)}
        converters = {i: attributes[i].sparse_converter(self.where, label=i in labels) for i in (*features, *labels)}
        parts = {True: _SparseColumns(labels), False: _SparseColumns(features)}
        stored = 0
        try:
            for row in _sparse_rows(_all_alike(lines, first), len(attributes)):
                stored += len(row) + 4
                lines.check_memory(_STORED_BYTES * stored)
                for index, text in sorted(row.items()):
                    if index in converters:
                        number = _stored_value(lines, attributes[index], converters[index], text)
                        parts[index in labels].add(index, number)
                for part in parts.values():
                    part.end_row()
        except SDLGMError:
            raise
        except Exception as error:  # damaged rows make liac-arff fail in many ways
            raise lines.error(_PROBLEMS.get(type(error).__name__, "cannot be read as a row of ARFF")) from error
        X, Y = parts[False].matrix(), parts[True].matrix()
        if np.isinf(X.data).any():
            row = int(np.searchsorted(X.indptr, np.argmax(np.isinf(X.data)), side="right")) - 1
            raise DataError(f"{self.where}: row {row} has an infinite value")
        if np.isnan(Y.data).any():
            raise DataError(f"{self.where}: the value of a label is missing; labels are 0 or 1")
        # Not fewer bits: scikit-learn's LabelBinarizer mixes up more than 127 labels of 8 bits.
        return SparseLabelledDataset(self.name, X, Y.astype(np.int64), self.feature_names or (), self._labels)


class _SparseColumns:
    """The values of features, or of labels, of sparse rows."""

    def __init__(self, columns: dict[int, int]):
        self._columns = columns
        self._values, self._places, self._ends = array("d"), array("i"), array("q", [0])

    def add(self, index: int, value: float) -> None:
        if value != 0:
            self._values.append(value)
            self._places.append(self._columns[index])

    def end_row(self) -> None:
        self._ends.append(len(self._places))

    def matrix(self) -> sp.csr_array:
        columns, ends = np.array(self._places, np.int32), np.array(self._ends)
        matrix = sparse_rows(np.array(self._values), columns, ends, len(self._columns))
        matrix.sort_indices()
        return matrix


def _stored_value(lines: "_Lines", attribute: "_Attribute", convert: Callable[[str], float], text: str | None) -> float:
    try:
        return np.nan if text is None else convert(text)
    except (ValueError, KeyError):
        raise lines.error(f"attribute {attribute.name!r} cannot be {text!r}") from None


def _check_no_repeats(where: str, what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise DataError(f"{where}: more than one {what} is called {name!r}; rename one")


@dataclass(frozen=True)
class _Attribute:
    name: str
    values: tuple[str, ...] | None
    """Declared values of a nominal attribute; None for numbers. Rows hold the indices of the values."""

    @property
    def is_number(self) -> bool:
        return self.values is None or set(self.values) == {"0", "1"}

    @property
    def columns(self) -> list[str]:
        return [self.name] if self.is_number else [f"{self.name}={value}" for value in self.values or ()]

    @property
    def names_bytes(self) -> int:
        """Bytes of the names of the columns, each of which repeats that of the attribute."""
        values = ("",) if self.is_number else self.values or ()
        return sum(_NAME_BYTES + 4 * (len(self.name) + len(value)) for value in values)

    def sparse_converter(self, where: str, *, label: bool) -> Callable[[str], float]:
        """Return how a stored value becomes a number, where values that are left out are 0; raise if they are not."""
        if self.values is None:
            return _binary_number if label else _number
        if label:
            self.to_binary(np.zeros(0), where)  # raise for other values
            numbers = {value: _BINARY[value.lower()] for value in self.values}
        elif self.is_number:
            numbers = {value: float(value) for value in self.values}
        else:
            numbers = {}
        if numbers.get(self.values[0]) != 0:
            raise DataError(
                f"{where}: a row that leaves {self.name!r} out has the value {self.values[0]!r}, which is not 0; read "
                "the file without sparse=True"
            )
        return numbers.__getitem__

    def encode(self, column: np.ndarray) -> Iterator[np.ndarray]:
        """Return the features of an attribute, one at a time."""
        if self.values is None:
            yield column
        elif self.is_number:
            yield _take(column, [float(value) for value in self.values])
        else:
            yield from (column == index for index in range(len(self.values)))

    def to_binary(self, column: np.ndarray, where: str) -> np.ndarray:
        """Return the values of a label as numbers, (n,): 0 and 1 if it is nominal, and NaN for a missing value."""
        if self.values is not None:
            numbers = [_BINARY.get(value.lower(), np.nan) for value in self.values]
            if np.isnan(numbers).any() or len(set(numbers)) < len(numbers):
                raise DataError(
                    f"{where}: label {self.name!r} has the values {', '.join(self.values)}; expected 0 and 1, or false "
                    "and true"
                )
            return _take(column, numbers)
        return column


def _take(indices: np.ndarray, numbers: list[float]) -> np.ndarray:
    """Return ``numbers[indices]``, and NaN where an index is NaN."""
    missing = np.isnan(indices)
    return np.where(missing, np.nan, np.array(numbers)[np.where(missing, 0, indices).astype(np.intp)])


class _Lines(Iterator[str]):
    """Lines of a file without comments and empty lines. The number of the last line is kept for messages."""

    def __init__(self, content: bytes, where: str, file_bytes: int):
        self.where = where
        self.number = 0
        self._file = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig")
        self._content_bytes = len(content)
        self._file_bytes = file_bytes
        self._longest = (allowed_memory(file_bytes) - len(content)) // _LINE_RATIO

    def __next__(self) -> str:
        while True:
            try:
                line = self._file.readline(max(1, self._longest))
            except UnicodeDecodeError as error:
                raise DataError(f"{self.where}: is not text in UTF-8 ({error})") from error
            if not line:
                raise StopIteration
            self.number += 1
            if len(line) >= self._longest and not line.endswith("\n"):
                self.check_memory(_LINE_RATIO * (len(line) + 1))
            line = line.strip()
            if line and not line.startswith("%"):
                return line

    def check_memory(self, n_bytes: int) -> None:
        """Raise if the content and what is read of it take too much memory."""
        check_memory(self.where, self._content_bytes + n_bytes, self._file_bytes, "cut it into smaller files")

    def error(self, problem: str) -> DataError:
        return DataError(f"{self.where}: line {self.number}: {problem}")


def _read_header(lines: _Lines) -> list[_Attribute]:
    attributes: list[_Attribute] = []
    n_characters = 0
    for line in lines:
        n_characters += len(line)
        lines.check_memory(_HEADER_RATIO * n_characters)
        word = line.split(maxsplit=1)[0].lower()
        if word == "@attribute":
            attributes.append(_parse_attribute(lines, line))
        elif word == "@data":
            break
        elif word != "@relation":
            raise lines.error(f"{line[:40]!r} is not part of the header of an ARFF file")
    else:
        raise DataError(f"{lines.where}: not an ARFF file, or cut short: it has no @data")
    if not attributes:
        raise DataError(f"{lines.where}: has no attributes")
    _check_no_repeats(lines.where, "attribute", [attribute.name for attribute in attributes])
    return attributes


def _parse_attribute(lines: _Lines, line: str) -> _Attribute:
    match = _ATTRIBUTE.fullmatch(line)
    if match is None:
        raise lines.error(f"{line[:40]!r} lacks a name or a type")
    name, kind = match.groups()
    if name[0] in "'\"":
        (name,) = _parse_names(lines, name)
    if kind.startswith("{") and kind.endswith("}"):
        return _Attribute(name, _parse_names(lines, kind[1:-1]))
    if kind.lower() not in _NUMERIC:
        raise lines.error(f"attribute {name!r} is of the type {kind[:40]}; only numeric and nominal ones can be read")
    return _Attribute(name, None)


def _parse_names(lines: _Lines, text: str) -> tuple[str, ...]:
    """Parse names separated by commas. They are written like a row of data."""
    try:
        (values,) = _dense_rows([text], len(_VALUE.findall(text)))
    except MissingDependencyError:
        raise
    except Exception as error:  # damaged rows make liac-arff fail in many ways
        raise lines.error(f"{text[:40]!r} cannot be read as names separated by commas") from error
    names = tuple(value for value in values if value)
    if len(names) < len(values) or len(set(names)) < len(names):
        raise lines.error(f"a name is empty or given twice in {text[:40]!r}")
    return names


def _dense_rows(lines: Iterable[str], n_attributes: int) -> Iterator[list[str | None]]:
    """Read dense rows: the text of every value, and None for a missing one."""
    arff = optional_import("arff", EXTRA)
    return arff.load(_with_header(lines, n_attributes), return_type=arff.DENSE_GEN)["data"]


def _sparse_rows(lines: Iterable[str], n_attributes: int) -> Iterator[dict[int, str | None]]:
    """Read sparse rows: the text of every stored value by the index of its attribute."""
    arff = optional_import("arff", EXTRA)
    return arff.load(_with_header(lines, n_attributes), return_type=arff.LOD_GEN)["data"]


def _with_header(lines: Iterable[str], n_attributes: int) -> Iterator[str]:
    """Put a header before the rows that declares every attribute as a string.

    With the true types, liac-arff cuts off the fractions of an ``integer``, keeps the escapes in a name, and takes
    exponential time on a long list of nominal values with a space in it.
    """
    header = ["@relation rows", *(f"@attribute a{i} string" for i in range(n_attributes)), "@data"]
    return chain(header, lines)


def _read_values(lines: _Lines, attributes: list[_Attribute], row_bytes: int) -> np.ndarray:
    """Read all rows, (n, attributes): numbers, or indices of the declared values; NaN where a value is missing.

    A row takes ``row_bytes`` of memory in all. A value that a sparse row leaves out is 0. For a nominal attribute this
    is the first declared value, whatever its name.
    """
    first = next(lines, None)
    if first is None:
        raise DataError(f"{lines.where}: has no rows")
    converters = [_converter(attribute) for attribute in attributes]

    def to_number(index: int, text: str | None) -> float:
        try:
            return np.nan if text is None else converters[index](text)
        except (ValueError, KeyError):
            raise lines.error(f"attribute {attributes[index].name!r} cannot be {text!r}") from None

    def rows() -> Iterator[Iterable[float]]:
        n = len(attributes)
        if not first.startswith("{"):
            for row in _dense_rows(_all_alike(lines, first), n):
                yield [to_number(index, text) for index, text in enumerate(row)]
            return
        zeros = array("d", [0.0]) * n
        for row in _sparse_rows(_all_alike(lines, first), n):
            numbers = zeros[:]
            for index, text in row.items():
                numbers[index] = to_number(index, text)
            yield numbers

    values = array("d")
    try:
        for n_rows, row in enumerate(rows(), start=1):
            lines.check_memory(n_rows * row_bytes)
            values.extend(row)
    except SDLGMError:
        raise
    except Exception as error:  # damaged rows make liac-arff fail in many ways
        raise lines.error(_PROBLEMS.get(type(error).__name__, "cannot be read as a row of ARFF")) from error
    return np.frombuffer(values).reshape(-1, len(attributes))


def _converter(attribute: _Attribute) -> Callable[[str], float]:
    if attribute.values is None:
        return _number
    return {value: float(index) for index, value in enumerate(attribute.values)}.__getitem__


def _number(text: str) -> float:
    if "_" in text:  # Python reads 1_0 as 10
        raise ValueError(text)
    return float(text)


def _binary_number(text: str) -> float:
    number = _number(text)
    if number not in (0.0, 1.0):
        raise ValueError(text)
    return number


def _all_alike(lines: _Lines, first: str) -> Iterator[str]:
    """Yield the rows, the first of which has been read. Raise if dense and sparse rows are mixed."""
    yield first
    for line in lines:
        if line.startswith("{") != first.startswith("{"):
            raise lines.error("dense and sparse rows are mixed")
        yield line
