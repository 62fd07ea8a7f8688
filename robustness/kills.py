"""Kill processes at random moments, and look at the files that they leave.

Each kind of work is done in a process that is killed by SIGKILL and started again, until it is complete. All files have
to be readable after every kill, and what is complete has to be the same, bit for bit, as without any kill.
"""

import multiprocessing
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits

from sdlgm import SDLGM, SDLGMError, _tensorfile, load
from sdlgm.data import CodedParts, open_rows, read_codes, write_codes
from sdlgm.data.code_folder import CODES, _read_part
from sdlgm.data.part_folder import read_manifest
from sdlgm.train.checkpoint import KIND

SETTINGS: dict[str, Any] = {
    "n_components": 16,
    "max_active": 5,
    "hidden": (32,),
    "max_iter": 300,
    "batch_size": 50,
    "refine": 0,
    "random_state": 0,
}
"""Settings of the runs that are killed."""
EVERY = 4
"""Iterations between two checkpoints."""
LONGEST_WAIT = 0.03
"""Longest time, in seconds, between a process that works and its end."""


@dataclass(frozen=True)
class Kills:
    """What kills have done."""

    kills: int
    lost_files: int
    """Files that were there before a kill, or are there after it, and cannot be read."""
    unequal_resumes: int
    """Completed pieces of work that differ from those of an uninterrupted process."""
    most_iterations_lost: int
    """Most iterations of training that a kill has lost."""


class Work(ABC):
    """Work that is killed, in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.reached = multiprocessing.get_context("fork").Value("q", 0, lock=False)
        """Number of steps that the process has done, in memory that it shares."""

    @abstractmethod
    def do(self) -> None:
        """Work to the end, from where a process before was killed."""

    @abstractmethod
    def count_lost(self) -> int:
        """Return the number of files that cannot be read."""

    @abstractmethod
    def is_equal(self) -> bool:
        """Return whether the completed work is that of an uninterrupted process."""

    def iterations_lost(self) -> int:
        """Return the iterations of training that a kill has lost."""
        return 0

    def clear(self) -> None:
        """Begin again."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.reached.value = 0


class Training(Work):
    """Train with checkpoints."""

    def __init__(self, folder: Path, X: np.ndarray):
        super().__init__(folder)
        self.X = X
        self.whole = SDLGM(**SETTINGS).fit(X)
        self.kept = 0

    def fit(self) -> SDLGM:
        """Return the model, trained from the checkpoint on."""

        def note(_module: object, iteration: int) -> None:
            self.reached.value = iteration

        model = SDLGM(**SETTINGS, checkpoint_dir=self.folder, checkpoint_every=EVERY, resume=True)
        return model.fit(self.X, callback=note)

    def do(self) -> None:
        self.fit()

    def count_lost(self) -> int:
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            return int(self.kept > 0)
        before = self.kept
        try:
            self.kept = checkpointed_iteration(self.folder)
        except SDLGMError:
            return 1
        return int(self.kept < before)

    def iterations_lost(self) -> int:
        return self.reached.value - self.kept

    def is_equal(self) -> bool:
        return same_state(self.fit(), self.whole)

    def clear(self) -> None:
        super().clear()
        self.kept = 0


class Saving(Work):
    """Save two models, one over the other."""

    TIMES = 200

    def __init__(self, folder: Path, models: tuple[SDLGM, SDLGM]):
        super().__init__(folder)
        self.models = models
        self.path = folder / "model.sdlgm"

    def do(self) -> None:
        for number in range(self.TIMES):
            self.models[number % 2].save(self.path)
            self.reached.value += 1

    def count_lost(self) -> int:
        if not self.path.exists():
            return int(self.reached.value > 0)
        return _is_lost(lambda: any(self._is(model) for model in self.models))

    def is_equal(self) -> bool:
        return self._is(self.models[(self.TIMES - 1) % 2])

    def _is(self, model: SDLGM) -> bool:
        found = load(self.path)
        assert isinstance(found, SDLGM)
        return same_state(found, model)


class Encoding(Work):
    """Encode rows into a folder of codes."""

    def __init__(self, folder: Path, model: SDLGM, rows: Path):
        super().__init__(folder)
        self.model, self.rows = model, rows
        self.codes = folder / "codes"
        self.whole = model.transform(rows)
        self.seen: set[Path] = set()

    def do(self) -> None:
        rows = open_rows(self.rows)
        assert rows is not None

        def advance(n_rows: int) -> None:
            self.reached.value += n_rows

        n_components = self.whole.shape[1]
        CodedParts(self.codes, rows, n_components, {}).encode(self.model.transform, advance)

    def count_lost(self) -> int:
        rows = open_rows(self.rows)
        assert rows is not None
        manifest, first = self.codes / CODES.manifest, 0
        there = {path for path in (manifest, *self.codes.glob("part-*")) if path.exists()}
        lost = len(self.seen - there) + int(bool(there) and manifest not in there)
        self.seen |= there
        if manifest in there:
            lost += _is_lost(lambda: read_manifest(self.codes, CODES).n_rows == len(rows))
        for number, part in enumerate(rows.parts):
            path, expected = CODES.path(self.codes, number), self.whole[first : first + part.n_rows]
            first += part.n_rows
            if path in there:
                lost += _is_lost(lambda: same_codes(_read_part(path, expected.shape[1]), expected))  # noqa: B023
        return lost

    def clear(self) -> None:
        super().clear()
        self.seen.clear()

    def is_equal(self) -> bool:
        return same_codes(read_codes(self.codes), self.whole)


