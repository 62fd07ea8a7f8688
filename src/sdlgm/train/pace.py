"""When the training curves get a point."""

from sdlgm.train.trainer import Trainer

POINTS = 50
"""Points of the curves of a run."""
LEAST_ITERATIONS = 5
"""Iterations between two points, which a short run has fewer of."""
LARGEST_SHARE = 0.1
"""Of the time of a run that it limits: points of large models take time too."""


class Pace:
    """Fifty points in a run, at least five iterations apart, and one at its end.

    If the time limits the run, points take a tenth of it at most.

    Parameters
    ----------
    trainer : Trainer
        The run, of which only iteration and time are read.

    """

    def __init__(self, trainer: Trainer):
        self._trainer = trainer
        self._iteration, self._position, self._next = trainer.iteration, trainer.position, trainer.seconds

    @property
    def is_due(self) -> bool:
        """Whether the curves get a point after this iteration."""
        trainer, config = self._trainer, self._trainer.config
        if trainer.is_over:
            return True
        if config.max_time is None:
            assert config.max_iter is not None
            return trainer.iteration % max(LEAST_ITERATIONS, config.max_iter // POINTS) == 0
        return (
            trainer.iteration - self._iteration >= LEAST_ITERATIONS
            and trainer.position - self._position >= config.length / POINTS
            and trainer.seconds >= self._next
        )

    def made(self, seconds: float) -> None:
        """Note that a point has been made, which took this time."""
        trainer = self._trainer
        self._iteration, self._position = trainer.iteration, trainer.position
        self._next = trainer.seconds + seconds / LARGEST_SHARE
