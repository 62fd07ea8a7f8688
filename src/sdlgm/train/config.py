"""The options of training, as opposed to those of the model."""

from dataclasses import dataclass

from sdlgm.model.codes.base import KL
from sdlgm.train.batches import Binarize


@dataclass(frozen=True)
class TrainConfig:
    """Options of a fit. Fractions are of the whole run, so a longer run is the same run, stretched.

    The schedules depend on the position in the run: the iteration, or if a larger share of ``max_time`` is used, that
    share of ``max_iter``. Without ``max_iter`` it is the time.
    """

    max_iter: int | None
    """Iterations after which the run ends; None if only the time limits it."""
    batch_size: int
    learning_rate: float
    lr_decay: float
    """Last fraction of the run over which the learning rate falls linearly to zero."""
    kl_warmup: float
    """First fraction of the run over which the weight of the KL rises linearly from zero to ``rate``."""
    final_temperature: float | None
    """Value that both temperatures reach, geometrically, at the end of the run; None leaves them as they are."""
    learn_temperature: bool
    gradient: str
    n_samples: int
    kl: KL
    binarize: Binarize | None
    """How observations become binary, for the Bernoulli likelihood; None where they are used as they are."""
    n_iter_no_change: int | None
    """Monitorings without improvement after which training stops; None for no early stopping."""
    weight_decay: float = 0.0
    """Decoupled from the gradient, as in AdamW."""
    rate: float = 1.0
    """Weight of the KL against the log-likelihood, after the warm-up."""
    n_search_steps: int = 0
    """Steps of the local search that improves the codes of the posterior; 0 trains with draws."""

    max_time: float | None = None
    """Seconds after which the run ends; None for no limit."""

    @property
    def length(self) -> float:
        """Position at which the run ends."""
        if self.max_iter is not None:
            return self.max_iter
        assert self.max_time is not None, "a run without max_iter needs max_time"
        return self.max_time

    def position(self, iteration: int, seconds: float) -> float:
        """Return the position in the run."""
        if self.max_time is None:
            return iteration
        used = seconds / self.max_time * self.length
        return used if self.max_iter is None else max(iteration, used)
