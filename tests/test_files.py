"""Files are written whole or not at all, whatever happens to the disk and to the process."""

import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import sdlgm
from sdlgm import WriteError
from sdlgm._files import ABANDONED_AFTER, printable, remove_abandoned_files, remove_temporary_files, write_atomic
from sdlgm.data import load_data, open_rows, read_codes, write_codes, write_table
from sdlgm.errors import DataError, ModelFileError

linux = pytest.mark.skipif(sys.platform != "linux", reason="POSIX signals, limits and names")
NOT_UTF8 = os.fsdecode(b"\xff")


def fill_disk() -> None:
    """Limit the files of this process to a few bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def in_another_process(work) -> object:
    """Run work in a process of its own, and return its result."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=lambda: results.put(work()))
    process.start()
    process.join()
    assert process.exitcode == 0
    return results.get()


# Full disks


@linux
@pytest.mark.parametrize("name", ["model.sdlgm", "codes.npz", "table.npy", "table.csv", "table.parquet"])
def test__write__full_disk__is_a_named_error_and_keeps_what_was_there(fitted, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"before")
    codes, rows = sp.csr_matrix(np.eye(1000, dtype=np.int64)), np.random.default_rng(0).random((1000, 3))

    def work() -> str:
        fill_disk()
        try:
            if name == "model.sdlgm":
                fitted.save(path)
            elif name == "codes.npz":
                write_codes(path, codes)
            else:
                write_table(path, rows)
        except WriteError as error:
            return str(error)
        return "no error"

    message = in_another_process(work)
    assert f"{path}: cannot be written" in str(message)
    assert "large" in str(message)  # File too large: what this limit makes of a full disk
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test__save__folder_that_is_gone__is_a_named_error(fitted, tmp_path):
    with pytest.raises(WriteError, match=r"gone/model\.sdlgm: cannot be written \(No such file or directory"):
        fitted.save(tmp_path / "gone" / "model.sdlgm")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test__save__device__is_refused(fitted, tmp_path):
    (tmp_path / "model.sdlgm").symlink_to("/dev/full")
    with pytest.raises(WriteError, match="not a regular file"):
        fitted.save(tmp_path / "model.sdlgm")


# Killed processes


def left(folder: Path, name: str, *, age: float) -> Path:
    path = folder / name
    path.write_bytes(b"half")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


OLD = 2 * ABANDONED_AFTER


def test__save__old_temporary_files__are_removed_and_nothing_else(fitted, tmp_path):
    ours = [
        left(tmp_path, name, age=OLD) for name in (".sdlgm-abcdef_9.sdlgm", ".sdlgm-abcdefgh", ".sdlgm-aaaaaaaa.npz")
    ]
    others = [
        left(tmp_path, ".sdlgm-abcdefgi.sdlgm", age=ABANDONED_AFTER / 2),  # of a process that may be alive
        *(
            left(tmp_path, name, age=OLD)
            for name in (
                ".sdlgm-notes.sdlgm",
                ".sdlgm-ABCDEFGH.sdlgm",
                ".sdlgm-abcdefgh.tar.gz",
                ".sdlgm-abcdefghi",
                "sdlgm-abcdefgh",
                "x.sdlgm-abcdefgh",
                ".sdlgm-",
            )
        ),
    ]
    (tmp_path / ".sdlgm-folder__").mkdir()
    os.utime(tmp_path / ".sdlgm-folder__", (0, 0))
    (tmp_path / ".sdlgm-link____").symlink_to(others[1])
    fitted.save(tmp_path / "model.sdlgm")
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in others)
    assert (tmp_path / ".sdlgm-folder__").is_dir()
    assert (tmp_path / ".sdlgm-link____").is_symlink()


def test__remove_temporary_files__names_that_are_similar__stay(tmp_path):
    """A folder of checkpoints is cleaned whatever the age."""
    ours, similar = left(tmp_path, ".sdlgm-abcdefgh.x", age=0), left(tmp_path, ".sdlgm-mine.x", age=0)
    remove_temporary_files(tmp_path, ".x")
    assert not ours.exists()
    assert similar.exists()


@linux
def test__save__old_file_of_a_process_that_is_alive__stays(fitted, tmp_path):
    """A process that was stopped in the middle of a write, for hours, ends it afterwards."""
    context = multiprocessing.get_context("fork")
    writing, proceed = context.Event(), context.Event()

    def write(temporary: Path) -> None:
        temporary.write_bytes(b"whole")
        os.utime(temporary, (0, 0))
        writing.set()
        proceed.wait()

    process = context.Process(target=lambda: write_atomic(tmp_path / "slow.bin", write))
    process.start()
    writing.wait()
    fitted.save(tmp_path / "model.sdlgm")
    assert len(list(tmp_path.glob(".sdlgm-*"))) == 1
    proceed.set()
    process.join()
    assert process.exitcode == 0
    assert (tmp_path / "slow.bin").read_bytes() == b"whole"
    assert {path.name for path in tmp_path.iterdir()} == {"slow.bin", "model.sdlgm"}


