"""What follows from the probability that each feature is present."""

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor


class FromPresence:
    """Codes in which a feature is present or not, and ``n_slots`` is the most that can be."""

    n_slots: int

    @cached_property
    def presence(self) -> Float[Tensor, "*batch K"]:
        """Probability that a feature is present."""
        raise NotImplementedError

    @property
    def gate_prob(self) -> Float[Tensor, "*batch"]:
        """Share of the slots that are in use, on average."""
        return self.presence.sum(-1) / self.n_slots

    @property
    def feature_probs(self) -> Float[Tensor, "*batch K"]:
        """How the slots in use divide among the features."""
        presence = self.presence.clamp(min=torch.finfo(self.presence.dtype).tiny)
        return presence / presence.sum(-1, keepdim=True)
