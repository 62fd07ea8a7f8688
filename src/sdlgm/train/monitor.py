"""Training curves: both bounds on rows that stay the same through a run."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdlgm.errors import TrainingDivergedError
from sdlgm.model.modules.base import Batch
from sdlgm.model.noise import Noise
from sdlgm.train import schedules
from sdlgm.train.batches import Binarize, Prepare, Rows, TargetMatrix, Targets, binarize, dense_float32, make_batch
from sdlgm.train.trainer import Trainer

BATCH = 500
RELAXED_ROWS = 100  # it costs time, and on other devices than the CPU a (rows, L0, K) tensor


@dataclass(frozen=True)
class Record:
    """One point of the training curves. Bounds are means in nats over the watched rows."""

    iteration: int
    discrete: float
    """Bound with hard samples, the value of the codes."""
    relaxed: float
    """The paper's criterion, with relaxed samples, on the first hundred of the rows. Not a bound."""
    kl: float
    """KL(q, p): the nats that a drawn code carries at most."""
    n_active: float
    """Expected number of active slots."""
    kl_weight: float
    """Weight of the KL in training; ``rate`` from the end of the warm-up on."""
    learning_rate: float
    gate_temperature: float
    feature_temperature: float
    features_used: int | None = None
    """Number of features that drawn codes of the watched rows contain; None with targets and in early files."""
    training: float | None = None
    """Mean objective of the training batches since the last point; None in early files."""
    row_divergence: float | None = None
    """KL between the posteriors of two watched rows, at least the nats that codes carry about them; None if it is not
    known.
    """

    def objective(self, rate: float) -> float:
        """Return the objective of training after the warm-up, log-likelihood - rate * KL, with hard samples."""
        return self.discrete - (rate - 1.0) * self.kl

    def check_finite(self) -> None:
        """Raise if the point is not finite."""
        for name in ("discrete", "relaxed", "kl", "n_active"):
            if not math.isfinite(getattr(self, name)):
                raise TrainingDivergedError(
                    f"{name} is not finite on the watched rows after iteration {self.iteration}"
                )


def record_of(values: dict[str, Any]) -> Record:
    """Return a point of the curves from its JSON."""
    optional = ("features_used", "training", "row_divergence")
    numbers: dict[str, Any] = {name: float(value) for name, value in values.items() if name not in optional}
    used, training, divergence = (values.get(name) for name in optional)
    if not all(math.isfinite(value) for value in (*numbers.values(), training or 0.0, divergence or 0.0)):
        raise ValueError("a point of the training curves is not finite")
    numbers["iteration"] = int(values["iteration"])
    return Record(
        **numbers,
        features_used=None if used is None else int(used),
        training=None if training is None else float(training),
        row_divergence=None if divergence is None else float(divergence),
    )


class Monitor:
    """Evaluate a module on rows that stay the same through the run, with noise that stays the same too."""

    def __init__(
        self,
        rows: Rows,
        seed: int,
        *,
        prepare: Prepare = dense_float32,
        targets: TargetMatrix | None = None,
        log_jacobian: float = 0.0,
        training_log_jacobian: float | None = None,
    ):
        self.rows = rows
        self.targets = None if targets is None else Targets.all_known(targets)
        self.seed = seed
        self.prepare = prepare
        self.log_jacobian = log_jacobian
        self.training_log_jacobian = log_jacobian if training_log_jacobian is None else training_log_jacobian

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> Record:
        """Return the next point of the curves."""
        module, config, iteration = trainer.module, trainer.config, trainer.iteration
        training = module.training
        module.eval()
        shard = trainer.processes.shard
        noise = Noise.seeded(self.seed + shard.rank, trainer.device)
        n_rows: int = self.rows.shape[0]
        own = np.arange(shard.rank, n_rows, shard.size)
        totals, usage, has_divergence = np.zeros(6), torch.zeros(0), n_rows >= 2 * shard.size
        for start in range(0, len(own), BATCH):
            batch = self._batch(own[start : start + BATCH], trainer.device)
            watched = module.watch(
                replace(batch, x=binarize(batch.x, config.binarize, noise)),
                kl=config.kl,
                noise=noise,
                n_relaxed=RELAXED_ROWS if start == 0 else 0,
            )
            totals[:5] += [watched.discrete, watched.kl, watched.n_active, watched.relaxed, watched.n_relaxed]
            totals[5] += watched.row_divergence or 0.0
            has_divergence = has_divergence and watched.row_divergence is not None
            if watched.usage is not None:
                usage = watched.usage.cpu() + (usage if len(usage) else 0.0)
        module.train(training)
        sums = trainer.processes.sum([*totals.tolist(), *usage.tolist()])
        discrete, kl, n_active, relaxed, n_relaxed, divergence, *n_codes = sums
        temperatures = module.temperatures
        return Record(
            iteration=iteration,
            discrete=discrete / n_rows + self.log_jacobian,
            relaxed=relaxed / n_relaxed + self.log_jacobian,
            kl=kl / n_rows,
            n_active=n_active / n_rows,
            kl_weight=schedules.kl_weight(config, trainer.position),
            learning_rate=schedules.learning_rate(config, trainer.position),
            gate_temperature=float(temperatures.gate),
            feature_temperature=float(temperatures.feature),
            features_used=sum(n > 0 for n in n_codes) if n_codes else None,
            training=trainer.take_training_mean(self.training_log_jacobian),
            row_divergence=divergence / n_rows if has_divergence and math.isfinite(divergence) else None,
        )

    @torch.no_grad()
    def mean_of(self, log_prob: Callable[[Tensor], Tensor], binarized: Binarize | None, device: torch.device) -> float:
        """Return the mean of a function of the watched rows, in the units of the training curves."""
        noise, n_rows, total = Noise.seeded(self.seed, device), self.rows.shape[0], 0.0
        for start in range(0, n_rows, BATCH):
            batch = self._batch(np.arange(start, min(start + BATCH, n_rows)), device)
            total += float(log_prob(binarize(batch.x, binarized, noise)).sum())
        return total / n_rows + self.log_jacobian

    def _batch(self, places: np.ndarray, device: torch.device) -> Batch:
        return make_batch(self.prepare(self.rows[places]), self.targets and self.targets[places], device)
