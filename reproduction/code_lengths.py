"""Lengths of rounded coefficients in an ideal entropy code: of which are non-zero (the support), and of their values.

Probabilities come from training images. Where there are two ways to get them, held-out training images choose.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch

from reproduction.internals import ChainPrior

Lengths = Callable[[np.ndarray], np.ndarray]
"""From integer levels, a row for each image, to the bits of each row."""

HIDDEN = 512  # units of the chain prior, twice as many as the SDLGM of Table I has
EPOCHS = (4, 8, 16)  # lengths of training to choose from
BATCH, LEARNING_RATE = 100, 1e-3
POOLED_WEIGHT = 10.0  # observations of a feature that the frequencies of all features count as


def shortest(codes: Mapping[str, Lengths], held_out: np.ndarray) -> str:
    """Return the name of the code with the smallest mean length on held-out images."""
    return min(codes, key=lambda name: float(codes[name](held_out).mean()))


# Supports


def independent_supports(known: np.ndarray) -> Lengths:
    """Return the lengths of supports by the frequency of each feature, with an additive smoothing of one half."""
    share = ((known != 0).sum(0) + 0.5) / (len(known) + 1)
    present, absent = -np.log2(share), -np.log2(1 - share)
    return lambda levels: np.where(levels != 0, present, absent).sum(1)


def chain_supports(known: np.ndarray, held_out: np.ndarray, *, seed: int, epochs: Sequence[int] = EPOCHS) -> Lengths:
    """Return the lengths of supports by a chain prior, the prior of the SDLGM, fitted by maximum likelihood.

    The budget is the number of features, so the chain never stops. Of all epochs of all trainings, one for each entry
    of ``epochs``, the one with the shortest held-out supports is kept.
    """
    supports, watched = _supports(known), _supports(held_out)
    best, best_bits = None, math.inf
    for n_epochs in epochs:
        for prior in _trained_chains(supports, n_epochs, seed):
            bits = float(_chain_bits(prior, watched).mean())
            if bits < best_bits:
                best, best_bits = {name: tensor.clone() for name, tensor in prior.state_dict().items()}, bits
    assert best is not None
    kept = _new_chain(supports, seed)
    kept.load_state_dict(best)
    return lambda levels: _chain_bits(kept, _supports(levels))


def _supports(levels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((levels != 0).astype(np.float32))


def _new_chain(supports: torch.Tensor, seed: int) -> ChainPrior:
    n_features = supports.shape[1]
    share = min(max(float(supports.mean()), 1e-3), 0.5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ChainPrior(n_features, n_features, share, HIDDEN, hidden=True)


def _trained_chains(supports: torch.Tensor, n_epochs: int, seed: int) -> Iterator[ChainPrior]:
    """Train a chain prior with Adam and yield it after each epoch; the learning rate falls in the second half."""
    prior, generator = _new_chain(supports, seed), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(prior.parameters(), lr=LEARNING_RATE, fused=True)
    n_batches = math.ceil(len(supports) / BATCH)
    for epoch in range(n_epochs):
        for i, batch in enumerate(torch.randperm(len(supports), generator=generator).split(BATCH)):
            progress = (epoch + i / n_batches) / n_epochs
            for group in optimizer.param_groups:
                group["lr"] = LEARNING_RATE * min(1.0, 2 * (1 - progress))
            loss = -prior().log_prob(supports[batch]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield prior


@torch.no_grad()
def _chain_bits(prior: ChainPrior, supports: torch.Tensor) -> np.ndarray:
    parts = [-prior().log_prob(part) / math.log(2) for part in supports.split(1000)]
    return torch.cat(parts).double().numpy()


# Values of the coefficients that are not zero


def pooled_values(known: np.ndarray) -> Lengths:
    """Return the lengths of values by the frequencies of levels in all features together.

    Levels have to be within the range of ``known``. The smoothing is additive, one half.
    """
    lowest, probs = int(known.min()), _pooled(known)
    surprise = -np.log2(probs)
    return lambda levels: np.where(levels != 0, surprise[levels - lowest], 0.0).sum(1)


def feature_values(known: np.ndarray) -> Lengths:
    """Return the lengths of values by the frequencies of levels in each feature, smoothed with those of all."""
    lowest, pooled = int(known.min()), _pooled(known)
    n_features = known.shape[1]
    rows, columns = np.nonzero(known)
    counts = np.zeros((n_features, len(pooled)))
    np.add.at(counts, (columns, known[rows, columns] - lowest), 1.0)
    probs = (counts + POOLED_WEIGHT * pooled) / (counts.sum(1, keepdims=True) + POOLED_WEIGHT)
    surprise, features = -np.log2(probs), np.arange(n_features)
    return lambda levels: np.where(levels != 0, surprise[features, levels - lowest], 0.0).sum(1)


def _pooled(known: np.ndarray) -> np.ndarray:
    """Return the smoothed frequencies of the levels from the lowest to the highest; zero is not a value."""
    lowest, highest = int(known.min()), int(known.max())
    frequency = np.bincount(known[known != 0] - lowest, minlength=highest - lowest + 1) + 0.5
    if lowest <= 0 <= highest:
        frequency[-lowest] = 1e-9  # never coded, but the logarithm is taken
    return frequency / frequency.sum()
