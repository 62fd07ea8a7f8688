"""Where a published number comes from."""

import json
import os
import platform
import sys
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


def publish(out: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Write results, with where they come from, to a file of JSON."""
    published = {**result, **provenance()}
    write_text(out, json.dumps(published, indent=1) + "\n")
    return published


def protocol_lines(result: dict[str, Any]) -> list[str]:
    """How published results were made, as items of a list in Markdown."""
    packages = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return [
        *[f"- **{name}**: {text}." for name, text in result["protocol"].items()],
        f"- **command**: `{result['command']}`",
        f"- **machine**: {result['cores']} cores; {packages}",
    ]
