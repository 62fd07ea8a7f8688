"""The options of training, as opposed to those of the model."""

from dataclasses import dataclass

from sdlgm.model.codes.base import KL
from sdlgm.train.batches import Binarize


@dataclass(frozen=True)
class TrainConfig:
    """Options of a fit. Fractions are of ``max_iter``, so a longer run is the same run, stretched."""

    max_iter: int
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

    @property
    def monitor_every(self) -> int:
        """Iterations between two points of the curves: fifty points for a run, fewer for a short one."""
        return max(5, self.max_iter // 50)
