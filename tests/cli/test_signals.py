"""SIGTERM and SIGINT: exit codes, and what is left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from commands import FAST, run
from sdlgm import load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="POSIX signals and /proc")


def start(module: str, *arguments: object, cwd: Path) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(cwd)}
    command = [sys.executable, "-c", f"import sys; from {module} import app; app()", *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen, is_true) -> None:
    while process.poll() is None and not is_true():
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()[1]


def stop(process: subprocess.Popen, number: int = signal.SIGTERM) -> str:
    process.send_signal(number)
    return process.communicate()[1]


def descendants(process: int) -> set[int]:
    """Return the processes that a process has started, and those that these have."""
    found = set()
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                found |= {child} | descendants(child)
    return found


def temporary_files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith((".sdlgm", "sdlgm-", "tmp"))]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test__signal__fit_with_checkpoints__names_the_checkpoint_and_has_its_code(tmp_path, number):
    endless = [*FAST, "--max-iter", 10**7, "--checkpoint-dir", "c", "--checkpoint-every", 5]
    process = start("sdlgm.cli", "fit", "digits:train", "--out", "m", *endless, cwd=tmp_path)
    wait_for(process, (tmp_path / "c" / "checkpoint.safetensors").exists)
    message = stop(process, number)
    assert process.returncode == 128 + number
    assert "c/checkpoint.safetensors" in message
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["checkpoint.safetensors"]
    assert not (tmp_path / "m").exists()
    assert not temporary_files(tmp_path)


def test__sigterm__encode__leaves_no_temporary_file(tmp_path):
    slow = "import sys, time; import sdlgm; from sdlgm.data import CodesWriter; append = CodesWriter.append\n"
    slow += "def slowly(self, codes):\n    append(self, codes); open('begun', 'w').close(); time.sleep(60)\n"
    slow += "CodesWriter.append = slowly\nfrom sdlgm.cli import app; app()"
    run("fit", "digits:train", "--out", tmp_path / "m", *FAST)
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((100, 64)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", slow, "encode", "m", "rows.npy", "--out", "codes.npz"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    wait_for(process, (tmp_path / "begun").exists)
    message = stop(process)
    assert process.returncode == 143, message
    assert "interrupted" in message
    assert {path.name for path in tmp_path.iterdir()} == {"m", "rows.npy", "begun"}


@pytest.mark.slow  # three interpreters that import torch
def test__sigterm__fit_with_two_processes__ends_them_too(tmp_path):
    options = [*FAST, "--max-iter", 10**7, "--batch-size", 100, "--devices", 2, "--seed", 0]
    options += ["--checkpoint-dir", "c", "--checkpoint-every", 5]
    script = tmp_path / "run.py"  # the processes import the module of their parent
    script.write_text("from sdlgm.cli import app\nif __name__ == '__main__':\n    app()\n")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "run.py", "fit", "digits:train", "--out", "m", *map(str, options)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    wait_for(process, (tmp_path / "c" / "checkpoint.safetensors").exists)
    children = descendants(process.pid)
    assert len(children) >= 2
    message = stop(process)
    assert process.returncode == 143, message
    assert "c/checkpoint.safetensors" in message
    assert not [child for child in children if Path(f"/proc/{child}/cmdline").exists() and is_ours(child, tmp_path)]
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["checkpoint.safetensors"]
    assert not temporary_files(tmp_path)


def is_ours(process: int, folder: Path) -> bool:
    """Return whether a process works in this folder, and is not another one that has got the same number."""
    try:
        return Path(f"/proc/{process}/cwd").resolve() == folder
    except OSError:
        return False


@pytest.mark.slow
def test__sigterm__reproduction__ends_its_runs_too(tmp_path):
    script = tmp_path / "run.py"
    script.write_text("from reproduction.__main__ import app\nif __name__ == '__main__':\n    app()\n")
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    options = ["--data", "digits", "--seeds", "2", "--iterations", str(10**6), "--jobs", "2"]
    command = [sys.executable, "run.py", "budgets", "--out", "budgets.json", *options]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    wait_for(process, lambda: len(list((tmp_path / "runs").glob("*/*"))) > 0)
    children = descendants(process.pid)
    message = stop(process)
    assert process.returncode == 143, message
    assert "same command again" in message
    assert not [child for child in children if is_ours(child, tmp_path)]


def test__sigint__fit_without_checkpoints__writes_the_model_and_says_how_far_it_came(tmp_path):
    noted = "import sys; from sdlgm.train import Trainer; step = Trainer.step\n"
    noted += "def note(self, batch):\n    self.iteration == 20 and open('begun', 'w').close()\n"
    noted += "    return step(self, batch)\n"
    noted += "Trainer.step = note\nfrom sdlgm.cli import app; app()"
    command = [sys.executable, "-c", noted, "fit", "digits:train", "--out", "m", *FAST, "--max-iter", str(10**7)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes)
    wait_for(process, (tmp_path / "begun").exists)
    process.send_signal(signal.SIGINT)
    output, message = process.communicate()
    assert process.returncode == 130, message
    assert "of 10000000 iterations" in message
    assert "model: m" in output
    assert load(tmp_path / "m").n_iter_ >= 20
    assert not temporary_files(tmp_path)
