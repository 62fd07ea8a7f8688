"""What is watched while a model learns: both bounds on a fixed set of rows."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sdlgm.errors import TrainingDivergedError
from sdlgm.model import discrete_expectation, relaxed_expectation
from sdlgm.model.module import Expectation, LogLikelihood
from sdlgm.model.posteriors import Posterior
from sdlgm.train import schedules
from sdlgm.train.batches import Prepare, Rows, binarize, dense_float32, to_tensor
from sdlgm.train.trainer import Trainer

BATCH = 500
RELAXED_ROWS = 100  # it costs time, and on other devices than the CPU a (rows, L0, K) tensor


@dataclass(frozen=True)
class Record:
    """One point of the training curves. Bounds are means in nats over the watched rows."""

    iteration: int
    discrete: float
    """Bound with hard samples: what the codes are worth."""
    relaxed: float
    """The paper's criterion, with relaxed samples, on the first hundred of the rows. Not a bound."""
    kl: float
    """Nats that a code costs under the prior."""
    n_active: float
    """Expected number of active slots."""
    kl_weight: float
    learning_rate: float
    gate_temperature: float
    feature_temperature: float
    features_used: int | None = None
    """How many features the codes of the watched rows have between them; None with targets and in early files."""

    def check_finite(self) -> None:
        """Refuse a point that is nowhere on a curve."""
        for name in ("discrete", "relaxed", "kl", "n_active"):
            if not math.isfinite(getattr(self, name)):
                raise TrainingDivergedError(
                    f"{name} is not finite on the watched rows after iteration {self.iteration}"
                )


def record_of(values: Any) -> Record:
    """A point of the curves from a file."""
    numbers: dict[str, Any] = {name: float(value) for name, value in values.items() if name != "features_used"}
    used = values.get("features_used")
    return Record(
        **{**numbers, "iteration": int(values["iteration"])}, features_used=None if used is None else int(used)
    )


class Monitor:
    """Evaluates a module on rows that stay the same through the run, with noise that stays the same too."""

    def __init__(self, rows: Rows, seed: int, *, prepare: Prepare = dense_float32, log_jacobian: float = 0.0):
        self.rows = rows
        self.seed = seed
        self.prepare = prepare
        self.log_jacobian = log_jacobian

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> Record:
        module, config, iteration = trainer.module, trainer.config, trainer.iteration
        training = module.training
        module.eval()
        shard = trainer.processes.shard
        generator = torch.Generator(trainer.device).manual_seed(self.seed + shard.rank)
        own = self.rows[shard.rank :: shard.size] if shard.size > 1 else self.rows
        usage = torch.zeros(module.config.n_features, device=trainer.device)
        hard = _counting(usage, discrete_expectation(1, generator))
        discrete = kl = n_active = relaxed = n_relaxed = 0.0
        for start in range(0, own.shape[0], BATCH):
            rows = self.prepare(own[start : start + BATCH])
            x = binarize(to_tensor(rows, trainer.device), config.binarize, generator)
            posterior = module.inference(x)
            elbo = module.elbo_given(posterior, x, hard, config.kl)
            discrete += float(elbo.value.sum())
            kl += float(elbo.kl.sum())
            n_active += float(posterior.gate_prob.sum()) * module.config.n_slots
            if start == 0:
                few = x[:RELAXED_ROWS]
                soft = relaxed_expectation(1, module.temperatures, generator)
                relaxed, n_relaxed = float(module.elbo(few, soft, config.kl).value.sum()), float(len(few))
        module.train(training)
        sums = trainer.processes.sum([discrete, kl, n_active, relaxed, n_relaxed, *usage.tolist()])
        discrete, kl, n_active, relaxed, n_relaxed, *n_codes = sums
        n_rows: int = self.rows.shape[0]
        temperatures = module.temperatures
        return Record(
            iteration=iteration,
            discrete=discrete / n_rows + self.log_jacobian,
            relaxed=relaxed / n_relaxed + self.log_jacobian,
            kl=kl / n_rows,
            n_active=n_active / n_rows,
            kl_weight=schedules.kl_weight(config, iteration),
            learning_rate=schedules.learning_rate(config, iteration),
            gate_temperature=float(temperatures.gate),
            feature_temperature=float(temperatures.feature),
            features_used=sum(n > 0 for n in n_codes),
        )


def _counting(usage: Tensor, expectation: Expectation) -> Expectation:
    """The expectation, which on its way adds to ``usage`` how many codes have each feature."""

    def counted(posterior: Posterior, log_likelihood: LogLikelihood) -> Tensor:
        def noted(counts: Tensor) -> Tensor:
            usage.add_((counts > 0).sum((0, 1)))
            return log_likelihood(counts)

        return expectation(posterior, noted)

    return counted
