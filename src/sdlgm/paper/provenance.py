"""Where a published number comes from."""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sdlgm._files import write_text

PACKAGES = ("sdlgm", "torch", "numpy", "numba", "scipy", "scikit-learn")


def provenance() -> dict[str, Any]:
    """Command, versions and machine of the running process."""
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": versions(),
        "cores": os.cpu_count(),
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages that numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def code_hash() -> str:
    """Of the source of all that trains and measures a model: two runs with the same hash had the same code."""
    root = Path(__file__).parents[1]
    parts = ("_kernels", "model", "gradients", "train", "estimators", "paper/baselines.py")
    files = sorted(file for part in parts for file in ([root / part] if "." in part else root.glob(f"{part}/*.py")))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def publish(out: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Write results, with where they come from, to a file of JSON."""
    published = {**result, **provenance()}
    write_text(out, json.dumps(published, indent=1) + "\n")
    return published


def protocol_lines(result: Mapping[str, Any]) -> list[str]:
    """How published results were made, as items of a list in Markdown."""
    packages = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return [
        *[f"- **{name}**: {text}." for name, text in result["protocol"].items()],
        f"- **command**: `{result['command']}`",
        f"- **machine**: {result['cores']} cores; {packages}",
    ]
