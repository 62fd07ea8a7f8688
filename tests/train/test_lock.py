"""One checkpoint folder, one run."""

import errno
import multiprocessing
import os
import signal
import sys
import threading

import pytest
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from sdlgm import SDLGM, CheckpointError, ModelFileError
from sdlgm.train import lock


def test__locked__second_run__is_refused_until_the_first_ends(tmp_path):
    with lock.locked(tmp_path):
        with pytest.raises(CheckpointError, match="another run"), lock.locked(tmp_path):
            pass
        assert [path.name for path in tmp_path.iterdir()] == [lock.NAME]
    assert not list(tmp_path.iterdir())
    with lock.locked(tmp_path):
        pass


def test__fit__two_threads_with_one_folder__the_second_is_refused(digits, small, tmp_path):
    inside, done = threading.Event(), threading.Event()

    def wait(_module, _iteration):
        inside.set()
        done.wait()

    first = SDLGM(**small, refine=0, checkpoint_dir=tmp_path, random_state=0)
    thread = threading.Thread(target=first.fit, args=(digits,), kwargs={"callback": wait})
    thread.start()
    inside.wait()
    try:
        with pytest.raises(CheckpointError, match=f"{tmp_path}: another run.*checkpoint_dir of its own"):
            SDLGM(**small, checkpoint_dir=tmp_path, random_state=0, resume=True).fit(digits)
    finally:
        done.set()
        thread.join()
    assert first.n_iter_ == small["max_iter"]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def hold(folder, ready) -> None:
    with lock.locked(folder):
        ready.set()
        signal.pause()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test__locked__process_killed__does_not_block_the_next(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=hold, args=(tmp_path, ready))
    process.start()
    ready.wait()
    with pytest.raises(CheckpointError, match="another run"), lock.locked(tmp_path):
        pass
    process.kill()
    process.join()
    assert (tmp_path / lock.NAME).exists()
    with lock.locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test__locked__file_removed_by_the_run_before__is_locked_again(tmp_path, monkeypatch):
    """Between opening and locking, the run before ends and removes the file."""
    lock_file, handles = lock._lock_file, []

    def removed_at_first(handle):
        if not handles:
            (tmp_path / lock.NAME).unlink()
        handles.append(handle)
        lock_file(handle)

    monkeypatch.setattr(lock, "_lock_file", removed_at_first)
    with lock.locked(tmp_path):
        assert len(handles) == 2
        assert os.path.samestat(os.fstat(handles[1]), (tmp_path / lock.NAME).stat())


def test__fit__folder_without_locks__warns_and_trains(digits, small, tmp_path, monkeypatch):
    def no_locks(_handle):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "_lock_file", no_locks)
    with pytest.warns(UserWarning, match="cannot be locked there.*No locks available"):
        model = SDLGM(**small, checkpoint_dir=tmp_path, random_state=0).fit(digits)
    assert model.n_iter_ == small["max_iter"]
    assert (tmp_path / "checkpoint.safetensors").exists()


def searched(digits, small, folder, n_jobs: int, **options) -> None:
    split = PredefinedSplit([-1] * 300 + [0] * 100)
    model = SDLGM(**{**small, "max_iter": 300}, checkpoint_dir=folder, random_state=0, **options)
    search = GridSearchCV(model, {"max_active": [3, 4]}, cv=split, n_jobs=n_jobs, error_score="raise", refit=False)
    search.fit(digits)


def test__grid_search__in_parallel_with_one_folder__says_that_runs_share_it(digits, small, tmp_path):
    # The second may begin when the first has ended; then there is the checkpoint of another run.
    with pytest.raises((CheckpointError, ModelFileError), match="another run|an earlier run"):
        searched(digits, small, tmp_path, n_jobs=2)


@pytest.mark.parametrize(("resume", "message"), [(False, "an earlier run"), (True, "was made with n_slots=3")])
def test__grid_search__in_sequence_with_one_folder__is_refused_by_name(digits, small, tmp_path, resume, message):
    with pytest.raises(ModelFileError, match=message):
        searched(digits, small, tmp_path, n_jobs=1, resume=resume)
