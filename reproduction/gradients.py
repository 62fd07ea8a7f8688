"""Compare every gradient estimator with the exact gradient, by enumeration of all codes of a tiny model.

The model has three features and two slots, so the sum over all codes is short. Its likelihood is neither linear nor
quadratic in the code, and its budget is smaller than the number of features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reproduction.baselines import CoupledBernoulli, CoupledCategorical, LatentVector
from reproduction.internals import (
    GRADIENTS,
    ChainDistribution,
    DenseCoupling,
    GradientEstimator,
    Kind,
    Noise,
    OrderedDistribution,
    SlotDistribution,
    SubsetDistribution,
    Temperatures,
)
from reproduction.provenance import publish
from reproduction.runs import Run, run_all, versioned

N_FEATURES, N_SLOTS, N_PIXELS = 3, 2, 4
TEMPERATURE = 0.5  # the final temperature of the annealed estimators of Table I
COPIES, REPEATS = 1000, 200  # draws of one estimate, and estimates for the Monte Carlo error

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Family:
    """A family of distributions over codes, with parameters and all its outcomes."""

    name: str
    kind: Kind
    parameters: tuple[Tensor, ...]
    """The first has a copy for each observation; the others are shared."""
    make: Callable[..., Any]
    symbols: Tensor
    """All outcomes of a draw, one in each row."""

    def posterior(self, parameters: Sequence[Tensor], copies: int, *, steep: bool = False) -> Any:
        """Return the distribution of some equal observations, with its logits divided by `TEMPERATURE` if steep."""
        first, *others = parameters
        made = self.make(first.expand(copies, *first.shape), *others)
        return made.with_temperature(torch.tensor(TEMPERATURE)) if steep else made


def _one_hots(n_variables: int, n_symbols: int) -> Tensor:
    """Return all outcomes of independent variables, one-hot."""
    return torch.stack(
        [F.one_hot(torch.tensor(drawn), n_symbols) for drawn in product(range(n_symbols), repeat=n_variables)]
    ).double()


def _ordered_symbols() -> Tensor:
    """Return all outcomes of the ordered family: a length, and a feature for each position."""
    width = max(N_FEATURES, N_SLOTS + 1)
    drawn = product(range(N_SLOTS + 1), *[range(N_FEATURES)] * N_SLOTS)
    return torch.stack([F.one_hot(torch.tensor(each), width) for each in drawn]).double()


def _families() -> dict[str, Family]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def slots(logits: Tensor) -> SlotDistribution:
        return SlotDistribution(logits[:, 0], logits[:, 1:], N_SLOTS)

    def ordered(logits: Tensor) -> OrderedDistribution:
        lengths, features = logits[:, : N_SLOTS + 1], logits[:, N_SLOTS + 1 :]
        return OrderedDistribution(lengths, features.unflatten(-1, (N_SLOTS, N_FEATURES)))

    def chain(logits: Tensor, coupling: Tensor) -> ChainDistribution:
        return ChainDistribution(logits, DenseCoupling(torch.triu(coupling, 1)), N_SLOTS)

    def coupled_bernoulli(logits: Tensor, coupling: Tensor) -> CoupledBernoulli:
        return CoupledBernoulli(logits, DenseCoupling(torch.triu(coupling, 1)), N_FEATURES)

    def coupled_categorical(logits: Tensor, coupling: Tensor) -> CoupledCategorical:
        variable = torch.arange(N_SLOTS).repeat_interleave(N_FEATURES)
        later = (variable > variable[:, None]).to(coupling)
        return CoupledCategorical(logits.unflatten(-1, (N_SLOTS, N_FEATURES)), coupling * later)

    all_slots = _one_hots(N_SLOTS, N_FEATURES + 1).sum(1)  # counts with two orders occur twice
    subsets = _one_hots(N_FEATURES, 2)
    families = [
        Family("slots", "slots", (normal(N_FEATURES + 1),), slots, all_slots),
        Family(
            "subset",
            "binary",
            (normal(N_FEATURES),),
            lambda logits: SubsetDistribution(logits, N_SLOTS),
            subsets,
        ),
        Family("chain", "chain", (normal(N_FEATURES), normal(N_FEATURES, N_FEATURES)), chain, subsets[..., 1]),
        Family(
            "ordered",
            "variables",
            (normal(N_SLOTS + 1 + N_SLOTS * N_FEATURES),),
            ordered,
            _ordered_symbols(),
        ),
        Family(
            "bernoulli",
            "binary",
            (normal(N_FEATURES),),
            lambda logits: LatentVector(F.pad(logits.unsqueeze(-1), (1, 0)), "bernoulli"),
            subsets,
        ),
        Family(
            "categorical",
            "variables",
            (normal(N_SLOTS * N_FEATURES),),
            lambda logits: LatentVector(logits.unflatten(-1, (N_SLOTS, N_FEATURES)), "categorical"),
            _one_hots(N_SLOTS, N_FEATURES),
        ),
        Family(
            "coupled_bernoulli",
            "chain",
            (normal(N_FEATURES), normal(N_FEATURES, N_FEATURES)),
            coupled_bernoulli,
            subsets[..., 1],
        ),
        Family(
            "coupled_categorical",
            "chain",
            (normal(N_SLOTS * N_FEATURES), normal(N_SLOTS * N_FEATURES, N_SLOTS * N_FEATURES)),
            coupled_categorical,
            _one_hots(N_SLOTS, N_FEATURES),
        ),
    ]
    return {family.name: family for family in families}


FAMILIES = _families()


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


def exact_gradient(family: Family, function: Function, *, steep: bool = False) -> Tensor:
    """Return the exact gradient of E_q f(z), a sum over all outcomes."""
    parameters = [parameter.clone().requires_grad_() for parameter in family.parameters]
    posterior = family.posterior(parameters, 1, steep=steep)
    symbols = family.symbols.unsqueeze(1)
    log_prob = posterior.log_prob_of(symbols)
    expected = (log_prob.exp() * function(posterior.counts(symbols))).sum()
    return _flat(torch.autograd.grad(expected, parameters))


def estimated_gradients(
    family: Family, estimator: GradientEstimator, function: Function, *, copies: int, repeats: int, seed: int = 0
) -> Tensor:
    """Return ``repeats`` estimates of the gradient, of shape (repeats, parameters), each a mean over ``copies``."""
    noise = Noise.seeded(seed)
    temperature = torch.tensor(TEMPERATURE, dtype=torch.float64)
    rows = []
    for repeat in range(repeats + 1):
        parameters = [parameter.clone().requires_grad_() for parameter in family.parameters]
        value = estimator(
            family.posterior(parameters, copies, steep=estimator.tempers_posterior),
            function,
            n_samples=1,
            temperatures=Temperatures(temperature, temperature),
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


def n_features_of(family: Family) -> int:
    """Return the length of the codes of a family."""
    posterior = family.posterior(family.parameters, 1)
    return posterior.counts(family.symbols[:1].unsqueeze(1)).shape[-1]


def measure(name: str, family: Family, *, copies: int = COPIES, repeats: int = REPEATS) -> dict[str, Any]:
    """Return the bias and the standard deviation of an estimator, relative to the norm of the exact gradient."""
    function = likelihood(n_features_of(family))
    exact = exact_gradient(family, function, steep=GRADIENTS[name].tempers_posterior)
    draws = estimated_gradients(family, new_estimator(name, family), function, copies=copies, repeats=repeats)
    bias = draws.mean(0) - exact
    error = draws.std(0) / repeats**0.5
    return {
        "gradient": name,
        "family": family.name,
        "unbiased": GRADIENTS[name].unbiased,
        "bias": float(bias.norm() / exact.norm()),
        "bias_error": float(error.norm() / exact.norm()),
        "deviation": float((copies**0.5) * draws.std(0).norm() / exact.norm()),
        "cosine": float(F.cosine_similarity(draws.mean(0), exact, dim=0)),
    }


def measure_gradients(out: Path, *, n_jobs: int, work_folder: Path) -> dict[str, Any]:
    """Measure all estimators with all families that they are defined for, and write the results to ``out``."""
    version = versioned([N_FEATURES, N_SLOTS, N_PIXELS, TEMPERATURE, COPIES, REPEATS])
    runs: list[Run] = [
        {"table": "gradients", "version": version, "family": key, "gradient": name}
        for key, family in FAMILIES.items()
        for name, estimator in GRADIENTS.items()
        if family.kind in estimator.defined_for
    ]
    rows = [result["row"] for result in run_all(_measure, runs, work_folder, n_jobs)]
    protocol = {
        "model": f"{N_FEATURES} features, {N_SLOTS} slots, a fixed nonlinear likelihood of {N_PIXELS} pixels; the "
        "exact gradient is a sum over everything that can be drawn",
        "draws": f"{COPIES * REPEATS} of each estimator, of which DisARM and leave-one-out take two codes each, and "
        f"MuProp two passes through the decoder; temperature {TEMPERATURE} where there is one; the network of the "
        "score function's baseline is as it starts",
        "bias": "distance between the mean of the draws and the exact gradient, in units of the length of the latter; "
        "its error is the Monte Carlo error of the same distance",
        "deviation": "root of the summed variances of one draw, in the same units",
    }
    return publish(out, {"rows": rows, "protocol": protocol})


def _measure(run: Run, _folder: Path) -> dict[str, Any]:
    return {"row": measure(run["gradient"], FAMILIES[run["family"]])}
