"""p(x given z), one likelihood per file, chosen by name."""

from sdlgm.model.likelihoods.base import Likelihood
from sdlgm.model.likelihoods.bernoulli import Bernoulli
from sdlgm.model.likelihoods.gaussian import Gaussian

LIKELIHOODS: dict[str, type[Likelihood]] = {"bernoulli": Bernoulli, "gaussian": Gaussian}

__all__ = ["LIKELIHOODS", "Bernoulli", "Gaussian", "Likelihood"]
