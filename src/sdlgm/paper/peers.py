"""What else describes an image by at most 40 numbers: a top-k sparse autoencoder, and dictionary learning."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import gammaln
from sklearn.decomposition import MiniBatchDictionaryLearning
from torch import Tensor, nn

DICTIONARY_IMAGES = 20_000
VALUE_BITS = 8  # of a coefficient; the error is that of the quantised code


@dataclass(frozen=True)
class Coded:
    """What a way of coding makes of some images."""

    bits: float
    """Mean length of a code in bits."""
    error: float
    """Mean squared difference a pixel."""
    n_active: float
    """Mean number of non-zeros."""
    decoded: np.ndarray


class TopK(nn.Module):
    """Top-k sparse autoencoder (Makhzani and Frey, 2014; Gao et al., 2024): only the k largest activations stay."""

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
        activations = torch.relu(self.encoder(x - self.decoder.bias))
        values, places = activations.topk(self.k, dim=-1)
        return torch.zeros_like(activations).scatter(-1, places, values)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.codes(x))


def top_k_autoencoder(
    train: np.ndarray, test: np.ndarray, *, n_features: int, k: int, iterations: int, seed: int
) -> Coded:
    """Trained on squared error with Adam, as long as the SDLGM and with batches of the same size."""
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
    with torch.no_grad():
        codes = model.codes(torch.from_numpy(test)).numpy()
        return _coded(codes, lambda values: model.decoder(torch.from_numpy(values)).numpy(), test)


def fitted_dictionary(train: np.ndarray, *, n_features: int, seed: int) -> MiniBatchDictionaryLearning:
    """A dictionary for the images less their mean, from one pass over some of them; that already takes a minute."""
    learner = MiniBatchDictionaryLearning(
        n_features, batch_size=256, max_iter=1, random_state=seed, transform_algorithm="omp"
    )
    return learner.fit(train[:DICTIONARY_IMAGES] - train.mean(0))


def dictionary_codes(learner: MiniBatchDictionaryLearning, mean: np.ndarray, test: np.ndarray, *, k: int) -> Coded:
    """Orthogonal matching pursuit with at most k non-zeros."""
    learner.set_params(transform_n_nonzero_coefs=k)
    codes = learner.transform(test - mean)
    return _coded(codes, lambda values: values @ learner.components_ + mean, test)


def _coded(codes: np.ndarray, decode: Any, test: np.ndarray) -> Coded:
    """Coefficients are quantised to `VALUE_BITS`; a code is which are there, and their values."""
    step = (codes.max() - min(0.0, float(codes.min()))) / (2**VALUE_BITS - 1)
    quantised = (np.round(codes / step) * step).astype(codes.dtype)
    n_active = (quantised != 0).sum(1)
    n_features = codes.shape[1]
    log_subsets = gammaln(n_features + 1) - gammaln(n_active + 1) - gammaln(n_features - n_active + 1)
    bits = math.log2(n_active.max() + 1) + log_subsets / math.log(2) + VALUE_BITS * n_active
    decoded = np.clip(decode(quantised), 0, 1)
    return Coded(float(bits.mean()), float(np.square(decoded - test).mean()), float(n_active.mean()), decoded)
