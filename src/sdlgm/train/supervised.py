"""Training with targets: rows carry them along, and batches, loop and checkpoints are the usual ones."""

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from sdlgm.model import Objective
from sdlgm.model.supervised import Step, SupervisedModule
from sdlgm.train import schedules
from sdlgm.train.batches import to_tensor
from sdlgm.train.monitor import Record
from sdlgm.train.trainer import Trainer


def packed(x: np.ndarray, y: np.ndarray | None, n_targets: int) -> np.ndarray:
    """Observations, their targets, and whether those are known, side by side in single precision."""
    targets = np.zeros((len(x), n_targets)) if y is None else y
    known = np.full((len(x), 1), float(y is not None))
    return np.concatenate([x, targets, known], axis=1, dtype=np.float32)


def unpacked(rows: Tensor, n_targets: int) -> tuple[Tensor, Tensor, Tensor]:
    """The three parts of `packed` rows."""
    return rows[:, : -n_targets - 1], rows[:, -n_targets - 1 : -1], rows[:, -1]


class SupervisedTrainer(Trainer):
    """A trainer whose rows are `packed`."""

    def __init__(self, module: SupervisedModule, config: Any, seed: int):
        super().__init__(cast(Any, module), config, seed)

    def _objective(self, rows: Tensor, kl_weight: float) -> Objective:
        module = cast(SupervisedModule, self.module)
        x, y, known = unpacked(rows, module.config.n_targets)
        step = Step(self._expectation, self.config.kl, kl_weight, self.config.n_samples, self.generator)
        return module.objective(x, y, known, step)


class SupervisedMonitor:
    """Log-probability of the targets of rows that stay the same through the run, all with known targets."""

    def __init__(self, rows: np.ndarray, seed: int):
        self.rows = rows
        self.seed = seed

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> Record:
        module, config = cast(SupervisedModule, trainer.module), trainer.config
        training = module.training
        module.eval()
        x, y, _ = unpacked(to_tensor(self.rows, trainer.device), module.config.n_targets)
        watched = module.watched(x, y, config.kl, torch.Generator(trainer.device).manual_seed(self.seed))
        module.train(training)
        return Record(
            iteration=trainer.iteration,
            discrete=float(watched.discrete.mean()),
            relaxed=float(watched.relaxed.mean()),
            kl=float(watched.kl.mean()),
            n_active=float(watched.n_active.mean()),
            kl_weight=schedules.kl_weight(config, trainer.iteration),
            learning_rate=schedules.learning_rate(config, trainer.iteration),
            gate_temperature=float(module.temperatures.gate),
            feature_temperature=float(module.temperatures.feature),
        )
