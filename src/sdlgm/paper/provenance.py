"""Where a published number comes from."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("sdlgm", "torch", "numpy", "numba", "scipy", "scikit-learn")


def provenance() -> dict[str, Any]:
    """Command, versions and machine of the running process."""
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "cores": os.cpu_count(),
    }
