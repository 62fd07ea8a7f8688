"""Commands with full disks, and with names that are not UTF-8."""

import io
import json
import multiprocessing
import os
import resource
import signal
import sys

import numpy as np
import pytest

from commands import FAST, run, text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="POSIX signals, limits and names")
NOT_UTF8 = os.fsdecode(b"\xff")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp(NOT_UTF8)
    np.save(folder / f"{NOT_UTF8}.npy", (np.random.default_rng(0).random((300, 6)) > 0.5).astype(float))
    run("fit", folder / f"{NOT_UTF8}.npy", "--out", folder / f"{NOT_UTF8}.sdlgm", *FAST)
    run("encode", folder / f"{NOT_UTF8}.sdlgm", folder / f"{NOT_UTF8}.npy", "--out", folder / f"{NOT_UTF8}.npz")
    return folder


def paths(files, command: str, out) -> list:
    model, data, codes = (files / f"{NOT_UTF8}{ending}" for ending in (".sdlgm", ".npy", ".npz"))
    return {
        "fit": ["fit", data, "--out", out, *FAST],
        "encode": ["encode", model, data, "--out", out],
        "encode_folder": ["encode", model, data, "--out", out],
        "decode": ["decode", model, codes, "--out", out],
        "sample": ["sample", model, "--out", out],
        "report": ["report", model, data, "--out", out],
    }[command]


ENDINGS = {"fit": ".sdlgm", "encode": ".npz", "encode_folder": "", "decode": ".csv", "sample": ".parquet"}
COMMANDS = [*ENDINGS, "report"]


@pytest.mark.parametrize("command", COMMANDS)
def test__commands__names_that_are_not_utf8__work(files, tmp_path, command):
    out = tmp_path / f"{NOT_UTF8}{ENDINGS.get(command, '.html')}"
    result = run(*paths(files, command, out))
    assert out.exists()
    assert "udcff" in text(result.output)  # as it can be printed
    if command == "report":
        assert rb"\xff.npy" in out.read_bytes()


@pytest.mark.parametrize("command", COMMANDS)
def test__commands__full_disk__name_the_file(files, tmp_path, command):
    out = tmp_path / f"out{ENDINGS.get(command, '.html')}"
    context = multiprocessing.get_context("fork")
    outputs = context.SimpleQueue()

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        outputs.put(run(*paths(files, command, out), code=2).output)

    process = context.Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0
    message = text(outputs.get())
    assert f"error: {out}" in message
    assert "cannot be written (" in message
    assert "large" in message
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test__evaluate__name_that_is_not_utf8__is_printed(files):
    model, data = files / f"{NOT_UTF8}.sdlgm", files / f"{NOT_UTF8}.npy"
    assert "udcff" in run("evaluate", model, data).output
    assert json.loads(run("evaluate", model, data, "--json").stdout)["n_rows"] == 300
    missing = run("evaluate", model, files / f"{NOT_UTF8}-missing.npy", code=2)
    assert "there is no such file" in text(missing.output)


def test__evaluate__terminal_that_knows_ascii_only__prints(files, monkeypatch):
    from sdlgm.cli import _output, app

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    model, data = files / f"{NOT_UTF8}.sdlgm", files / f"{NOT_UTF8}.npy"
    monkeypatch.setattr(_output.out, "_file", None)
    with pytest.raises(SystemExit) as ended:
        app(["evaluate", str(model), str(data)])
    assert ended.value.code == 0
    stream.flush()
    assert rb"\udcff.npy" in stream.buffer.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
