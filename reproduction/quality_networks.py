"""Networks that peers of the SDLGM are made of, trained for a number of seconds: sparse and quantised autoencoders."""

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

BATCH = 256
CHECKS = 40
"""Times at which the validation error is looked at, evenly over the time of a training."""
PATIENCE = 0.25
"""Share of the time after which a training without a better validation error ends."""
DEAD_AFTER, AUXILIARY_WEIGHT = 200, 1 / 32
"""Iterations without use after which a feature counts as dead, and the weight of the loss that revives it."""
WORD_SIZE, COMMITMENT, MEMORY, RESTART_BELOW = 8, 0.25, 0.99, 0.05
"""Numbers in a codeword; weight of the commitment; decay of its averages; use a batch below which it starts afresh."""


def now() -> float:
    """Return processor seconds of this process."""
    return time.process_time()


class Stopwatch:
    """Processor seconds since the start, without those in `paused`."""

    def __init__(self, limit: float):
        self.limit, self._start, self._paused = limit, now(), 0.0

    @property
    def elapsed(self) -> float:
        """Seconds that count."""
        return now() - self._start - self._paused

    @property
    def fraction(self) -> float:
        """Share of the limit."""
        return min(1.0, self.elapsed / self.limit)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what happens inside."""
        start = now()
        yield
        self._paused += now() - start


def network(sizes: Sequence[int]) -> nn.Sequential:
    """Return linear layers with SiLU between them."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


