"""Exact results by enumeration: small families of distributions over codes with everything that they can draw.

All families have `K` features and `L0` slots, so sums over outcomes are short. The likelihood is neither linear nor
quadratic in the code, and the budget is smaller than the number of features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from enumeration import L0, K, all_counts
from sdlgm.gradients import GRADIENTS, Draw, GradientEstimator
from sdlgm.gradients.base import ANY
from sdlgm.model.codes.base import CodeDistribution, PresenceCodes, Temperatures
from sdlgm.model.codes.chain import ChainDistribution
from sdlgm.model.codes.coupling import DenseCoupling
from sdlgm.model.codes.independent import IndependentVariables
from sdlgm.model.codes.ordered import OrderedDistribution
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import SubsetCodes, SubsetDistribution
from sdlgm.model.gradient import Kind
from sdlgm.model.noise import Noise

N_PIXELS = 4
TEMPERATURE = torch.tensor(0.5, dtype=torch.float64)

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Family:
    """A family of distributions over codes, with parameters and all its outcomes."""

    name: str
    kind: Kind
    parameters: tuple[Tensor, ...]
    """The first has a copy for each observation; the others are shared."""
    make: Callable[..., CodeDistribution]
    symbols: Tensor
    """All outcomes of a draw, one in each row."""

    def posterior(self, parameters: Sequence[Tensor], copies: int) -> Any:
        """Return the distribution of some equal observations."""
        first, *others = parameters
        return self.make(first.expand(copies, *first.shape), *others)

    @property
    def n_features(self) -> int:
        """Length of the codes."""
        return self.posterior(self.parameters, 1).counts(self.symbols[:1].unsqueeze(1)).shape[-1]


@dataclass(frozen=True)
class PlainVariables(PresenceCodes, IndependentVariables):
    """Independent variables without a budget, the setting in which the papers state their estimators."""

    logits: Tensor
    n_slots: int

    @cached_property
    def log_probs(self) -> Tensor:
        return self.logits.log_softmax(-1)

    def counts(self, symbols: Tensor) -> Tensor:
        """Return the one-hot vectors side by side; of two symbols, the second one only."""
        return symbols[..., 1] if symbols.shape[-1] == 2 else symbols.flatten(2)

    @property
    def presence(self) -> Tensor:
        return self.counts(self.probs.unsqueeze(0))[0]

    def mode(self) -> Tensor:
        return self.counts(F.one_hot(self.logits.argmax(-1), self.logits.shape[-1]).unsqueeze(0))[0]

    def log_ratio(self, symbols: Tensor, prior: CodeDistribution) -> Tensor:
        raise NotImplementedError

    prior_terms = kl = log_ratio


def one_hots(n_variables: int, n_symbols: int) -> Tensor:
    """Return all outcomes of independent variables, one-hot."""
    outcomes = product(range(n_symbols), repeat=n_variables)
    return torch.stack([F.one_hot(torch.tensor(drawn), n_symbols) for drawn in outcomes]).double()


def _ordered_symbols() -> Tensor:
    """Return all outcomes of the ordered family: a length, and a feature for each position."""
    width = max(K, L0 + 1)
    outcomes = product(range(L0 + 1), *[range(K)] * L0)
    return torch.stack([F.one_hot(torch.tensor(drawn), width) for drawn in outcomes]).double()


def _slots(logits: Tensor) -> SlotDistribution:
    return SlotDistribution(logits[:, 0], logits[:, 1:], L0)


def _subset(logits: Tensor) -> SubsetDistribution:
    return SubsetDistribution(logits, L0)


def _chain(logits: Tensor, coupling: Tensor) -> ChainDistribution:
    return ChainDistribution(logits, DenseCoupling(torch.triu(coupling, 1)), L0)


def _ordered(logits: Tensor) -> OrderedDistribution:
    lengths, features = logits[:, : L0 + 1], logits[:, L0 + 1 :]
    return OrderedDistribution(lengths, features.unflatten(-1, (L0, K)))


def _bernoulli(logits: Tensor) -> PlainVariables:
    return PlainVariables(F.pad(logits.unsqueeze(-1), (1, 0)), K)


def _categorical(logits: Tensor) -> PlainVariables:
    return PlainVariables(logits.unflatten(-1, (L0, K)), L0)


def _families() -> dict[str, Family]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    fillings = one_hots(L0, K + 1).sum(1)  # counts with two orders occur twice
    presences = one_hots(K, 2)
    families = [
        Family("slots", "slots", (normal(K + 1),), _slots, fillings),
        Family("subset", "binary", (normal(K),), _subset, presences),
        Family("chain", "chain", (normal(K), normal(K, K)), _chain, presences[..., 1]),
        Family("ordered", "variables", (normal(L0 + 1 + L0 * K),), _ordered, _ordered_symbols()),
        Family("bernoulli", "binary", (normal(K),), _bernoulli, presences),
        Family("categorical", "variables", (normal(L0 * K),), _categorical, one_hots(L0, K)),
    ]
    return {family.name: family for family in families}


FAMILIES = _families()


# Probabilities


def distribution(name: str, copies: int = 1) -> Any:
    """Return the distribution of a family for some equal observations."""
    return FAMILIES[name].posterior(FAMILIES[name].parameters, copies)


def codes_of_model(name: str, copies: int = 1) -> Any:
    """Return the distribution that is the posterior of an `SDLGM`, which decodes sets of features."""
    posterior = distribution(name, copies)
    return SubsetCodes(posterior.logits, posterior.n_slots) if name == "subset" else posterior


def all_outcomes(name: str) -> tuple[Tensor, Tensor]:
    """Return all outcomes of a family as symbols of shape (n, 1, ...), and their probabilities."""
    symbols = FAMILIES[name].symbols.unsqueeze(1)
    return symbols, distribution(name).log_prob_of(symbols).exp()[:, 0]


def probabilities_of_counts(name: str) -> dict[tuple[int, ...], float]:
    """Return the probability of each code of a family, a sum over the outcomes that make the code."""
    symbols, probs = all_outcomes(name)
    found: dict[tuple[int, ...], float] = {}
    for counts, prob in zip(distribution(name).counts(symbols)[:, 0], probs, strict=True):
        key = tuple(int(count) for count in counts)
        found[key] = found.get(key, 0.0) + float(prob)
    return {counts: prob for counts, prob in found.items() if prob > 0}


def probabilities_of_sets(prior: SlotDistribution) -> dict[tuple[int, ...], float]:
    """Return the probability of each set of features that are present, a sum over all counts."""
    found: dict[tuple[int, ...], float] = {}
    for counts in all_counts(n_slots=prior.n_slots):
        key = tuple(counts.clamp(max=1).int().tolist())
        found[key] = found.get(key, 0.0) + prior.log_prob(counts).exp().item()
    return found


# Gradients


class Enumeration(GradientEstimator):
    """The exact expectation in place of an estimate: it "draws" all outcomes and weighs them by their probability."""

    name = "enumeration"
    defined_for = ANY

    def __init__(self, symbols: Tensor):
        super().__init__(0)
        self.symbols = symbols

    def draw(self, posterior, *, n_samples, temperatures, noise):
        return Draw(posterior.counts(self.symbols), self.symbols)

    def surrogate(self, posterior, draw, value, control=None):
        return (posterior.log_prob_of(draw.symbols).exp() * value).sum(0)


def likelihood(n_features: int) -> Function:
    """Return log p(x given z) of a small fixed network."""
    generator = torch.Generator().manual_seed(2)
    first = torch.randn(n_features, 8, generator=generator, dtype=torch.float64)
    second = torch.randn(8, N_PIXELS, generator=generator, dtype=torch.float64)
    x = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)

    def log_likelihood(counts: Tensor) -> Tensor:
        output = 2 * torch.tanh(counts @ first) @ second
        return (x * output - F.softplus(output)).sum(-1)

    return log_likelihood


def exact_gradient(family: Family, function: Function, *, tempered: bool = False) -> Tensor:
    """Return the exact gradient of E_q f(z), a sum over all outcomes.

    If ``tempered``, all logits of q are divided by `TEMPERATURE`.
    """
    parameters = [parameter.clone().requires_grad_() for parameter in family.parameters]
    posterior = family.posterior(parameters, 1)
    posterior = posterior.with_temperature(TEMPERATURE) if tempered else posterior
    symbols = family.symbols.unsqueeze(1)
    expected = (posterior.log_prob_of(symbols).exp() * function(posterior.counts(symbols))).sum()
    return _flat(torch.autograd.grad(expected, parameters))


def estimated_gradients(
    family: Family, estimator: GradientEstimator, function: Function, *, copies: int, repeats: int, seed: int = 0
) -> Tensor:
    """Return ``repeats`` estimates of the gradient, of shape (repeats, parameters), each a mean over ``copies``."""
    noise = Noise.seeded(seed)
    rows = []
    for repeat in range(repeats + 1):
        parameters = [parameter.clone().requires_grad_() for parameter in family.parameters]
        posterior = family.posterior(parameters, copies)
        value = estimator(
            posterior.with_temperature(TEMPERATURE) if estimator.tempers_posterior else posterior,
            function,
            n_samples=1,
            temperatures=Temperatures(TEMPERATURE, TEMPERATURE),
            noise=noise,
        )
        if repeat > 0:  # the first call initialises running averages
            rows.append(_flat(torch.autograd.grad(value.mean(), parameters)))
    return torch.stack(rows)


def new_estimator(name: str, family: Family) -> GradientEstimator:
    """Return a gradient estimator for a family, in double precision."""
    summary = family.posterior(family.parameters, 1).summary
    torch.manual_seed(0)
    return GRADIENTS[name](summary.shape[-1]).double()


def _flat(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients])
