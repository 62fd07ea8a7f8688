"""p(x given z), one likelihood per file, chosen by name."""

from sdlgm.model.likelihoods.base import ColumnStatistics, Likelihood
from sdlgm.model.likelihoods.bernoulli import Bernoulli
from sdlgm.model.likelihoods.categorical import Categorical
from sdlgm.model.likelihoods.gaussian import Gaussian
from sdlgm.model.likelihoods.layout import MIXED, Layout
from sdlgm.model.likelihoods.mixed import Mixed
from sdlgm.model.likelihoods.negative_binomial import NegativeBinomial
from sdlgm.model.likelihoods.poisson import Poisson
from sdlgm.model.likelihoods.student_t import StudentT

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "student_t": StudentT,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "categorical": Categorical,
}
"""The likelihoods of a column, by name."""


def likelihood_of(name: str, n_inputs: int, layout: Layout | None, *, fixed_deviation: bool = False) -> Likelihood:
    """Return a new likelihood of ``n_inputs`` columns, which all have the one of that name if there is no layout."""

    def new(name: str, n_inputs: int) -> Likelihood:
        kind = LIKELIHOODS[name]
        if issubclass(kind, Categorical):
            return kind(n_inputs, () if layout is None else layout.n_levels)
        return kind(n_inputs, fixed=fixed_deviation) if issubclass(kind, Gaussian) else kind(n_inputs)

    if layout is None:
        return new(name, n_inputs)
    parts = {name: new(name, len(columns)) for name, columns in layout.groups.items()}
    return Mixed(parts, layout.groups) if len(parts) > 1 else parts[layout.name]


__all__ = [
    "LIKELIHOODS",
    "MIXED",
    "Bernoulli",
    "Categorical",
    "ColumnStatistics",
    "Gaussian",
    "Layout",
    "Likelihood",
    "Mixed",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
    "likelihood_of",
]
