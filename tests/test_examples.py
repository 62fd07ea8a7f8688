"""The examples, done."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


EXAMPLES = [pytest.param(path, id=path.stem) for path in sorted((ROOT / "examples").glob("*.py"))]


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES)
def test__example__runs(path, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    result = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
