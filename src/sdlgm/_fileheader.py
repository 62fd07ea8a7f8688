"""The header of model files and checkpoints, which can be read without torch.

A file is of the safetensors format: the length of the header in eight bytes, the header as JSON, the tensors. One entry
of the header's metadata is a JSON document that says what the file is.
"""

import json
from pathlib import Path
from typing import Any

from sdlgm._files import why_missing
from sdlgm._limits import check_memory
from sdlgm.errors import ModelFileError

VERSION = 2
METADATA_KEY = "sdlgm"
MODEL = "sdlgm-model"
# Memory for a byte of the header: a tensor without values, or an empty list in the document, is a few bytes there.
_HEADER_RATIO = 64


def check_is_file(path: Path, kind: str) -> None:
    """Raise if a path does not name a file."""
    if not path.exists():
        raise ModelFileError(f"{path}: {why_missing(path)}")
    if path.is_dir():
        raise ModelFileError(f"{path}: is a folder, not a {kind} file")


def check_size(path: Path) -> None:
    """Raise if the header takes too much memory. Tensors take what they have in the file."""
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
    n_bytes = path.stat().st_size
    if n_header <= n_bytes:  # otherwise the reader says what is wrong
        check_memory(path, _HEADER_RATIO * n_header, n_bytes, error=ModelFileError)


def peek(path: Path, kind: str) -> dict[str, Any]:
    """Return the document of a file without its tensors, whose checksum is not verified.

    Raises `ModelFileError` for a file that is missing, of another kind or of an unknown version, and for one whose
    header is damaged.
    """
    check_is_file(path, kind)
    try:
        check_size(path)
        with path.open("rb") as file:
            n_header, n_bytes = int.from_bytes(file.read(8), "little"), path.stat().st_size
            if n_header > n_bytes - 8:
                raise ValueError("its header is longer than the file")
            metadata = json.loads(file.read(n_header)).get("__metadata__", {})
            if not isinstance(metadata, dict):
                raise ValueError("its header has no metadata")
    except ModelFileError:
        raise
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise damaged(path, kind, error) from error
    return parse(path, kind, metadata)["document"]


def parse(path: Path, kind: str, metadata: dict[str, str]) -> dict[str, Any]:
    """Return the entry of the metadata that says what the file is, or raise if it is not a known ``kind``."""
    if METADATA_KEY not in metadata:
        raise ModelFileError(f"{path}: expected a {kind} file, found a safetensors file of another program")
    try:
        header = json.loads(metadata[METADATA_KEY])
        found, version, document = header["format"], header["version"], header["document"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: its settings cannot be read ({error})") from error
    if found != kind:
        raise ModelFileError(f"{path}: expected a {kind} file, found a {found} file")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ModelFileError(
            f"{path}: file version {version} is not known to this sdlgm, which reads versions up to {VERSION}; "
            "use the release of sdlgm that wrote the file, or a newer one"
        )
    if not isinstance(document, dict):
        raise ModelFileError(f"{path}: its settings are not a JSON object")
    return header


def damaged(path: Path, kind: str, error: Exception) -> ModelFileError:
    """Return the error for a file that cannot be read."""
    return ModelFileError(f"{path}: not a {kind} file, or damaged ({error})")
