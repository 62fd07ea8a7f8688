"""Record where published numbers come from."""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sdlgm
from sdlgm._files import write_text

PACKAGES = ("sdlgm", "torch", "numpy", "numba", "scipy", "scikit-learn")
TRAINING_PARTS = ("_kernels", "model", "gradients", "train", "estimators")
"""Parts of `sdlgm` that determine the result of a run."""


def provenance() -> dict[str, Any]:
    """Return the command, the package versions and the number of cores of this process."""
    spec = sys.modules["__main__"].__spec__  # None for a script, a module for ``python -m``
    command = running_command(sys.argv, spec.name if spec else None)
    return {"command": command, "versions": versions(), "cores": os.cpu_count()}


def running_command(argv: list[str], module: str | None) -> str:
    """Return the command of a process with these arguments, without paths of the machine.

    The folder of unfinished runs (``--work``) does not change a result, and is left out.
    """
    program = Path(argv[0]).name if module is None else f"python -m {module.removesuffix('.__main__')}"
    command = " ".join([program, *argv[1:]])
    return re.sub(r" --work[ =]\S+", "", command)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def code_hash(package: Path = Path(sdlgm.__file__).parent, baselines: Path = Path(__file__).parent) -> str:
    """Return a hash of the source that trains and measures a model.

    Parameters
    ----------
    package : Path
        The folder of `sdlgm`.
    baselines : Path
        The folder with ``baselines.py``.

    Returns
    -------
    str
        Equal for two runs only if their source was the same.

    """
    files = [(package, file) for part in TRAINING_PARTS for file in sorted((package / part).rglob("*.py"))]
    digest = hashlib.sha256()
    for root, file in [*files, (baselines, baselines / "baselines.py")]:
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def publish(out: Path, result: Mapping[str, Any]) -> dict[str, Any]:
    """Write results and their provenance to a JSON file, and return what was written."""
    published = {**result, **provenance()}
    write_text(out, json.dumps(published, indent=1) + "\n")
    return published
