"""The clock of a run, in one place: a measurement may want processor seconds."""

import time


def now() -> float:
    """Return the seconds since some moment, which never go back."""
    return time.monotonic()
