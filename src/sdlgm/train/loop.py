"""The fit loop: batches in, a trained module and its curve out."""

import contextlib
import signal
from collections.abc import Callable
from types import FrameType

from sdlgm._progress import Progress as ProgressBar
from sdlgm._signals import Interrupted, handled
from sdlgm.errors import ModelFileError, TrainingDivergedError
from sdlgm.train import schedules
from sdlgm.train.batches import Batches
from sdlgm.train.checkpoint import Checkpoint
from sdlgm.train.monitor import Monitor
from sdlgm.train.progress import Progress, state_of_run
from sdlgm.train.trainer import Module, Trainer, state_of


def fit(
    trainer: Trainer[Module],
    batches: Batches,
    monitor: Monitor,
    progress: Progress,
    *,
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    visible: bool = False,
    callback: Callable[[Module, int], None] | None = None,
) -> None:
    """Train until ``max_iter``, or with early stopping until the watched objective no longer improves.

    With early stopping the module ends with its best parameters, otherwise with its last. A term that is no longer
    finite stops the run; the module then has the parameters of the last point of the curves.

    SIGINT (Ctrl-C) ends a run of one process after the iteration under way, and ``progress.interrupted`` says so. With
    a checkpoint, SIGINT and SIGTERM write it and raise `Interrupted`. During the first iteration, and a second time,
    SIGINT raises KeyboardInterrupt at once.

    Parameters
    ----------
    trainer : Trainer
    batches : Batches
    monitor : Monitor
        Makes the points of the training curves.
    progress : Progress
        Filled during the run.
    checkpoint : Checkpoint or None, default=None
    resume : bool, default=False
        Continue from the checkpoint, if there is one.
    visible : bool, default=False
        Show progress on the standard error, if the run takes longer than a few seconds.
    callback : callable or None, default=None
        Called as ``callback(module, iteration)`` after every iteration.

    """
    reserved = contextlib.nullcontext()
    if checkpoint is not None and trainer.processes.is_first:
        reserved = checkpoint.reserved()
    with reserved:
        if checkpoint is not None:
            _begin(trainer, progress, checkpoint, resume)
        bar = ProgressBar(
            "fit",
            trainer.config.max_iter,
            unit="iterations",
            completed=trainer.iteration,
            visible=visible and trainer.processes.is_first,
        )
        noted: list[int] = []
        with bar, _noted_signals(noted, trainer, checkpoint):
            _iterate(trainer, batches, monitor, progress, checkpoint, bar, callback, noted)
    if progress.best_parameters is not None:
        trainer.module.load_state_dict(progress.best_parameters)


def _iterate(
    trainer: Trainer[Module],
    batches: Batches,
    monitor: Monitor,
    progress: Progress,
    checkpoint: Checkpoint | None,
    bar: ProgressBar,
    callback: Callable[[Module, int], None] | None,
    noted: list[int],
) -> None:
    """Train, watch and write checkpoints to the end, or until a signal is ``noted``."""
    config, module, processes = trainer.config, trainer.module, trainer.processes
    good = trainer.snapshot()
    while trainer.iteration < config.max_iter and not _has_settled(trainer, progress):
        try:
            trainer.step(batches.batch(trainer.iteration, trainer.device))
            watch = trainer.iteration % config.monitor_every == 0 or trainer.iteration == config.max_iter
            stop = processes.sum([float(bool(noted))])[0] > 0  # a signal to one process stops all
            keep = checkpoint is not None and (stop or _is_due(checkpoint, trainer))
            watch = watch or (stop and checkpoint is None)  # the end of the curves is that of the run
            if watch or keep:
                trainer.check_finite()
            if watch:
                _watch(trainer, monitor, progress)
        except TrainingDivergedError as error:
            trainer.go_back(good)
            raise TrainingDivergedError(f"{error}; {_remedy(checkpoint, good.iteration)}") from None
        if watch:
            good = trainer.snapshot()
            keep = keep or (checkpoint is not None and _has_settled(trainer, progress))
        if callback is not None:
            callback(module, trainer.iteration)
        bar.update(trainer.iteration, state_of_run(progress.history[-1] if progress.history else None))
        if keep and checkpoint is not None:
            if processes.is_first:
                checkpoint.save(trainer, progress)
            processes.wait()
            if stop:
                raise Interrupted(
                    f"stopped after iteration {trainer.iteration}; resume=True (--resume) continues from the "
                    f"checkpoint, {checkpoint.path}",
                    noted[0] if noted else signal.SIGTERM,
                )
        if stop:
            progress.interrupted = True
            return


def _begin(trainer: Trainer, progress: Progress, checkpoint: Checkpoint, resume: bool) -> None:
    """Continue from a checkpoint if asked to; raise if there is one of an earlier run."""
    trainer.processes.wait()
    if not checkpoint.path.exists():
        return
    if not resume:
        raise ModelFileError(
            f"{checkpoint.path}: holds the checkpoint of an earlier run; "
            "continue from it with resume=True (--resume), or use another folder"
        )
    checkpoint.restore(trainer, progress)


def _watch(trainer: Trainer, monitor: Monitor, progress: Progress) -> None:
    """Add a point to the curves and, with early stopping, keep the best parameters."""
    config, record = trainer.config, monitor(trainer)
    record.check_finite()
    improved = record.objective(config.rate) > progress.best(config.rate)
    progress.history.append(record)
    if config.n_iter_no_change is None:
        return
    if improved or progress.best_parameters is None:
        progress.best_parameters = state_of(trainer.module)
        progress.n_without_improvement = 0
    elif schedules.is_warmed_up(config, record.iteration):  # during the warm-up the objective itself changes
        progress.n_without_improvement += 1


def _has_settled(trainer: Trainer, progress: Progress) -> bool:
    patience = trainer.config.n_iter_no_change
    return patience is not None and progress.n_without_improvement >= patience


def _is_due(checkpoint: Checkpoint, trainer: Trainer) -> bool:
    return trainer.iteration % checkpoint.every == 0 or trainer.iteration == trainer.config.max_iter


def _remedy(checkpoint: Checkpoint | None, good_iteration: int) -> str:
    kept = "there are no good parameters to keep yet"
    if good_iteration > 0:
        kept = f"the model keeps the parameters of iteration {good_iteration}"
    if checkpoint is not None and checkpoint.path.exists():
        kept += f", and the last good checkpoint is {checkpoint.path}"
    return f"{kept}; try a smaller learning_rate, and check the data for extreme values"


def _noted_signals(
    noted: list[int], trainer: Trainer, checkpoint: Checkpoint | None
) -> contextlib.AbstractContextManager[None]:
    """Collect signals, so that a run ends between two iterations: SIGINT, and with a checkpoint SIGTERM too.

    Several processes without a checkpoint are interrupted at once: nobody would take their model.
    """

    def note(received: int, _frame: FrameType | None) -> None:
        nothing_to_keep = checkpoint is None and trainer.iteration == 0
        if received == signal.SIGINT and (nothing_to_keep or received in noted):
            raise KeyboardInterrupt
        noted.append(received)

    if checkpoint is not None:
        return handled(note, signal.SIGINT, signal.SIGTERM)
    if trainer.processes.shard.size == 1:
        return handled(note, signal.SIGINT)
    return contextlib.nullcontext()
