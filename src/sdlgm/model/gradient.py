"""The contract between a module and a gradient estimator: draw codes, then make a surrogate of their values.

A module draws codes, evaluates a function f of them (the log-likelihood, less the cost of the code where that depends
on the draw) and hands the values back. The surrogate is an estimate of E_q f(z) whose autograd gradient is the
estimator. Implementations are in `sdlgm.gradients`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.codes.base import CodeDistribution, Temperatures
from sdlgm.model.noise import Noise

Kind = Literal["slots", "variables", "binary", "chain"]
"""The variables that a code is drawn from.

- ``"slots"``: L0 draws of one symbol, of which the decoder sees the counts.
- ``"variables"``: one draw of each of several independent variables.
- ``"binary"``: the same with two symbols each.
- ``"chain"``: binary or categorical variables that depend on those before them.
"""


@dataclass(frozen=True)
class Draw:
    """Codes to evaluate, and the estimator's record of how they were drawn."""

    codes: Float[Tensor, "S batch K"]
    """Input of the decoder; it carries the gradient of the posterior if the estimator is pathwise."""
    symbols: Float[Tensor, "S batch ..."] | None = None
    """The drawn symbols, for estimators that need their log-probability."""
    control: Float[Tensor, "1 batch K"] | None = None
    """A further code at which a control variate evaluates the same function."""


class GradientEstimator(nn.Module, ABC):
    """One way to differentiate E_q f(z) through the discrete z.

    Estimators that learn something of their own, such as a baseline, keep it in their parameters and buffers.

    Parameters
    ----------
    n_logits : int
        Length of `CodeDistribution.summary`, the input of a learned baseline.

    """

    name: ClassVar[str]
    defined_for: ClassVar[frozenset[Kind]]
    """The kinds of variables that the estimator can differentiate through."""
    discrete: ClassVar[bool] = True
    """Whether the decoder gets hard codes, so that the training objective is the discrete bound itself."""
    unbiased: ClassVar[bool] = False
    """Whether the mean of the estimator is the exact gradient, whatever f is."""
    pathwise: ClassVar[bool] = True
    """Whether the gradient flows through the codes, so that the surrogate is the mean of the values."""
    tempers_posterior: ClassVar[bool] = False
    """Whether the feature temperature is that of the posterior itself: all its logits are divided by it."""
    shareable: ClassVar[bool] = True
    """Whether several processes can each take a part of the batch: no noise but the draws, no running averages."""

    def __init__(self, n_logits: int):
        super().__init__()

    @property
    def encoder_divisor(self) -> float:
        """The number that the gradient of the encoder, KL included, is divided by before the optimiser step."""
        return 1.0

    @abstractmethod
    def draw(self, posterior: CodeDistribution, *, n_samples: int, temperatures: Temperatures, noise: Noise) -> Draw:
        """Draw ``n_samples`` codes for each observation."""

    def surrogate(
        self,
        posterior: CodeDistribution,
        draw: Draw,
        value: Float[Tensor, "S batch"],
        control: Float[Tensor, "1 batch"] | None = None,
    ) -> Float[Tensor, " batch"]:
        """Return an estimate of E_q f(z) with the estimator's gradient.

        Parameters
        ----------
        posterior : CodeDistribution
            The distribution that ``draw`` came from.
        draw : Draw
        value : f at ``draw.codes``
        control : f at ``draw.control``, if there is one

        """
        return value.mean(0)

    def forward(
        self,
        posterior: CodeDistribution,
        function: Callable[[Float[Tensor, "S batch K"]], Float[Tensor, "S batch"]],
        *,
        n_samples: int,
        temperatures: Temperatures,
        noise: Noise,
    ) -> Float[Tensor, " batch"]:
        """Estimate E_q f(z) for a function: draw, evaluate, make the surrogate."""
        draw = self.draw(posterior, n_samples=n_samples, temperatures=temperatures, noise=noise)
        value = function(draw.codes)
        control = None if draw.control is None else function(draw.control)
        return self.surrogate(posterior, draw, value, control)