class Writing(Work):
    """Write two files of codes, one over the other."""

    TIMES = 200

    def __init__(self, folder: Path, model: SDLGM, X: np.ndarray):
        super().__init__(folder)
        self.both = model.transform(X), model.transform(X[::-1])
        self.path = folder / "codes.npz"

    def do(self) -> None:
        for number in range(self.TIMES):
            write_codes(self.path, self.both[number % 2])
            self.reached.value += 1

    def count_lost(self) -> int:
        if not self.path.exists():
            return int(self.reached.value > 0)
        return _is_lost(lambda: any(same_codes(read_codes(self.path), codes) for codes in self.both))

    def is_equal(self) -> bool:
        return same_codes(read_codes(self.path), self.both[(self.TIMES - 1) % 2])


def try_kills(n: int, seed: int, folder: Path, report: Callable[[int], object] = lambda _: None) -> Kills:
    """Kill processes that train, save, encode and write codes.

    Parameters
    ----------
    n : int
        Number of kills.
    seed : int
        Seed of the moments.
    folder : Path
        An empty folder for the files.
    report : callable, default=no-op
        Called with the number of kills so far.

    Returns
    -------
    kills : Kills

    """
    rng = np.random.default_rng(seed)
    works = _works(folder)
    kills = lost = unequal = most = 0
    turn = 0
    while kills < n:
        work = works[turn % len(works)]
        turn += 1
        if _killed(work, rng):
            kills += 1
            lost += work.count_lost()
            most = max(most, work.iterations_lost())
            report(kills)
        else:
            unequal += not work.is_equal()
            work.clear()
    for work in works:  # those that were killed last are completed
        if work.reached.value:
            work.do()
            unequal += not work.is_equal()
    return Kills(kills, lost, unequal, most)


def _works(folder: Path) -> list[Work]:
    torch.set_num_threads(1)  # threads do not survive a fork
    X = np.asarray(load_digits(return_X_y=True)[0], np.float32)[:400] / 16
    short: dict[str, Any] = {**SETTINGS, "max_iter": 20}
    models = SDLGM(**short).fit(X), SDLGM(**{**short, "random_state": 1}).fit(X)
    rows = folder / "rows"
    rows.mkdir()
    for number in range(20):
        np.save(rows / f"{number:02d}.npy", X[20 * number : 20 * (number + 1)])
    folders = [folder / name for name in ("training", "saving", "encoding", "writing")]
    for path in folders:
        path.mkdir()
    return [
        Training(folders[0], X),
        Saving(folders[1], models),
        Encoding(folders[2], models[0], rows),
        Writing(folders[3], models[0], X),
    ]


def _killed(work: Work, rng: np.random.Generator) -> bool:
    """Start a process and kill it; return False if it has completed its work before."""
    process = multiprocessing.get_context("fork").Process(target=work.do)
    # Every other time a process is let come further first, however busy the machine is.
    goal = work.reached.value + int(rng.integers(1, 40)) if rng.random() < 0.5 else 0
    process.start()
    while process.is_alive() and work.reached.value < goal:
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, LONGEST_WAIT))
    process.kill()
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{type(work).__name__} has failed with exit code {process.exitcode}")
    return process.exitcode != 0


def _is_lost(is_whole: Callable[[], bool]) -> int:
    """Return 1 if a file is not what it should be, or cannot be read, and 0 otherwise."""
    try:
        return int(not is_whole())
    except SDLGMError:
        return 1


def checkpointed_iteration(folder: Path) -> int:
    """Return the iteration of the checkpoint in a folder, all of which is read and compared with its checksum."""
    return _tensorfile.read(folder / "checkpoint.safetensors", KIND).document["iteration"]


def same_state(first: SDLGM, second: SDLGM) -> bool:
    """Return whether two models are the same, bit for bit."""
    left, right = first.module_.state_dict(), second.module_.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def same_codes(first: sp.csr_matrix, second: sp.csr_matrix) -> bool:
    """Return whether two matrices of codes are the same."""
    return first.shape == second.shape and np.array_equal(first.toarray(), second.toarray())
