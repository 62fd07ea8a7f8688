"""Parameters that files of earlier versions lack, and the values that they had then.

When an estimator gets a parameter, add a line to `MIGRATIONS`: files of earlier versions then load and answer as they
did. See docs/compatibility.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Migration:
    """A parameter that was added to an estimator."""

    estimator: str
    parameter: str
    since: str
    """The version of sdlgm that added it."""
    value: object
    """The value that describes the behaviour of earlier versions."""


MIGRATIONS: Sequence[Migration] = (
    Migration("SDLGM", "prior", "0.3.0", "slots"),
    Migration("SDLGM", "prior_rank", "0.3.0", None),
    Migration("SDLGM", "prior_hidden", "0.3.0", None),
    Migration("SDLGM", "posterior_rank", "0.3.0", None),
    Migration("SDLGM", "rate", "0.3.0", 1.0),
    # Models of 0.3.0 that were written before its release lack these too.
    Migration("SDLGM", "refine", "0.3.1", 0.0),
    Migration("SDLGM", "deviation", "0.3.1", None),
    Migration("SDLGMClassifier", "decision", "0.3.1", "auto"),
    Migration("SDLGMClassifier", "inputs", "0.3.1", "standard"),
    Migration("SDLGMClassifier", "early_stopping", "0.3.1", False),
    Migration("SDLGMClassifier", "validation_fraction", "0.3.1", 0.1),
    Migration("SDLGMClassifier", "n_iter_no_change", "0.3.1", 10),
)


def migrate(estimator: str, params: dict[str, object], written_by: str) -> dict[str, object]:
    """Return the parameters of a file with those added since that it was written.

    Parameters
    ----------
    estimator : str
        Name of the class.
    params : dict
        Parameters in the file.
    written_by : str
        The version of sdlgm that wrote the file.

    """
    return added_since(estimator, written_by) | params


def added_since(estimator: str, written_by: str) -> dict[str, object]:
    """Return the parameters that an estimator got after a version, with the values that describe its behaviour."""
    version = _as_numbers(written_by)
    return {
        migration.parameter: migration.value
        for migration in MIGRATIONS
        if migration.estimator == estimator and version < _as_numbers(migration.since)
    }


def _as_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 0.2.0, or 0.2.0rc1, which counts as 0.2.0; raise for anything else."""
    release = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    if release is None:
        raise ValueError(f"the version {version!r} has no numbers")
    return tuple(int(part) for part in release.group().split("."))
