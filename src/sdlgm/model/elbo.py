"""The evidence lower bound, term by term."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from sdlgm.model.slots import PriorTerms


@dataclass(frozen=True)
class Elbo(PriorTerms):
    """The paper's ``equ:loglikelihood`` in nats for each observation of a batch, one field for each of its terms."""

    log_likelihood: Float[Tensor, " batch"]  # E_q log p(x | z, theta), equ:mc_ELL

    @property
    def value(self) -> Float[Tensor, " batch"]:
        return self.log_likelihood - self.kl


@dataclass(frozen=True)
class Objective:
    """What training maximises, for each observation of a batch, and the two parts that it is weighed from."""

    value: Float[Tensor, " batch"]
    """log_likelihood - kl_weight * kl, with the gradient of an estimator."""
    kl: Float[Tensor, " batch"]
    log_likelihood: Float[Tensor, " batch"]
