"""The fit loop: batches in, a trained module and its curve out."""

import contextlib
import math
import signal
from collections.abc import Callable
from types import FrameType

from sdlgm._progress import Progress as ProgressBar
from sdlgm._signals import Interrupted, handled
from sdlgm.errors import ModelFileError, TrainingDivergedError
from sdlgm.train import clock, schedules
from sdlgm.train.batches import Batches
from sdlgm.train.checkpoint import Checkpoint
from sdlgm.train.monitor import Monitor
from sdlgm.train.pace import Pace
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
    start: float | None = None,
    phase: str = "fit",
) -> None:
    """Train until ``max_iter`` or ``max_time``, or with early stopping until the watched objective no longer improves.

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
    start : float or None, default=None
        The moment by `clock.now` from which ``max_time`` counts; None for now. Time that a checkpoint says was used
        before is added.
    phase : str, default="fit"
        Name of this part of the work, for the progress bar.

    """
    reserved = contextlib.nullcontext()
    if checkpoint is not None and trainer.processes.is_first:
        reserved = checkpoint.reserved()
    with reserved:
        start = clock.now() if start is None else start
        if checkpoint is not None:
            _begin(trainer, progress, checkpoint, resume)
        start -= trainer.seconds
        bar = _bar(trainer, visible, phase)
        noted: list[int] = []
        with bar, _noted_signals(noted, trainer, checkpoint):
            _iterate(trainer, batches, monitor, progress, checkpoint, bar, callback, noted, start)
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
    start: float,
) -> None:
    """Train, watch and write checkpoints to the end, or until a signal is ``noted``."""
    module, processes = trainer.module, trainer.processes
    good = trainer.snapshot()
    _count_time(trainer, start)
    pace = Pace(trainer)
    while not trainer.is_over and not _has_settled(trainer, progress):
        try:
            trainer.step(batches.batch(trainer.iteration, trainer.device))
            _count_time(trainer, start)
            watch = pace.is_due
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
            before = trainer.seconds
            _count_time(trainer, start)
            pace.made(trainer.seconds - before)
            good = trainer.snapshot()
            keep = keep or (checkpoint is not None and (trainer.is_over or _has_settled(trainer, progress)))
        if callback is not None:
            callback(module, trainer.iteration)
        bar.update(_completed(trainer), state_of_run(progress.history[-1] if progress.history else None))
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


def _count_time(trainer: Trainer, start: float) -> None:
    """Set the time that is used, by the clock of the first process, if the time limits the run."""
    if trainer.config.max_time is not None:
        own = clock.now() - start if trainer.processes.is_first else 0.0
        trainer.seconds = trainer.processes.sum([own])[0]


def _bar(trainer: Trainer, visible: bool, phase: str) -> ProgressBar:
    """Return a progress bar of the seconds of a run that the time limits, and of the iterations of others."""
    config = trainer.config
    in_seconds = config.max_time is not None
    return ProgressBar(
        phase,
        math.ceil(config.length if config.max_time is None else config.max_time),
        unit="seconds" if in_seconds else "iterations",
        completed=_completed(trainer),
        visible=visible and trainer.processes.is_first,
    )


def _completed(trainer: Trainer) -> int:
    return trainer.iteration if trainer.config.max_time is None else int(trainer.seconds)


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
    elif schedules.is_warmed_up(config, trainer.position):  # during the warm-up the objective itself changes
        progress.n_without_improvement += 1


def _has_settled(trainer: Trainer, progress: Progress) -> bool:
    patience = trainer.config.n_iter_no_change
    return patience is not None and progress.n_without_improvement >= patience


def _is_due(checkpoint: Checkpoint, trainer: Trainer) -> bool:
    return trainer.iteration % checkpoint.every == 0 or trainer.is_over


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
