"""The one file format of sdlgm: safetensors, with a JSON document in its header. Such a file cannot run code."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sdlgm._files import write_whole
from sdlgm.errors import ModelFileError

VERSION = 1
METADATA_KEY = "sdlgm"


def write(path: str | os.PathLike[str], kind: str, document: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """Write tensors and a JSON document, whole or not at all."""
    # One entry: safetensors writes several in any order, and equal models should be equal files.
    content = json.dumps({"format": kind, "version": VERSION, "document": document}, allow_nan=False)
    return write_whole(path, lambda temporary: save_file(tensors, temporary, {METADATA_KEY: content}))


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write` wrote as the same ``kind``; anything else is a `ModelFileError` that says what it is."""
    path = Path(path)
    if not path.exists():
        raise ModelFileError(f"{path}: there is no such file")
    if path.is_dir():
        raise ModelFileError(f"{path}: is a folder, not a {kind} file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            document = _document(path, kind, metadata)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path}: not a {kind} file, or damaged ({error})") from error
    return document, tensors


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix`` and a dot, by the rest of their names."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def finite(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors themselves, if all of their entries are numbers."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"the tensor {name} has entries that are not finite")
    return tensors


def _document(path: Path, kind: str, metadata: dict[str, str]) -> dict[str, Any]:
    if METADATA_KEY not in metadata:
        raise ModelFileError(f"{path}: expected a {kind} file, found a safetensors file of another program")
    try:
        content = json.loads(metadata[METADATA_KEY])
        found, version, document = content["format"], content["version"], content["document"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: its settings cannot be read ({error})") from error
    if found != kind:
        raise ModelFileError(f"{path}: expected a {kind} file, found a {found} file")
    if version != VERSION:
        raise ModelFileError(
            f"{path}: file version {version} is not known to this sdlgm, which reads version {VERSION}; "
            "use the release of sdlgm that wrote the file, or a newer one"
        )
    if not isinstance(document, dict):
        raise ModelFileError(f"{path}: its settings are not a JSON object")
    return document
