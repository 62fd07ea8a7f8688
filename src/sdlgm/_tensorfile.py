"""The file format of models and checkpoints: safetensors with a JSON document in its header. It cannot hold code.

Version 2 adds a SHA-256 of the document and the tensors, and the version of sdlgm that wrote the file. Files of
version 1 are read too.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sdlgm._files import printable, remove_abandoned_files, why_missing, write_atomic
from sdlgm._limits import check_memory
from sdlgm._version import __version__
from sdlgm.errors import ModelFileError

VERSION = 2
METADATA_KEY = "sdlgm"
# Memory for a byte of the header: a tensor without values, or an empty list in the document, is a few bytes there.
_HEADER_RATIO = 64
# Files of version 1 do not name the version of sdlgm that wrote them.
FIRST_RELEASE = "0.1.0"


@dataclass(frozen=True)
class Content:
    """The content of a file."""

    document: dict[str, Any]
    tensors: dict[str, Tensor]
    written_by: str
    """The version of sdlgm that wrote the file."""

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names begin with ``prefix`` and a dot, by the rest of their names."""
        start = f"{prefix}."
        return {name.removeprefix(start): x for name, x in self.tensors.items() if name.startswith(start)}


def write(path: str | os.PathLike[str], kind: str, document: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """Write tensors and a JSON document, whole or not at all."""
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    header = {"format": kind, "version": VERSION, "written_by": __version__, "document": document}
    header["sha256"] = checksum(header, tensors)
    # One entry: safetensors writes several in any order, and equal models should be equal files.
    content = json.dumps(header, allow_nan=False)
    # Not `save_file`: it writes to a temporary file of its own, which a killed process would leave.
    written = write_atomic(path, lambda temporary: temporary.write_bytes(save(tensors, {METADATA_KEY: content})))
    remove_abandoned_files(written)
    return written


def read(path: str | os.PathLike[str], kind: str) -> Content:
    """Read a file that `write` wrote as the same ``kind``; raise `ModelFileError` for anything else."""
    path = Path(path)
    if not path.exists():
        raise ModelFileError(f"{path}: {why_missing(path)}")
    if path.is_dir():
        raise ModelFileError(f"{path}: is a folder, not a {kind} file")
    try:
        _check_header(path)
        with _utf8_name(path) as name, safe_open(name, framework="pt") as file:
            header = _header(path, kind, file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except ModelFileError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        # The last four: shapes that no tensor can have.
        raise ModelFileError(f"{path}: not a {kind} file, or damaged ({error})") from error
    if header["version"] >= 2 and header.get("sha256") != checksum(header, tensors):
        raise ModelFileError(f"{path}: is damaged: its checksum does not match its content; restore it from a copy")
    return Content(header["document"], tensors, str(header.get("written_by", FIRST_RELEASE)))


@contextlib.contextmanager
def _utf8_name(path: Path) -> Iterator[Path]:
    """Give a file a name that is UTF-8, which safetensors needs: its own, or else that of a link in a folder."""
    if printable(str(path)) == str(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "link"
        link.symlink_to(path.absolute())
        yield link


def checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of a header, without its own checksum, and of named tensors."""
    digest = hashlib.sha256()
    signed = {name: value for name, value in header.items() if name != "sha256"}
    digest.update(json.dumps(signed, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_finite(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors, or raise if an entry is not finite."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"the tensor {name} has entries that are not finite")
    return tensors


def _check_header(path: Path) -> None:
    """Raise if the header takes too much memory. Tensors take what they have in the file."""
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
    n_bytes = path.stat().st_size
    if n_header <= n_bytes:  # otherwise safetensors says what is wrong
        check_memory(path, _HEADER_RATIO * n_header, n_bytes, error=ModelFileError)


def _header(path: Path, kind: str, metadata: dict[str, str]) -> dict[str, Any]:
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
