"""The counting model: the counts of the classes are the code itself, known in training.

    counts ~ Multinomial(L0, (lambda pi_1, ..., lambda pi_K, 1 - lambda)),  (lambda, pi) from an encoder of x,

exactly and without samples.
"""

from dataclasses import asdict

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm.model.codes.base import KL
from sdlgm.model.codes.priors import SlotPrior
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.modules.base import Batch, Objective, Step, TrainableModule, Watched
from sdlgm.model.networks.counting import CountConfig, FlatEncoder, PatchEncoder, shift_randomly
from sdlgm.model.noise import Noise

# Initial shares of the slots: those of the data, but none zero, and not all slots taken.
_SMALLEST_SHARE, _LARGEST_SHARE = 1e-4, 0.95


class CountModule(TrainableModule):
    """An encoder of counts, and the mean counts of the data as a prior."""

    config: CountConfig
    posterior: FlatEncoder | PatchEncoder
    prior: SlotPrior

    def __init__(self, config: CountConfig):
        super().__init__()
        self.config = config
        self.posterior = PatchEncoder(config) if config.encoder == "patches" else FlatEncoder(config)
        self.prior = SlotPrior(config.n_classes, config.n_slots, 0.5)

    @property
    def n_logits(self) -> int:
        return self.posterior.n_logits

    def settings(self) -> dict[str, object]:
        return asdict(self.config)

    @torch.no_grad()
    def adapt_to(self, mean_counts: Float[Tensor, " K"]) -> None:
        """Start at the mean counts of the data, which are also the prior that the KL is measured against."""
        shares = (mean_counts / self.config.n_slots).clamp(min=_SMALLEST_SHARE)
        shares = shares * min(1.0, _LARGEST_SHARE / float(shares.sum()))
        self.posterior.start_at(shares)
        self.prior.gate_logit.copy_(torch.logit(shares.sum()))
        self.prior.feature_logits.copy_(shares.log())

    def inference(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> SlotDistribution:
        """Return q(counts given x), with random shifts and dropout if there is a generator for them."""
        return self.posterior(self.augment(x, generator), generator)

    def augment(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None) -> Float[Tensor, "batch D"]:
        """Shift pictures at random if there is a generator for it."""
        if generator is None or not self.config.max_shift:
            return x
        return shift_randomly(x, self.config.shape, self.config.max_shift, generator)

    def loss(self, batch: Batch, step: Step) -> Objective:
        """Return log q(counts given x) of the rows whose counts are known."""
        counts, known = batch.targets
        log_prob = known * self.inference(spaced_rows(batch.x), step.noise.generator).log_prob(counts)
        return Objective(log_prob, torch.zeros_like(log_prob), log_prob)

    def watch(self, batch: Batch, *, kl: KL, noise: Noise, n_relaxed: int) -> Watched:
        counts, _ = batch.targets
        slots = self.inference(spaced_rows(batch.x))
        n, log_prob = len(counts), float(slots.log_prob(counts).mean())
        return Watched(
            n_rows=n,
            discrete=n * log_prob,
            relaxed=n * log_prob,
            n_relaxed=n,
            kl=n * float(slots.kl(self.prior(), kl).mean()),
            n_active=n * float((self.config.n_slots * slots.gate_prob).mean()),
        )


def spaced_rows(x: Float[Tensor, "batch D"]) -> Float[Tensor, "batch D"]:
    """Return rows with a gap between them in memory.

    Torch takes pictures with one channel for channels-last ones if their rows are adjacent, and rounds their
    convolutions differently. The gap keeps the layout, and so the results, of earlier versions.
    """
    return F.pad(x, (0, 1))[:, :-1]
