"""The errors that sdlgm raises on purpose. Each message says what is wrong, where, and how to fix it."""


class SDLGMError(Exception):
    """Base class of every error below."""


class DataError(SDLGMError, ValueError):
    """Data or codes cannot be used: a file missing, unreadable, of an unknown kind or damaged, or a value that a model
    cannot work with.
    """


class DownloadError(SDLGMError, OSError):
    """A named data set could not be downloaded, or what arrived is not what was published."""


class ModelFileError(SDLGMError, ValueError):
    """A model file or checkpoint is truncated, foreign, of an unknown version, or does not fit its own settings."""


class WriteError(SDLGMError, OSError):
    """A file cannot be written: full disk, read-only or vanished folder. What was there before is as it was."""


class CheckpointError(WriteError):
    """A checkpoint cannot be written. The last good one is as it was."""


class ProcessLostError(SDLGMError, RuntimeError):
    """One of several processes that train a model together has died, or cannot be reached any more."""


class MissingDependencyError(SDLGMError, ImportError):
    """An optional dependency is not installed. The message contains the command that installs it."""


class BudgetError(SDLGMError, ValueError):
    """A code has more active slots than the model's budget allows."""


class FitInterruptedWarning(UserWarning):
    """Ctrl-C ended a fit early. The model has what was learned until then."""


class TrainingDivergedError(SDLGMError, ArithmeticError):
    """A term of the objective became NaN or infinite."""


class NumericalError(SDLGMError, ArithmeticError):
    """A fitted model has weights, or rows have values, that are so large that an answer would not be finite."""
