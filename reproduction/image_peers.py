"""Peers that describe an image by at most k coefficients: a top-k sparse autoencoder and dictionary learning.

Their coefficients are rounded. The length of a code is that of an ideal entropy code of the rounded coefficients, with
frequencies from training images.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.decomposition import MiniBatchDictionaryLearning
from torch import Tensor, nn

DICTIONARY_IMAGES, DICTIONARY_PASSES = 20_000, 4
PRICED_IMAGES = 2_000  # training images for the frequencies and the choice of the rounding
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

    return _coded(encode, decode, train[:PRICED_IMAGES], test)


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


def dictionary_codes(learner: MiniBatchDictionaryLearning, train: np.ndarray, test: np.ndarray, *, k: int) -> Coded:
    """Encode images by orthogonal matching pursuit with at most k non-zero coefficients."""
    learner.set_params(transform_n_nonzero_coefs=k)
    mean = train.mean(0)
    with _dependent_atoms():
        return _coded(
            lambda images: learner.transform(images - mean),
            lambda codes: codes @ learner.components_ + mean,
            train[:PRICED_IMAGES],
            test,
        )


def _coded(
    encode: Callable[[np.ndarray], np.ndarray],
    decode: Callable[[np.ndarray], np.ndarray],
    priced: np.ndarray,
    test: np.ndarray,
) -> Coded:
    """Round the codes of the test images and measure them with the frequencies of some training images."""

    def error(codes: np.ndarray, images: np.ndarray) -> float:
        return float(np.square(np.clip(decode(codes), 0, 1) - images).mean())

    known, codes = encode(priced), encode(test)
    lowest, highest = float(known.min()), float(known.max())
    allowed = ROUNDING_COST * error(known, priced)
    steps = [(highest - lowest) / (levels - 1) for levels in LEVELS]
    step = next((step for step in steps if error(_rounded(known, step), priced) <= allowed), steps[-1])
    rounded = _rounded(codes, step)
    decoded = np.clip(decode(rounded), 0, 1)
    bits = code_lengths(np.rint(known / step).astype(int), np.rint(codes / step).astype(int))
    n_active = float((rounded != 0).sum(1).mean())
    return Coded(float(bits.mean()), float(np.square(decoded - test).mean()), n_active, decoded)


def _rounded(codes: np.ndarray, step: float) -> np.ndarray:
    return (np.rint(codes / step) * step).astype(codes.dtype)


def code_lengths(known: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the bits of each row of integers in an ideal entropy code.

    The code states for each feature whether it is present, and the value of each present feature. Probabilities are the
    frequencies in the rows of ``known``, with an additive smoothing of one half.
    """
    present = (known != 0).sum(0)
    share = (present + 0.5) / (len(known) + 1)
    there = levels != 0
    of_presence = -np.where(there, np.log2(share), np.log2(1 - share)).sum(1)
    lowest = min(known.min(), levels.min())
    frequency = np.bincount((known[known != 0] - lowest).ravel(), minlength=max(known.max(), levels.max()) - lowest + 1)
    surprise = -np.log2((frequency + 0.5) / (frequency + 0.5).sum())
    return of_presence + np.where(there, surprise[levels - lowest], 0.0).sum(1)