@linux
def test__save__killed_at_random_moments__leaves_a_whole_file_and_is_cleaned_later(fitted, tmp_path):
    path = tmp_path / "model.sdlgm"
    fitted.save(path)
    before = path.read_bytes()
    context = multiprocessing.get_context("fork")
    rng = random.Random(0)

    def save_for_ever(started) -> None:
        started.set()
        while True:
            fitted.save(path)

    for _ in range(12):
        started = context.Event()
        process = context.Process(target=save_for_ever, args=(started,))
        process.start()
        started.wait()
        time.sleep(rng.uniform(0, 0.03))
        process.kill()
        process.join()
        assert path.read_bytes() == before
    abandoned = [name for name in tmp_path.iterdir() if name != path]
    assert all(name.name.startswith(".sdlgm-") for name in abandoned), abandoned
    for name in abandoned:
        os.utime(name, (0, 0))
    left(tmp_path, ".sdlgm-zzzzzzzz.sdlgm", age=OLD)
    fitted.save(path)
    assert list(tmp_path.iterdir()) == [path]


def test__remove_abandoned_files__clock_of_a_server_that_is_slow__is_the_one_that_counts(tmp_path):
    written, fresh = left(tmp_path, "model.sdlgm", age=OLD), left(tmp_path, ".sdlgm-abcdefgh", age=OLD + 60)
    remove_abandoned_files(written)
    assert fresh.exists()


# Names that are not UTF-8


@linux
@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet"])
def test__tables__name_and_folder_that_are_not_utf8__are_written_and_read(tmp_path, ending):
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    X = np.arange(6.0).reshape(3, 2)
    path = folder / f"{NOT_UTF8}{ending}"
    write_table(path, X)
    np.testing.assert_array_equal(load_data(str(path)).X, X)
    if ending != ".csv":
        rows = open_rows(folder)
        assert rows is not None
        np.testing.assert_array_equal(rows[0:3], X)


@linux
def test__models_and_codes__names_that_are_not_utf8__are_written_and_read(fitted, digits, tmp_path):
    fitted.save(tmp_path / f"{NOT_UTF8}.sdlgm")
    loaded = sdlgm.load(tmp_path / f"{NOT_UTF8}.sdlgm")
    codes = loaded.transform(digits)
    assert (codes != fitted.transform(digits)).nnz == 0
    write_codes(tmp_path / f"{NOT_UTF8}.npz", codes)
    assert (read_codes(tmp_path / f"{NOT_UTF8}.npz") != codes).nnz == 0
    with pytest.raises(ModelFileError, match="no such file"):
        sdlgm.load(tmp_path / f"{NOT_UTF8}.nothing")


@pytest.mark.parametrize(("text", "expected"), [("é", "é"), (f"a{NOT_UTF8}", r"a\xff"), ("\ud800", r"\ud800")])
def test__printable__any_text__is_utf8(text, expected):
    assert printable(text) == expected
    assert printable(text).encode()


# Links


def test__read__link_to_nothing__says_what_was_given_and_where_it_leads(tmp_path):
    for name in ("x.npy", "x.sdlgm", "x.npz"):
        (tmp_path / name).symlink_to("y")
    expected = "is a link to y, which does not exist"
    with pytest.raises(DataError, match=rf"x\.npy: {expected}"):
        load_data(str(tmp_path / "x.npy"))
    with pytest.raises(DataError, match=rf"x\.npz: {expected}"):
        read_codes(tmp_path / "x.npz")
    with pytest.raises(ModelFileError, match=rf"x\.sdlgm: {expected}"):
        sdlgm.load(tmp_path / "x.sdlgm")


def test__write__link_to_nothing__makes_what_it_names(tmp_path):
    (tmp_path / "x.npy").symlink_to("y.npy")
    write_table(tmp_path / "x.npy", np.eye(2))
    assert (tmp_path / "x.npy").is_symlink()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.eye(2))


def test__write__link_into_a_folder_that_does_not_exist__says_so(fitted, tmp_path):
    for name in ("x.npy", "x.sdlgm"):
        (tmp_path / name).symlink_to("gone/y")
    with pytest.raises(DataError, match=r"x\.npy: is a link to gone/y, and there is no such folder"):
        write_table(tmp_path / "x.npy", np.eye(2))
    with pytest.raises(WriteError, match=r"x\.sdlgm: cannot be written \(.*it is a link to gone/y\)"):
        fitted.save(tmp_path / "x.sdlgm")
