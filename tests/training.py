"""Helpers of several tests of training."""

import pytest
import torch

from sdlgm import SDLGM
from sdlgm.train import TrainConfig, Trainer, state_of

CONFIG = TrainConfig(
    max_iter=100,
    batch_size=10,
    learning_rate=0.1,
    lr_decay=0.5,
    kl_warmup=0.2,
    final_temperature=0.25,
    learn_temperature=False,
    gradient="reinmax",
    n_samples=1,
    kl="exact",
    binarize=None,
    n_iter_no_change=None,
)


def same_parameters(first: SDLGM, second: SDLGM) -> bool:
    left, right = state_of(first.module_), state_of(second.module_)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def poison(monkeypatch: pytest.MonkeyPatch, place: str, iteration: int) -> None:
    """Set one parameter to NaN in the update of an iteration."""
    step = Trainer.step

    def poisoned(self, batch):
        elbo = step(self, batch)
        if self.iteration == iteration:
            dict(self.module.named_parameters())[place].data.fill_(float("nan"))
        return elbo

    monkeypatch.setattr(Trainer, "step", poisoned)
