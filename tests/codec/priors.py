"""Priors and codes that the tests of the codec share."""

import math

import numpy as np
import scipy.sparse as sp
import torch

from sdlgm.codec import Codec
from sdlgm.codec._priors import integer_prior
from sdlgm.model.codes.priors import ChainPrior, SlotPrior
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import log_repetitions
from sdlgm.model.noise import Noise

KINDS = ("hidden", "linear", "slot sets", "slot counts")
FINGERPRINT = b"12345678"


def prior_of(kind: str, n_features: int, budget: int, *, spread: float = 1.0) -> ChainPrior | SlotPrior:
    """Return a prior with random weights."""
    generator = torch.Generator().manual_seed(0)
    if kind in ("hidden", "linear"):
        prior = ChainPrior(n_features, budget, 0.4, 8, hidden=kind == "hidden")
        prior.writes.data.zero_()  # they are random at first
    else:
        prior = SlotPrior(n_features, budget, 0.4, learn=True)
    for parameter in prior.parameters():
        parameter.data.add_(spread * torch.randn(parameter.shape, generator=generator))
    return prior


def codec_of_prior(prior: ChainPrior | SlotPrior, kind: str, n_features: int, budget: int) -> Codec:
    sets = kind != "slot counts"
    return Codec(integer_prior(prior, sets=sets), n_features, budget, sets, FINGERPRINT)


def codec(kind: str, n_features: int, budget: int, *, spread: float = 1.0) -> Codec:
    return codec_of_prior(prior_of(kind, n_features, budget, spread=spread), kind, n_features, budget)


@torch.no_grad()
def drawn(prior: ChainPrior | SlotPrior, kind: str, n_rows: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return codes drawn from a prior, and the ideal length of each in bits."""
    distribution = prior()
    codes = distribution.expand(n_rows).sample(1, Noise.seeded(1, torch.device("cpu")))[0]
    if kind == "slot sets":
        assert isinstance(distribution, SlotDistribution)
        codes = codes.clamp(max=1)
        log_probs = distribution.log_prob(codes) + log_repetitions(codes, distribution)
    else:
        log_probs = distribution.log_prob(codes)
    return sp.csr_matrix(codes.numpy().astype(np.int32)), -log_probs.double().numpy() / math.log(2)


def random_codes(n_rows: int, n_features: int, budget: int, *, sets: bool, seed: int = 0) -> sp.csr_matrix:
    """Return codes of all sizes, whatever a prior says."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((n_rows, n_features), np.int32)
    sizes = rng.integers(0, min(budget, n_features) + 1 if sets else budget + 1, n_rows)
    for row, size in zip(codes, sizes, strict=True):
        if sets:
            row[rng.choice(n_features, size, replace=False)] = 1
        else:
            np.add.at(row, rng.integers(0, n_features, size), 1)
    return sp.csr_matrix(codes)
