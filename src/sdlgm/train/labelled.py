"""Training with labels: rows carry their targets with them, and batches, loop and checkpoints are the usual ones."""

from typing import cast

import numpy as np
import torch
from torch import Tensor

from sdlgm.model import Objective
from sdlgm.model import labels as forms
from sdlgm.model.labelled import LabelledModule
from sdlgm.model.members import for_each_member
from sdlgm.model.slots import SlotDistribution
from sdlgm.train import schedules
from sdlgm.train.batches import to_tensor
from sdlgm.train.monitor import Record
from sdlgm.train.trainer import Trainer


def packed(x: np.ndarray, y: np.ndarray | None, n_labels: int) -> np.ndarray:
    """Observations, their labels, and whether they have any, side by side in single precision."""
    labels = np.zeros((len(x), n_labels)) if y is None else y
    known = np.full((len(x), 1), float(y is not None))
    return np.concatenate([x, labels, known], axis=1, dtype=np.float32)


def unpacked(rows: Tensor, n_labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """The three parts of `packed` rows."""
    return rows[:, : -n_labels - 1], rows[:, -n_labels - 1 : -1], rows[:, -1]


class LabelTrainer(Trainer):
    """A trainer whose rows are `packed`."""

    def _objective(self, rows: Tensor, kl_weight: float) -> Objective:
        module = cast(LabelledModule, self.module)
        x, y, labelled = unpacked(rows, module.config.n_labels)
        return module.objective(
            x,
            y,
            labelled,
            self._expectation,
            kl=self.config.kl,
            kl_weight=kl_weight,
            n_samples=self.config.n_samples,
            generator=self.generator,
        )


class LabelMonitor:
    """Log-probability of the labels of rows that stay the same through the run, all with known labels."""

    def __init__(self, rows: np.ndarray, seed: int):
        self.rows = rows
        self.seed = seed

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> Record:
        module, config = cast(LabelledModule, trainer.module), trainer.config
        training = module.training
        module.eval()
        x, y, _ = unpacked(to_tensor(self.rows, trainer.device), module.config.n_labels)
        posterior = module.inference(x).labels
        y = for_each_member(y, module.config.n_members)
        presence = posterior.presence
        discrete = forms.label_log_prob(posterior, module.config.form, y)
        relaxed = discrete  # nothing is relaxed but in the paper's form
        if module.config.form == "monte_carlo" and isinstance(posterior, SlotDistribution):
            generator = torch.Generator(trainer.device).manual_seed(self.seed)
            presence = forms.relaxed_presence(posterior, module.temperatures, 1, generator)
            relaxed = forms.relaxed_log_prob(presence, y)
        numbers = forms.number_of_labels(posterior, module.config.form, presence)
        expected = numbers @ torch.arange(numbers.shape[-1], dtype=numbers.dtype, device=numbers.device)
        module.train(training)
        return Record(
            iteration=trainer.iteration,
            discrete=float(discrete.mean()),
            relaxed=float(relaxed.mean()),
            kl=float(posterior.kl(module.prior.labels(), config.kl).mean()),
            n_active=float(expected.mean()),
            kl_weight=schedules.kl_weight(config, trainer.iteration),
            learning_rate=schedules.learning_rate(config, trainer.iteration),
            gate_temperature=float(module.temperatures.gate),
            feature_temperature=float(module.temperatures.feature),
        )
