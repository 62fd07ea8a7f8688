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

from sdlgm._fileheader import METADATA_KEY, VERSION, check_is_file, check_size, damaged, parse
from sdlgm._files import printable, remove_abandoned_files, write_atomic
from sdlgm._version import __version__
from sdlgm.errors import ModelFileError

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
    check_is_file(path, kind)
    try:
        check_size(path)
        with _utf8_name(path) as name, safe_open(name, framework="pt") as file:
            header = parse(path, kind, file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except ModelFileError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        # The last four: shapes that no tensor can have.
        raise damaged(path, kind, error) from error
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
