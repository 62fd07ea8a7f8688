"""Change bytes of valid files at random, and read them: they are read, or refused by an error of sdlgm."""

import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robustness.targets import TARGETS
from sdlgm import SDLGMError

WORDS = [
    b"",
    b"\0",
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\0\0\0\0\0\0\1\0",
    b"-1",
    b"1e999",
    b"nan",
    b"null",
    b"9" * 20,
    b"[",
]
"""Bytes that are likely to mean something."""
MOST_CHANGES, LONGEST_REMOVED, LONGEST_INSERTED = 4, 12, 8
KEPT = (None, None, None, 0.3, 0.8, 0.99)
"""Shares of a file that are kept, from its beginning; None for all of it."""

Change = tuple[float, int, bytes]
"""A place as a share of the length, a number of bytes to remove, and bytes to insert."""


@dataclass(frozen=True)
class Mutations:
    """What became of changed files of a target."""

    target: str
    tried: int
    read: int
    """Files without an error; of targets that do several things with a file, those without an error of another kind."""
    named_errors: int
    """Files that were refused by an error of sdlgm."""
    unnamed: int
    """Files that caused any other error, which is a bug."""


def mutate(content: bytes, changes: Sequence[Change], keep: float | None) -> bytes:
    """Return a file with changes, one after the other, and then cut off."""
    changed = bytearray(content)
    for share, length, new in changes:
        start = int(share * len(changed))
        changed[start : start + length] = new
    return bytes(changed if keep is None else changed[: int(keep * len(changed))])


def try_mutations(n_per_target: int, seed: int, report: Callable[[str], object] = lambda _: None) -> list[Mutations]:
    """Read changed files with every target.

    Parameters
    ----------
    n_per_target : int
        Number of changed files.
    seed : int
        Seed of the changes.
    report : callable, default=no-op
        Called with the name of each target, and with every error that is not of sdlgm.

    Returns
    -------
    mutations : list of Mutations

    """
    found = []
    for name, target in TARGETS.items():
        report(name)
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the models of the files are not meant to learn
            valid = target.valid
        n_read = n_named = n_unnamed = 0
        for _ in range(n_per_target):
            content = mutate(valid, _random_changes(rng), KEPT[rng.integers(len(KEPT))])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # numpy warns of extreme numbers
                    target.read_bytes(content)
                n_read += 1
            except SDLGMError:
                n_named += 1
            except Exception as error:
                n_unnamed += 1
                report(f"{name}: {error!r}")
        found.append(Mutations(name, n_per_target, n_read, n_named, n_unnamed))
    return found


def _random_changes(rng: np.random.Generator) -> list[Change]:
    changes = []
    for _ in range(rng.integers(1, MOST_CHANGES + 1)):
        new = WORDS[rng.integers(len(WORDS))]
        if rng.random() < 0.5:
            new = rng.bytes(int(rng.integers(LONGEST_INSERTED + 1)))
        # Every other time the length stays: many files are refused at once if it does not.
        removed = len(new) if rng.random() < 0.5 else int(rng.integers(LONGEST_REMOVED + 1))
        changes.append((float(rng.random()), removed, new))
    return changes
