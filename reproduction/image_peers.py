"""Peers that describe an image by at most k coefficients: a top-k sparse autoencoder and dictionary learning.

Their coefficients are rounded. The length of a code is that of an ideal entropy code of the rounded coefficients, with
probabilities from training images; see `reproduction.code_lengths`. Supports get the prior that the SDLGM has.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.decomposition import MiniBatchDictionaryLearning
from torch import Tensor, nn

from reproduction.code_lengths import chain_supports, feature_values, independent_supports, pooled_values, shortest

DICTIONARY_IMAGES, DICTIONARY_PASSES = 20_000, 4
ROUNDED_IMAGES = 2_000  # training images for the choice of the rounding
HELD_OUT = 1 / 11  # of the training images (5,000 of MNIST's 55,000): these choose between codes, and epochs
LEVELS = (4, 8, 16, 32, 64, 128, 256)  # of a rounded coefficient, over the range of all coefficients
ROUNDING_COST = 1.05  # choose the fewest levels that raise the error by at most this factor


@dataclass(frozen=True)
class Coded:
    """Codes of some images: their length, their error and the decoded images."""

    bits: float
    """Mean length of a code in bits."""
    error: float
    """Mean squared error of a pixel."""
    n_active: float
    """Mean number of non-zero coefficients."""
    decoded: np.ndarray
    supports: str
    """The shorter code of the supports on held-out images: "chain" or "independent"."""
    values: str
    """The shorter code of the values on held-out images: "pooled" or "by feature"."""
    support_bits: dict[str, float]
    """Mean length of the supports in either code."""


class TopK(nn.Module):
    """Top-k sparse autoencoder (Makhzani and Frey, 2014; Gao et al., 2024): keep the k largest activations."""

    def __init__(self, n_inputs: int, n_features: int, k: int, mean: Tensor):
        super().__init__()
        self.k = k
        self.encoder = nn.Linear(n_inputs, n_features)
        self.decoder = nn.Linear(n_features, n_inputs)
        with torch.no_grad():
            self.decoder.weight.div_(self.decoder.weight.norm(dim=0))
            self.encoder.weight.copy_(self.decoder.weight.T)
            self.encoder.bias.zero_()
            self.decoder.bias.copy_(mean)

    def codes(self, x: Tensor) -> Tensor:
        """Return the activations of which all but the k largest are zero."""
        activations = torch.relu(self.encoder(x - self.decoder.bias))
        values, places = activations.topk(self.k, dim=-1)
        return torch.zeros_like(activations).scatter(-1, places, values)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.codes(x))


def top_k_autoencoder(
    train: np.ndarray, test: np.ndarray, *, n_features: int, k: int, iterations: int, seed: int
) -> Coded:
    """Train a top-k autoencoder on squared error, with as many iterations as the SDLGM, and encode images."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TopK(train.shape[1], n_features, k, torch.from_numpy(train.mean(0)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    rows = torch.from_numpy(train)
    for iteration in range(iterations):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, 2 * (1 - iteration / iterations))
        x = rows[torch.randint(len(rows), (100,), generator=generator)]
        loss = (model(x) - x).square().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def encode(images: np.ndarray) -> np.ndarray:
        return model.codes(torch.from_numpy(images)).numpy()

    @torch.no_grad()
    def decode(codes: np.ndarray) -> np.ndarray:
        return model.decoder(torch.from_numpy(codes)).numpy()

    return _coded(encode, decode, train, test, seed)


def fitted_dictionary(train: np.ndarray, *, n_features: int, seed: int) -> MiniBatchDictionaryLearning:
    """Fit a dictionary to some centred images."""
    learner = MiniBatchDictionaryLearning(
        n_features, batch_size=256, max_iter=DICTIONARY_PASSES, random_state=seed, transform_algorithm="omp"
    )
    with _dependent_atoms():
        return learner.fit(train[:DICTIONARY_IMAGES] - train.mean(0))


@contextmanager
def _dependent_atoms() -> Iterator[None]:
    """Silence the warning about linearly dependent atoms."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Orthogonal matching pursuit ended", RuntimeWarning)
        yield


def dictionary_codes(
    learner: MiniBatchDictionaryLearning, train: np.ndarray, test: np.ndarray, *, k: int, seed: int
) -> Coded:
    """Encode images by orthogonal matching pursuit with at most k non-zero coefficients."""
    learner.set_params(transform_n_nonzero_coefs=k)
    mean = train.mean(0)
    with _dependent_atoms():
        return _coded(
            lambda images: learner.transform(images - mean),
            lambda codes: codes @ learner.components_ + mean,
            train,
            test,
            seed,
        )


def _coded(
    encode: Callable[[np.ndarray], np.ndarray],
    decode: Callable[[np.ndarray], np.ndarray],
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
) -> Coded:
    """Round the codes of the test images and measure them with the codes of the training images."""
    codes = encode(train)
    step = _step(codes[:ROUNDED_IMAGES], decode, train[:ROUNDED_IMAGES])
    all_known = _levels(codes, step)
    n_known = len(all_known) - max(1, round(len(all_known) * HELD_OUT))
    known, held_out = all_known[:n_known], all_known[n_known:]
    lowest, highest = int(known.min()), int(known.max())
    held_out, levels = (each.clip(lowest, highest) for each in (held_out, _levels(encode(test), step)))
    support_codes = {
        "independent": independent_supports(known),
        "chain": chain_supports(known, held_out, seed=seed),
    }
    value_codes = {"pooled": pooled_values(known), "by feature": feature_values(known)}
    supports, values = shortest(support_codes, held_out), shortest(value_codes, held_out)
    bits = support_codes[supports](levels) + value_codes[values](levels)
    decoded = np.clip(decode((levels * step).astype(codes.dtype)), 0, 1)
    return Coded(
        bits=float(bits.mean()),
        error=float(np.square(decoded - test).mean()),
        n_active=float((levels != 0).sum(1).mean()),
        decoded=decoded,
        supports=supports,
        values=values,
        support_bits={name: float(lengths(levels).mean()) for name, lengths in support_codes.items()},
    )


def _levels(codes: np.ndarray, step: float) -> np.ndarray:
    return np.rint(codes / step).astype(int)


def _step(codes: np.ndarray, decode: Callable[[np.ndarray], np.ndarray], images: np.ndarray) -> float:
    """Return the step of the rounding with the fewest levels that raise the error by at most `ROUNDING_COST`."""

    def error(of: np.ndarray) -> float:
        return float(np.square(np.clip(decode(of), 0, 1) - images).mean())

    allowed = ROUNDING_COST * error(codes)
    steps = [float(codes.max() - codes.min()) / (levels - 1) for levels in LEVELS]
    rounded = ((step, (_levels(codes, step) * step).astype(codes.dtype)) for step in steps)
    return next((step for step, of in rounded if error(of) <= allowed), steps[-1])
