"""A folder with one file for each part of the data, so that an interrupted run can be continued."""

import copy
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from sdlgm._files import naming_errors, remove_temporary_files, temporary_files, write_text
from sdlgm._limits import MAX_MANIFEST_BYTES
from sdlgm.data.rows import RowFiles
from sdlgm.errors import DataError

VERSION = 1


@dataclass(frozen=True)
class FolderKind:
    """What the parts of a folder are."""

    format: str
    """The name of the format, in the manifest."""
    manifest: str
    """The name of the file that describes the folder."""
    suffix: str
    """The ending of the parts."""
    content: str
    """What they hold, in words."""
    command: str
    """The command that makes such a folder."""

    def path(self, folder: Path, number: int) -> Path:
        """Return the file of a part."""
        return folder / f"part-{number:06d}{self.suffix}"


@dataclass(frozen=True)
class Manifest:
    """Description of a folder."""

    n_components: int
    n_rows: int
    n_parts: int
    settings: Mapping[str, object]
    """Fingerprint of the data, and the settings that the parts depend on."""

    def to_dict(self, kind: FolderKind) -> dict[str, object]:
        """Return the content of the manifest file."""
        return {
            "format": kind.format,
            "version": VERSION,
            "n_components": self.n_components,
            "n_rows": self.n_rows,
            "n_parts": self.n_parts,
            **self.settings,
        }


class PartFolder(ABC):
    """A file for each part of some rows, in a folder.

    Each part is written, whole or not at all, to a file of its own. A run that was killed and is started again makes
    the parts that are missing and ends with the same files. The folder has a manifest that describes the data and the
    settings. A folder with parts of other data or other settings is refused.

    Parameters
    ----------
    folder : str or path-like
        The folder. It is created if it does not exist.
    rows : RowFiles
        The data.
    n_components : int
        Number of columns of a code.
    settings : mapping
        Settings that the parts depend on, such as the checksum of the model. They are stored as JSON.

    """

    kind: ClassVar[FolderKind]

    def __init__(
        self, folder: str | os.PathLike[str], rows: RowFiles, n_components: int, settings: Mapping[str, object]
    ):
        self.folder = Path(folder)
        self.rows = rows
        self.manifest = Manifest(n_components, len(rows), len(rows.parts), {"data": fingerprint(rows), **settings})

    def prepare(self) -> list[int]:
        """Create the folder, or check that it can be continued.

        Returns
        -------
        list of int
            Indices of the parts that are missing.

        """
        kind, content = self.kind, self.kind.content
        with naming_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / kind.manifest
        expected = self.manifest.to_dict(kind)
        if path.exists():
            found = read_manifest(self.folder, kind).to_dict(kind)
            differing = sorted(name for name in expected if found.get(name) != expected[name])
            if differing:
                raise DataError(
                    f"{self.folder}: holds {content} that were made with another {differing[0].replace('_', ' ')}; "
                    "write to another folder"
                )
        elif set(self.folder.iterdir()) - set(temporary_files(self.folder, path.suffix)):
            raise DataError(f"{self.folder}: is not empty, and holds no {content}; write to another folder")
        else:
            write_text(path, json.dumps(expected, indent=1) + "\n")
        remove_temporary_files(self.folder, path.suffix, kind.suffix)  # only now is the folder known to hold our files
        return [number for number in range(len(self.rows.parts)) if not self.path(number).exists()]

    def absolute(self) -> Self:
        """Use absolute paths, for processes that work in another folder.

        Returns
        -------
        parts : PartFolder
            The same parts with absolute paths.

        """
        other = copy.copy(self)
        other.folder = self.folder.absolute()
        other.rows = self.rows.absolute()
        return other

    def path(self, number: int) -> Path:
        """Return the file of a part.

        Parameters
        ----------
        number : int
            Number of the part, from 0.

        Returns
        -------
        path : Path

        """
        return self.kind.path(self.folder, number)

    def encode(self, work: Callable[..., Any], advance: Callable[[int], object] = lambda _: None) -> None:
        """Make the parts that are missing, in order.

        Parameters
        ----------
        work : callable
            As `encode_part` takes it.
        advance : callable, default=no-op
            Called with the number of rows of each part, when its file is there.

        """
        missing = set(self.prepare())
        for number, part in enumerate(self.rows.parts):
            if number in missing:
                self.encode_part(number, work)
            advance(part.n_rows)

    @abstractmethod
    def encode_part(self, number: int, work: Callable[..., Any]) -> None:
        """Make a part.

        Parameters
        ----------
        number : int
            Index of the part.
        work : callable
            What is done with its rows.

        """

    def part_rows(self, number: int) -> RowFiles:
        """Return the rows of a part.

        Parameters
        ----------
        number : int
            Index of the part.

        Returns
        -------
        rows : RowFiles

        """
        return self.rows.with_parts([self.rows.parts[number]])


def fingerprint(rows: RowFiles) -> str:
    """Return a hash of the names, sizes, times and parts of the files, which changes with the data."""
    files = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in rows.paths]
    parts = [[part.n_rows, part.place] for part in rows.parts]
    return hashlib.sha256(json.dumps([files, parts]).encode()).hexdigest()


def checksum(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    str
        Hexadecimal digits.

    """
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path, kind: FolderKind) -> Manifest:
    """Read the description of a folder.

    Parameters
    ----------
    folder : Path
        The folder.
    kind : FolderKind
        What it has to hold.

    Returns
    -------
    Manifest

    """
    path = folder / kind.manifest
    if not path.is_file():
        raise DataError(f"{folder}: holds no {kind.content}; write {kind.content} with '{kind.command}'")
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise ValueError("too long")
        content: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") != kind.format or content["version"] != VERSION:
            raise ValueError(f"another format, or version {content['version']!r}")
        del content["version"]
        n_components, n_rows, n_parts = (
            _positive(name, content.pop(name)) for name in ("n_components", "n_rows", "n_parts")
        )
        if n_components >= 2**31:  # the type of the features in the files
            raise ValueError(f"{n_components} features")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error}); encode the data again into another folder") from error
    return Manifest(n_components, n_rows, n_parts, content)


def part_paths(folder: Path, kind: FolderKind) -> tuple[Manifest, list[Path]]:
    """Return the description of a folder and all its parts, or raise if some are missing."""
    manifest = read_manifest(folder, kind)
    n_found = sum(1 for _ in folder.glob(f"part-*{kind.suffix}"))
    if n_found != manifest.n_parts:
        raise DataError(
            f"{folder}: has {n_found} of {manifest.n_parts} parts; run '{kind.command}' again to make the others"
        )
    return manifest, [kind.path(folder, number) for number in range(n_found)]


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}")
    return value