class Trainable(nn.Module):
    """A network with a loss for training and a reconstruction for the error."""

    @abstractmethod
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a batch."""

    @abstractmethod
    def reconstruct(self, x: Tensor) -> Tensor:
        """Return what rows become."""


@dataclass(frozen=True)
class Trained:
    """How a training went."""

    error: float
    """Best squared error of the validation rows, per value; that of the parameters which were kept."""
    iterations: int
    seconds: float
    """Processor seconds that were used, without the checks."""


def train_for(
    model: Trainable,
    rows: tuple[Tensor, Tensor],
    watched: tuple[Tensor, Tensor],
    *,
    seconds: float,
    learning_rate: float,
    seed: int,
) -> Trained:
    """Train with Adam for a time; keep the parameters with the least error of the validation rows.

    The learning rate falls to zero over the second half of the time.

    Parameters
    ----------
    model : Trainable
    rows, watched : tuple of Tensor
        Inputs and targets for training and for validation.
    seconds : float
        Processor seconds.
    learning_rate : float
        Of the first half.
    seed : int
        Of the batches.

    Returns
    -------
    Trained

    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    best, best_at, next_check, iterations = math.inf, 0.0, 1 / CHECKS, 0
    kept: dict[str, Tensor] = {}
    watch = Stopwatch(seconds)
    while True:
        fraction = watch.fraction
        if fraction >= next_check or not kept:
            next_check = fraction + 1 / CHECKS
            with watch.paused():
                error = error_of(model, *watched)
                if error < best or not kept:
                    best, best_at = error, fraction
                    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if fraction >= 1 or fraction - best_at > PATIENCE:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, 2 * (1 - fraction))
        chosen = torch.randint(len(rows[0]), (min(BATCH, len(rows[0])),), generator=generator)
        loss = model.loss(rows[0][chosen], rows[1][chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        iterations += 1
    used = watch.elapsed
    model.load_state_dict(kept)
    return Trained(best, iterations, used)


@torch.no_grad()
def error_of(model: Trainable, x: Tensor, target: Tensor) -> float:
    """Return the mean squared error of a value."""
    parts = zip(x.split(1000), target.split(1000), strict=True)
    return sum(float((model.reconstruct(a) - b).square().sum()) for a, b in parts) / target.numel()


class SparseAutoencoder(Trainable):
    """Autoencoder that keeps the k largest activations: of each row, or on average over a batch (BatchTopK).

    Of each row: Makhzani and Frey, 2014, with the auxiliary loss for dead features of Gao et al., 2024. Of a batch:
    Bussmann, Leask and Nanda, 2024; afterwards, activations above a threshold are kept.
    """

    threshold: Tensor
    unused: Tensor

    def __init__(self, n_inputs: int, n_features: int, k: int, *, hidden: Sequence[int], of_batch: bool):
        super().__init__()
        self.k, self.of_batch, self.is_linear = min(k, n_features), of_batch, not hidden
        self.encoder = network((n_inputs, *hidden, n_features))
        self.decoder = network((n_features, *reversed(hidden), n_inputs))
        self.register_buffer("threshold", torch.tensor(math.nan))
        self.register_buffer("unused", torch.zeros(n_features))
        if self.is_linear:
            with torch.no_grad():
                weight = self.decoder[0].weight
                weight.div_(weight.norm(dim=0))  # type: ignore[operator]
                self.encoder[0].weight.copy_(weight.T)  # type: ignore[operator, union-attr]

    def activations(self, x: Tensor) -> Tensor:
        """Return the activations before the choice."""
        return torch.relu(self.encoder(x))

    def chosen(self, activations: Tensor) -> Tensor:
        """Return the activations of which those that are not kept are zero."""
        if not self.of_batch:
            values, places = activations.topk(self.k, dim=-1)
            return torch.zeros_like(activations).scatter(-1, places, values)
        if not self.threshold.isnan():
            return activations * (activations > self.threshold)
        n = min(self.k * len(activations), activations.numel())
        values, places = activations.flatten().topk(n, sorted=False)
        return torch.zeros_like(activations).flatten().scatter(0, places, values).view_as(activations)

    def codes(self, x: Tensor) -> Tensor:
        """Return codes."""
        return self.chosen(self.activations(x))

    @torch.no_grad()
    def set_threshold(self, x: Tensor) -> None:
        """Choose the threshold with k activations of a row above it, on average over these rows."""
        if self.of_batch:
            activations = torch.cat([self.activations(part) for part in x.split(1000)]).flatten()
            largest = activations.topk(min(self.k * len(x) + 1, activations.numel())).values
            self.threshold.fill_(float(largest[-1]))

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the squared error, plus, for linear decoders, that of the dead features about the rest."""
        activations = self.encoder(x)
        codes = self.chosen(torch.relu(activations))
        decoded = self.decoder(codes)
        error = (decoded - target).square().sum(-1).mean()
        with torch.no_grad():
            self.unused.add_(1).mul_(~(codes > 0).any(0))
        dead = self.unused > DEAD_AFTER
        if not self.is_linear or not dead.any():
            return error
        values, places = activations.masked_fill(~dead, -math.inf).topk(min(2 * self.k, int(dead.sum())), dim=-1)
        revived = torch.zeros_like(activations).scatter(-1, places, torch.relu(values))
        rest = nn.functional.linear(revived, self.decoder[0].weight)  # type: ignore[arg-type]
        return error + AUXILIARY_WEIGHT * (rest - (target - decoded).detach()).square().sum(-1).mean()

    def reconstruct(self, x: Tensor) -> Tensor:
        """Return decoded rows."""
        return self.decoder(self.codes(x))


class Decoder(Trainable):
    """A network from given codes to rows."""

    def __init__(self, n_features: int, hidden: Sequence[int], n_outputs: int):
        super().__init__()
        self.layers = network((n_features, *hidden, n_outputs))

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the squared error."""
        return (self.layers(x) - target).square().sum(-1).mean()

    def reconstruct(self, x: Tensor) -> Tensor:
        """Return decoded rows."""
        return self.layers(x)


class QuantizedAutoencoder(Trainable):
    """Autoencoder whose code is one word out of each of several codebooks (van den Oord et al., 2017).

    Codebooks are moving averages of what is assigned to their words; words that are not used start afresh from a row of
    the batch.
    """

    words: Tensor
    use: Tensor
    sums: Tensor

    def __init__(self, n_inputs: int, n_books: int, n_words: int, *, hidden: Sequence[int], seed: int):
        super().__init__()
        self.n_books, self.n_words = n_books, n_words
        self.encoder = network((n_inputs, *hidden, n_books * WORD_SIZE))
        self.decoder = network((n_books * WORD_SIZE, *reversed(hidden), n_inputs))
        self.generator = torch.Generator().manual_seed(seed)
        self.register_buffer("words", torch.zeros(n_books, n_words, WORD_SIZE))
        self.register_buffer("use", torch.zeros(n_books, n_words))
        self.register_buffer("sums", torch.zeros(n_books, n_words, WORD_SIZE))

    def encoded(self, x: Tensor) -> Tensor:
        """Return what is quantised, (rows, books, numbers)."""
        return self.encoder(x).view(len(x), self.n_books, WORD_SIZE)

    def indices(self, encoded: Tensor) -> Tensor:
        """Return the nearest word of each book, (rows, books)."""
        products = torch.einsum("nmd,msd->nms", encoded, self.words)
        return (self.words.square().sum(-1) - 2 * products).argmin(-1)

    def quantized(self, indices: Tensor) -> Tensor:
        """Return the words of indices, (rows, books, numbers)."""
        return self.words[torch.arange(self.n_books), indices]

    def decode(self, indices: Tensor) -> Tensor:
        """Return rows from indices."""
        return self.decoder(self.quantized(indices).flatten(1))

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the squared error and the commitment, and move the words."""
        encoded = self.encoded(x)
        with torch.no_grad():
            if not self.use.any():
                self._restart(torch.ones_like(self.use, dtype=torch.bool), encoded)
            indices = self.indices(encoded)
            quantized = self.quantized(indices)
            if self.training:
                self._move(indices, encoded)
        passed = encoded + (quantized - encoded).detach()
        error = (self.decoder(passed.flatten(1)) - target).square().sum(-1).mean()
        return error + COMMITMENT * (encoded - quantized).square().sum((-1, -2)).mean()

    def _move(self, indices: Tensor, encoded: Tensor) -> None:
        assigned = nn.functional.one_hot(indices, self.n_words).to(encoded.dtype)
        self.use.lerp_(assigned.sum(0), 1 - MEMORY)
        self.sums.lerp_(torch.einsum("nms,nmd->msd", assigned, encoded), 1 - MEMORY)
        self.words.copy_(self.sums / self.use.clamp_min(1e-6)[..., None])
        unused = self.use < RESTART_BELOW
        if unused.any():
            self._restart(unused, encoded)

    def _restart(self, which: Tensor, encoded: Tensor) -> None:
        rows = torch.randint(len(encoded), which.shape, generator=self.generator)
        fresh = encoded[rows, torch.arange(self.n_books)[:, None]]
        fresh = fresh + 0.01 * torch.randn(fresh.shape, generator=self.generator) * encoded.std()
        self.words[which] = fresh[which]
        self.use[which] = 1.0
        self.sums[which] = fresh[which]

    def reconstruct(self, x: Tensor) -> Tensor:
        """Return decoded rows."""
        return self.decode(self.indices(self.encoded(x)))


def in_parts(function: Callable[[Tensor], Tensor], rows: np.ndarray) -> np.ndarray:
    """Return what a function on tensors makes of rows, a thousand at a time."""
    with torch.no_grad():
        return torch.cat([function(part) for part in torch.from_numpy(rows).split(1000)]).numpy()
