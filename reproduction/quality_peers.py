"""Systems that describe a row by few numbers or symbols, each with the same number of non-zeros and the same time."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning, MiniBatchNMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from reproduction.quality_data import QualityData
from reproduction.quality_measures import View, index_bits, support_bits, unexplained, value_bits
from reproduction.quality_networks import (
    CHECKS,
    PATIENCE,
    Decoder,
    QuantizedAutoencoder,
    SparseAutoencoder,
    Stopwatch,
    Trained,
    in_parts,
    train_for,
)

Setting = dict[str, Any]
Kind = Literal["discrete", "real", "reference"]

TRIAL = 0.125
"""Share of the time that every setting of a grid is tried for. Trials are not counted."""
FEW_ROWS, NARROW, WIDE = 5_000, (128,), (512,)
LEARNING_RATES = (1e-3, 3e-3)
DECODER_PENALTIES = (0.1, 1.0, 10.0, 100.0)
ALPHAS = (0.3, 1.0, 3.0)
WORDS = (16, 256)
PIECE = 256
"""Rows of a batch of dictionary learning and of NMF."""
WATCHED = 500
"""Validation rows by which both are watched."""


@dataclass(frozen=True)
class Wanted:
    """What all systems have in common."""

    n_features: int
    k: int
    """Non-zeros of a row."""
    bits: float
    """Bits of a row, for codes without zeros."""
    seconds: float
    seed: int


@dataclass(frozen=True)
class Coded:
    """The codes of a data set by one system."""

    system: str
    kind: Kind
    views: Sequence[View]
    """Forms of the code, of which a probe can take the best."""
    unexplained: float
    bits: float | None
    n_active: float
    alive: int
    """Features that the codes of the training rows use."""
    iterations: int
    seconds: float
    setting: Setting = field(default_factory=dict)


def widths(data: QualityData) -> tuple[int, ...]:
    """Return the widths of hidden layers: narrower if there are few rows."""
    return NARROW if len(data.train) < FEW_ROWS else WIDE


# Autoencoders


def _tensors(rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    tensor = torch.from_numpy(rows)
    return tensor, tensor


def _seeded(make: Callable[[], Any], seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def best_network(
    make: Callable[[Setting], Any], grid: Sequence[Setting], data: QualityData, wanted: Wanted
) -> tuple[Any, Trained, Setting]:
    """Try every setting for a share of the time, and train the best for all of it; return the better of its two.

    Parameters
    ----------
    make : callable
        From a setting to an untrained network.
    grid : sequence of dict
        Settings, with their learning rate.
    data : QualityData
    wanted : Wanted

    Returns
    -------
    model : Trainable
    trained : Trained
    setting : dict

    """

    def trained(setting: Setting, seconds: float) -> tuple[Any, Trained, Setting]:
        model = _seeded(lambda: make(setting), wanted.seed)
        rows, watched = _tensors(data.train.X), _tensors(data.validation.X)
        rate = setting["learning_rate"]
        how = train_for(model, rows, watched, seconds=seconds, learning_rate=rate, seed=wanted.seed)
        return model, how, setting

    trials = [trained(setting, TRIAL * wanted.seconds) for setting in grid]
    tried = min(trials, key=lambda trial: trial[1].error)
    return min((tried, trained(tried[2], wanted.seconds)), key=lambda trial: trial[1].error)


def sparse_autoencoder(data: QualityData, wanted: Wanted, *, of_batch: bool) -> list[Coded]:
    """Train a top-k or BatchTopK autoencoder, and measure its codes with values and with their support only."""

    def make(setting: Setting) -> SparseAutoencoder:
        size = data.train.X.shape[1]
        return SparseAutoencoder(size, wanted.n_features, wanted.k, hidden=setting["hidden"], of_batch=of_batch)

    grid = [{"hidden": hidden, "learning_rate": rate} for hidden in ((), widths(data)) for rate in LEARNING_RATES]
    model, trained, setting = best_network(make, grid, data, wanted)
    model.set_threshold(torch.from_numpy(data.validation.X))  # so that other rows have k non-zeros too
    name = "batch_top_k" if of_batch else "top_k"
    codes = in_all_parts(lambda rows: in_parts(model.codes, rows), data)
    values = _of_values(name, codes, lambda of: in_parts(model.decoder, of), data, trained, setting)
    return [values, support_only(f"{name}_support", codes, data, wanted, trained, setting)]


def support_only(
    name: str, codes: View, data: QualityData, wanted: Wanted, trained: Trained, setting: Setting
) -> Coded:
    """Measure which coefficients are not zero, with the decoder that is the best for them.

    It is linear, by ridge regression, or has a hidden layer and is trained for a share of the time, which is not
    counted; the validation rows choose.
    """
    train, validation, test = supports = _each(lambda part: (part != 0).astype(np.float32), codes)
    linear = [Ridge(penalty).fit(train, data.train.X) for penalty in DECODER_PENALTIES]
    decoders: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [("linear", each.predict) for each in linear]
    rows = (torch.from_numpy(train), torch.from_numpy(data.train.X))
    watched = (torch.from_numpy(validation), torch.from_numpy(data.validation.X))
    for rate in LEARNING_RATES:
        network = _seeded(lambda: Decoder(train.shape[1], widths(data), data.train.X.shape[1]), wanted.seed)
        train_for(network, rows, watched, seconds=TRIAL * wanted.seconds, learning_rate=rate, seed=wanted.seed)
        decoders.append(("hidden", lambda of, network=network: in_parts(network.layers, of)))
    errors = [np.square(decode(validation) - data.validation.X).mean() for _, decode in decoders]
    decoder, decode = decoders[int(np.argmin(errors))]
    return Coded(
        system=name,
        kind="discrete",
        views=[supports],
        unexplained=unexplained(decode(test), data.test.X, data.train.X.mean(axis=0)),
        bits=support_bits(train, test),
        n_active=float(test.sum(axis=1).mean()),
        alive=int(train.any(axis=0).sum()),
        iterations=trained.iterations,
        seconds=trained.seconds,
        setting={**setting, "decoder": decoder},
    )


def in_all_parts(encode: Callable[[np.ndarray], Any], data: QualityData) -> View:
    """Return the codes of the rows for training, validation and testing."""
    return encode(data.train.X), encode(data.validation.X), encode(data.test.X)


def _each(function: Callable[[Any], Any], view: View) -> View:
    first, second, third = map(function, view)
    return first, second, third


def _of_values(
    name: str,
    codes: View,
    decode: Callable[[np.ndarray], np.ndarray],
    data: QualityData,
    trained: Trained,
    setting: Setting,
) -> Coded:
    return Coded(
        system=name,
        kind="real",
        views=[codes],
        unexplained=unexplained(decode(codes[2]), data.test.X, data.train.X.mean(axis=0)),
        bits=value_bits(codes, decode, data.validation.X),
        n_active=float((codes[2] != 0).sum(axis=1).mean()),
        alive=int((codes[0] != 0).any(axis=0).sum()),
        iterations=trained.iterations,
        seconds=trained.seconds,
        setting=setting,
    )


def quantized_autoencoder(data: QualityData, wanted: Wanted) -> list[Coded]:
    """Train an autoencoder with as many codebooks as fit into the bits of the SDLGM."""

    def make(setting: Setting) -> QuantizedAutoencoder:
        n_books = max(1, round(wanted.bits / np.log2(setting["words"])))
        hidden, size = setting["hidden"], data.train.X.shape[1]
        return QuantizedAutoencoder(size, n_books, setting["words"], hidden=hidden, seed=wanted.seed)

    grid = [
        {"hidden": hidden, "words": words, "learning_rate": LEARNING_RATES[0]}
        for hidden in ((), widths(data))
        for words in WORDS
    ]
    model, trained, setting = best_network(make, grid, data, wanted)
    indices = in_all_parts(lambda rows: in_parts(lambda x: model.indices(model.encoded(x)), rows), data)
    words = _each(lambda part: in_parts(lambda of: model.quantized(of).flatten(1), part), indices)
    one_hot = _each(lambda part: one_hot_rows(part, model.n_words), indices)
    decoded = in_parts(model.decode, indices[2])
    return [
        Coded(
            system="vq",
            kind="discrete",
            views=[one_hot, words],
            unexplained=unexplained(decoded, data.test.X, data.train.X.mean(axis=0)),
            bits=index_bits(indices[0], indices[2], model.n_words),
            n_active=float(model.n_books),
            alive=int((one_hot[0].getnnz(axis=0) > 0).sum()),
            iterations=trained.iterations,
            seconds=trained.seconds,
            setting={**setting, "books": model.n_books},
        )
    ]


def one_hot_rows(indices: np.ndarray, n_words: int) -> sp.csr_matrix:
    """Return indices (rows, books) as rows of zeros and ones."""
    n_rows, n_books = indices.shape
    columns = (indices + n_words * np.arange(n_books)).ravel()
    starts = np.arange(0, n_rows * n_books + 1, n_books)
    ones = np.ones(n_rows * n_books, np.float32)
    return sp.csr_matrix((ones, columns, starts), shape=(n_rows, n_books * n_words))


# Matrix factorisations


def learn_for(learner: Any, rows: np.ndarray, seconds: float, seed: int, error: Callable[[], float]) -> Trained:
    """Call ``partial_fit`` with batches for a time; end if the error does not improve for a quarter of it."""
    generator, watch = np.random.default_rng(seed), Stopwatch(seconds)
    best, best_at, next_check, iterations = np.inf, 0.0, 1 / CHECKS, 0
    while True:
        fraction = watch.fraction
        if iterations and (fraction >= next_check or fraction >= 1):
            next_check = fraction + 1 / CHECKS
            with watch.paused():
                found = error()
            if found < best:
                best, best_at = found, fraction
        if fraction >= 1 or fraction - best_at > PATIENCE:
            return Trained(best, iterations, watch.elapsed)
        learner.partial_fit(rows[generator.integers(len(rows), size=min(PIECE, len(rows)))])
        iterations += 1


def dictionary(data: QualityData, wanted: Wanted) -> list[Coded]:
    """Learn a dictionary, and encode by orthogonal matching pursuit."""
    rows, watched = (part.X.astype(np.float64) for part in (data.train, data.validation))

    def learned(alpha: float, seconds: float) -> tuple[MiniBatchDictionaryLearning, Trained, Setting]:
        learner = MiniBatchDictionaryLearning(
            wanted.n_features,
            alpha=alpha,  # type: ignore[arg-type]
            batch_size=PIECE,
            random_state=wanted.seed,
            transform_algorithm="omp",
            transform_n_nonzero_coefs=min(wanted.k, rows.shape[1]),
        )

        def error() -> float:
            some = watched[:WATCHED]
            return float(np.square(learner.transform(some) @ learner.components_ - some).mean())

        return learner, learn_for(learner, rows, seconds, wanted.seed, error), {"alpha": alpha}

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # atoms that depend on each other
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        trials = [learned(alpha, TRIAL * wanted.seconds) for alpha in ALPHAS]
        tried = min(trials, key=lambda trial: trial[1].error)
        full = learned(tried[2]["alpha"], wanted.seconds)
        learner, trained, setting = min((tried, full), key=lambda trial: trial[1].error)
        codes = in_all_parts(lambda of: learner.transform(of.astype(np.float64)), data)
    return [_of_values("dictionary", codes, lambda of: of @ learner.components_, data, trained, setting)]


def nmf(data: QualityData, wanted: Wanted) -> list[Coded]:
    """Factorise rows that are moved to be non-negative, with as many components as there are non-zeros."""
    lowest = data.train.X.min(axis=0)
    rows, watched = (np.maximum(part.X - lowest, 0.0) for part in (data.train, data.validation))
    learner = MiniBatchNMF(min(wanted.k, rows.shape[1]), batch_size=PIECE, random_state=wanted.seed)

    def error() -> float:
        some = watched[:WATCHED]
        return float(np.square(learner.transform(some) @ learner.components_ - some).mean())

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        trained = learn_for(learner, rows, wanted.seconds, wanted.seed, error)
        codes = in_all_parts(lambda of: learner.transform(np.maximum(of - lowest, 0.0)), data)
    return [_of_values("nmf", codes, lambda of: of @ learner.components_ + lowest, data, trained, {})]


def pca(data: QualityData, wanted: Wanted) -> list[Coded]:
    """Keep as many principal components as there are non-zeros."""
    watch = Stopwatch(wanted.seconds)
    model = PCA(min(wanted.k, *data.train.X.shape), random_state=wanted.seed).fit(data.train.X)
    trained = Trained(0.0, 1, watch.elapsed)
    codes = in_all_parts(model.transform, data)
    return [_of_values("pca", codes, model.inverse_transform, data, trained, {})]


@dataclass(frozen=True)
class Peer:
    """A peer: the rows that its run makes, and how."""

    titles: Mapping[str, str]
    """Titles of the rows, by their name."""
    run: Callable[[QualityData, Wanted], list[Coded]]


PEERS: Mapping[str, Peer] = {
    "top_k": Peer(
        {"top_k": "top-k SAE", "top_k_support": "top-k SAE, support"},
        lambda data, wanted: sparse_autoencoder(data, wanted, of_batch=False),
    ),
    "batch_top_k": Peer(
        {"batch_top_k": "BatchTopK SAE", "batch_top_k_support": "BatchTopK SAE, support"},
        lambda data, wanted: sparse_autoencoder(data, wanted, of_batch=True),
    ),
    "vq": Peer({"vq": "vector-quantised AE"}, quantized_autoencoder),
    "dictionary": Peer({"dictionary": "dictionary learning, OMP"}, dictionary),
    "nmf": Peer({"nmf": "NMF"}, nmf),
    "pca": Peer({"pca": "PCA"}, pca),
}
"""The peers, by name."""
