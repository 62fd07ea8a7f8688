"""The wheel in an environment of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test__wheel__clean_environment__runs_the_demo(tmp_path):
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("sdlgm-*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    binaries = tmp_path / "venv" / "bin"
    subprocess.run(
        [binaries / "pip", "install", "-q", "-c", ROOT / "constraints.txt", f"{wheel}[data,report]"], check=True
    )
    subprocess.run([binaries / "sdlgm", "demo", "--max-iter", "50"], check=True, cwd=tmp_path)
    assert (tmp_path / "demo" / "report.html").stat().st_size > 50_000
