"""One model, trained by several processes on one or several machines, through Lightning Fabric."""

import json
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sklearn.base import clone

from sdlgm import errors, train
from sdlgm._optional import optional_import
from sdlgm._signals import Interrupted, exit_code
from sdlgm._user_errors import is_user_error
from sdlgm.errors import ProcessLostError, SDLGMError, TrainingDivergedError
from sdlgm.estimators import _modelfile

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.strategy import Strategy

    from sdlgm.estimators._sdlgm import SDLGM


# For processes that a signal stops, to write a checkpoint.
SECONDS_TO_END = 60.0

_NAMED = "raised on purpose: "
_NAMES: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (*vars(errors).values(), TypeError) if isinstance(kind, type)
}
# Texts of errors that a lost connection causes.
_SIGNS_OF_LOSS = ("Connection closed by peer", "Connection reset", "Broken pipe", "Timed out", "Gloo")


def fit_distributed(estimator: "SDLGM", X: object) -> str | None:
    """Fit with ``devices`` processes on each of ``num_nodes`` machines. Return a message if the fit did not work.

    If torchrun or SLURM has started this process, it is one of them, and all end with the same model. Otherwise the
    processes are started here and end here.
    """
    fabric = _fabric(estimator, launched := is_launched())
    try:
        if launched:
            fabric.launch()
            problem = estimator._fit(X, processes=train.FabricProcesses(fabric))
            return problem if fabric.global_rank == 0 else None
        with tempfile.TemporaryDirectory(prefix="sdlgm-") as folder:
            path = Path(folder) / "model.sdlgm"
            try:
                unfitted = cast("SDLGM", clone(estimator))
                with _ended_children():
                    fabric.launch(partial(_fit_and_save, estimator=unfitted, X=X, path=path))
            except KeyboardInterrupt as error:
                raise _named_interrupt(estimator, error) from None
            finally:
                if path.exists():  # after a divergence too, with the last good parameters
                    _take(estimator, _modelfile.load(path, device=str(estimator.device)))
            problem = _problem_beside(path)
            return problem.read_text("utf-8") if problem.exists() else None
    except Exception as error:
        _raise_named(error)
        lost = _lost(error)
        if lost is None:
            raise
        raise ProcessLostError(
            f"a process of this run has died or cannot be reached ({lost}); all have stopped. With a checkpoint_dir, "
            "resume=True continues from the last checkpoint"
        ) from error


@contextmanager
def _ended_children() -> Iterator[None]:
    """If a signal interrupts the block, stop the processes that were started in it, and wait for them.

    They write a checkpoint, if they are to, and end. After another signal, or a minute, they are killed.
    """
    before = set(multiprocessing.active_children())
    try:
        yield
    except KeyboardInterrupt:
        started = set(multiprocessing.active_children()) - before
        try:
            for process in started:
                process.terminate()
            end = time.monotonic() + SECONDS_TO_END
            for process in started:
                process.join(max(0.0, end - time.monotonic()))
        finally:
            for process in started:
                process.kill()
                process.join()
        raise


def _named_interrupt(estimator: "SDLGM", error: KeyboardInterrupt) -> KeyboardInterrupt:
    """Return an interrupt whose message names the checkpoint, if there is one."""
    if estimator.checkpoint_dir is None:
        return error
    path = train.Checkpoint(estimator.checkpoint_dir, int(estimator.checkpoint_every), {}).path
    if not path.exists():
        return error
    number = error.number if isinstance(error, Interrupted) else signal.SIGINT
    return Interrupted(f"stopped; resume=True (--resume) continues from the checkpoint, {path}", number)


def _take(estimator: "SDLGM", fitted: "SDLGM") -> None:
    """Give an estimator the fitted state of another one, and leave its settings."""
    settings = estimator.get_params(deep=False)
    for name in [name for name in vars(estimator) if name.endswith("_")]:  # of an earlier fit
        delattr(estimator, name)
    vars(estimator).update(vars(fitted))
    estimator.set_params(**settings)


def is_launched() -> bool:
    """Return whether a launcher has started this process as one of several."""
    optional_import("lightning_fabric", "distributed")
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    return TorchElasticEnvironment.detect() or SLURMEnvironment.detect()


def _fabric(estimator: "SDLGM", launched: bool) -> "Fabric":
    from lightning_fabric import Fabric

    accelerator = str(estimator.device).partition(":")[0]
    return Fabric(
        accelerator=accelerator,
        strategy=_strategy(estimator, launched),
        devices=int(estimator.devices),
        num_nodes=int(estimator.num_nodes),
    )


def _strategy(estimator: "SDLGM", launched: bool) -> "str | Strategy":
    """Return the strategy: on one machine, unless a launcher connects the processes, one that stays on it."""
    from sdlgm.estimators._loopback import START_METHODS, LoopbackStrategy  # imports Lightning Fabric

    name = str(estimator.strategy)
    if name == "auto":
        name = "ddp" if launched else "ddp_spawn"
    if launched or int(estimator.num_nodes) > 1 or name not in START_METHODS:
        return name
    return LoopbackStrategy(start_method=START_METHODS[name])


def _fit_and_save(fabric: "Fabric", estimator: "SDLGM", X: Any, path: Path) -> None:
    """Fit in a process that was started for this. Errors reach the parent as text."""
    try:
        problem = estimator._fit(X, processes=train.FabricProcesses(fabric))
    except KeyboardInterrupt as error:
        if multiprocessing.parent_process() is None:
            raise
        # In a child torch would ignore it, and the parent wait for a result.
        raise SystemExit(exit_code(error)) from None
    except (SDLGMError, ValueError, TypeError) as error:
        if not is_user_error(error):  # a bug, whose traceback is needed
            raise
        if isinstance(error, TrainingDivergedError):  # in all processes at once
            if fabric.global_rank == 0 and estimator.__sklearn_is_fitted__():
                estimator.save(path)
            fabric.barrier()
        raise RuntimeError(f"{_NAMED}{json.dumps([type(error).__name__, str(error)])}") from error
    if fabric.global_rank == 0:
        estimator.save(path)
        if problem is not None:
            _problem_beside(path).write_text(problem, "utf-8")


def _problem_beside(path: Path) -> Path:
    """Return the file with the message of a fit that did not work."""
    return path.with_suffix(".txt")


def _raise_named(error: Exception) -> None:
    """Re-raise an error of a child process with its original type."""
    for line in str(error).splitlines():
        _, sign, text = line.partition(_NAMED)
        if sign:
            name, message = json.loads(text)
            raise _NAMES.get(name, ValueError)(message) from error


def _lost(error: Exception) -> str | None:
    """Return a description of the lost process, or None if the error is another one."""
    from torch.multiprocessing.spawn import ProcessExitedException

    text = str(error)
    if isinstance(error, ProcessExitedException):
        return text.splitlines()[0]
    if isinstance(error, RuntimeError | OSError) and any(sign in text for sign in _SIGNS_OF_LOSS):
        lines = [line for line in text.splitlines() if any(sign in line for sign in _SIGNS_OF_LOSS)]
        return lines[-1].strip()
    return None
