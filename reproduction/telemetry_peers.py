"""Systems that describe windows of measurements by few bits: each a list of settings, and what they make of windows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
import torch
from sklearn.decomposition import PCA

from reproduction.quality_measures import support_bits
from reproduction.quality_networks import QuantizedAutoencoder, SparseAutoencoder, train_for
from reproduction.telemetry_data import Telemetry
from reproduction.telemetry_levels import Levels

STEPS = tuple(np.geomspace(0.25, 8.0, 11).round(3).tolist())
"""Steps of quantisation, in standard deviations of a column."""
DEAD_ZONES = (0.5, 0.65)
"""Share of a step from which on a number is rounded away from zero."""
BASES = ("haar", "db2")
SUBSPACES, STAGES, WORD_BITS = (1, 2, 4, 8), (1, 2, 4, 6, 8), (8,)
SPARSE_K, SPARSE_FEATURES, SPARSE_SECONDS, SPARSE_RATE = (2, 4, 8), 256, 6.0, 3e-3
BOUNDS = tuple(np.geomspace(0.05, 6.4, 8).round(3).tolist())
LEVEL_STEPS = (0.5, 1.0, 2.0)
"""Steps of levels that are written apart, in standard deviations of a column."""
BOOKS, VQ_HIDDEN = (1, 2, 4, 8), (256,)
ESCAPE_BITS = 16.0
"""Bits of a number that no training window has, beside those that say so."""


@dataclass(frozen=True)
class Coded:
    """What a system makes of some windows."""

    decoded: np.ndarray
    """Rows, column by column."""
    bits: float
    """Of all windows."""
    codes: Any = None
    """Numbers for a linear model, if the codes are such."""


@dataclass(frozen=True)
class Candidate:
    """A system with a setting."""

    setting: dict[str, Any]
    code: Callable[[np.ndarray], Coded]
    """From rows, column by column, to what becomes of them."""


def histogram_bits(known: np.ndarray, given: np.ndarray) -> float:
    """Return the bits of whole numbers (rows, places) by their frequencies at each place in the training rows.

    A number that is new costs as much as one that was seen half a time, and `ESCAPE_BITS`.
    """
    bits = 0.0
    for column, other in zip(known.T, given.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        total = counts.sum() + 0.5 * (len(values) + 1)
        lengths = np.append(-np.log2((counts + 0.5) / total), -np.log2(0.5 / total) + ESCAPE_BITS)
        places = np.searchsorted(values, other).clip(max=len(values) - 1)
        bits += float(lengths[np.where(values[places] == other, places, len(values))].sum())
    return bits


def quantized(values: np.ndarray, step: float, dead_zone: float) -> np.ndarray:
    """Return whole numbers of steps; those whose rest is below the dead zone are rounded towards zero."""
    return (np.sign(values) * np.floor(np.abs(values) / step + 1 - dead_zone)).astype(np.int64)


def _transform(
    rows: np.ndarray, forward: Callable[[np.ndarray], np.ndarray], back: Callable[[np.ndarray], np.ndarray]
) -> Iterator[Candidate]:
    """Yield quantised coefficients of a linear transform, one candidate for each step and dead zone."""
    coefficients = forward(rows)
    for step in STEPS:
        for dead_zone in DEAD_ZONES:
            known = quantized(coefficients, step, dead_zone)

            def code(rows: np.ndarray, step: float = step, zone: float = dead_zone, known: np.ndarray = known) -> Coded:
                numbers = quantized(forward(rows), step, zone)
                return Coded(back(numbers * step), histogram_bits(known, numbers), numbers * step)

            yield Candidate({"step": step, "dead zone": dead_zone}, code)


def pca(data: Telemetry) -> Iterator[Candidate]:
    """All principal components with the same step; those with little variance become zero."""
    model = PCA(min(96, *data.train.rows.shape), random_state=0).fit(data.train.rows)
    return _transform(data.train.rows, model.transform, model.inverse_transform)


def pca_of_shapes(data: Telemetry) -> Iterator[Candidate]:
    """Levels apart, as one system of the SDLGM has them, and principal components of what is left."""
    for step in LEVEL_STEPS:
        levels = Levels.of(data, step)

        def shapes(rows: np.ndarray, levels: Levels = levels) -> np.ndarray:
            return rows - levels.rows(levels.numbers(rows))

        rows = shapes(data.train.rows)
        model = PCA(min(96, *rows.shape), random_state=0).fit(rows)
        for candidate in _transform(rows, model.transform, model.inverse_transform):

            def code(
                rows: np.ndarray, levels: Levels = levels, shapes: Any = shapes, candidate: Candidate = candidate
            ) -> Coded:
                numbers, coded = levels.numbers(rows), candidate.code(shapes(rows))
                bits = coded.bits + 8.0 * len(levels.to_bytes(numbers))
                return Coded(coded.decoded + levels.rows(numbers), bits)

            yield Candidate({"level step": step, **candidate.setting}, code)


def dct(data: Telemetry) -> Iterator[Candidate]:
    """Cosine transform of each column in time."""
    shape = (-1, data.n_columns, data.length)

    def forward(rows: np.ndarray) -> np.ndarray:
        return scipy.fft.dct(rows.reshape(shape), norm="ortho", axis=2).reshape(len(rows), -1)

    def back(values: np.ndarray) -> np.ndarray:
        return scipy.fft.idct(values.reshape(shape), norm="ortho", axis=2).reshape(len(values), -1)

    return _transform(data.train.rows, forward, back)


def wavelets(data: Telemetry) -> Iterator[Candidate]:
    """Wavelet transform of each column in time, with periodic boundaries."""
    import pywt  # pyright: ignore[reportMissingImports]

    shape = (-1, data.n_columns, data.length)
    for name in BASES:
        halvings = (data.length & -data.length).bit_length() - 1  # a level halves the length, which has to be even
        options = {"mode": "periodization", "level": min(pywt.dwt_max_level(data.length, name), halvings)}
        sizes = [len(part) for part in pywt.wavedec(np.zeros(data.length), name, **options)]

        def forward(rows: np.ndarray, name: str = name, options: dict[str, Any] = options) -> np.ndarray:
            parts = pywt.wavedec(rows.reshape(shape), name, **options, axis=2)
            return np.concatenate(parts, axis=2).reshape(len(rows), -1)

        def back(values: np.ndarray, name: str = name, sizes: Sequence[int] = sizes) -> np.ndarray:
            parts = np.split(values.reshape(shape), np.cumsum(sizes)[:-1], axis=2)
            return pywt.waverec(parts, name, mode="periodization", axis=2).reshape(len(values), -1)

        for candidate in _transform(data.train.rows, forward, back):
            yield Candidate({"wavelet": name, **candidate.setting}, candidate.code)


def product_quantizer(data: Telemetry) -> Iterator[Candidate]:
    """Optimised product quantisation: a rotation, and a book of words for each part of the rotated row."""
    import faiss  # pyright: ignore[reportMissingImports]

    known = np.ascontiguousarray(data.train.rows)
    for n_parts in SUBSPACES:
        for n_bits in WORD_BITS:
            width = -(-known.shape[1] // n_parts) * n_parts
            rotation = faiss.OPQMatrix(known.shape[1], n_parts, width)
            rotation.niter = 10
            rotation.train(known)
            quantizer = faiss.ProductQuantizer(width, n_parts, n_bits)
            quantizer.train(rotation.apply(known))

            def decode(codes: np.ndarray, quantizer: Any = quantizer, rotation: Any = rotation) -> np.ndarray:
                return rotation.reverse_transform(quantizer.decode(codes))

            def encode(rows: np.ndarray, quantizer: Any = quantizer, rotation: Any = rotation) -> np.ndarray:
                return quantizer.compute_codes(rotation.apply(np.ascontiguousarray(rows)))

            yield _indexed({"parts": n_parts, "word bits": n_bits}, known, encode, decode, n_parts, n_bits)


def residual_quantizer(data: Telemetry) -> Iterator[Candidate]:
    """Residual quantisation: words for rows, for what they leave, and so on."""
    import faiss  # pyright: ignore[reportMissingImports]

    known = np.ascontiguousarray(data.train.rows)
    for n_stages in STAGES:
        for n_bits in WORD_BITS:
            quantizer = faiss.ResidualQuantizer(known.shape[1], n_stages, n_bits)
            quantizer.max_beam_size = 5
            quantizer.train(known)

            def encode(rows: np.ndarray, quantizer: Any = quantizer) -> np.ndarray:
                return quantizer.compute_codes(np.ascontiguousarray(rows))

            setting = {"stages": n_stages, "word bits": n_bits}
            yield _indexed(setting, known, encode, quantizer.decode, n_stages, n_bits)


def _indexed(
    setting: dict[str, Any],
    known: np.ndarray,
    encode: Callable[[np.ndarray], np.ndarray],
    decode: Callable[[np.ndarray], np.ndarray],
    n_words: int,
    n_bits: int,
) -> Candidate:
    def indices(codes: np.ndarray) -> np.ndarray:
        bits = np.unpackbits(codes, axis=1, bitorder="little")[:, : n_words * n_bits]
        return (bits.reshape(len(codes), n_words, n_bits) @ (1 << np.arange(n_bits))).astype(np.int64)

    seen = indices(encode(known))

    def code(rows: np.ndarray) -> Coded:
        codes = encode(rows)
        return Coded(decode(codes), histogram_bits(seen, indices(codes)))

    return Candidate(setting, code)


def sparse_autoencoder(data: Telemetry) -> Iterator[Candidate]:
    """Linear autoencoders that keep the k largest activations, which are rounded."""
    rows, watched = (torch.from_numpy(np.ascontiguousarray(part.rows)) for part in (data.train, data.validation))
    for k in SPARSE_K:
        torch.manual_seed(0)
        model = SparseAutoencoder(rows.shape[1], SPARSE_FEATURES, k, hidden=(), of_batch=False)
        pairs = ((rows, rows), (watched, watched))
        train_for(model, *pairs, seconds=SPARSE_SECONDS, learning_rate=SPARSE_RATE, seed=0)

        @torch.no_grad()
        def codes_of(X: np.ndarray, model: SparseAutoencoder = model) -> np.ndarray:
            return model.codes(torch.from_numpy(np.ascontiguousarray(X))).numpy()

        known = codes_of(data.train.rows)
        for step in (1.0, 2.0, 4.0):
            levels = np.rint(known / step).astype(np.int64)
            present = levels[levels > 0]

            def code(
                X: np.ndarray,
                model: SparseAutoencoder = model,
                step: float = step,
                levels: np.ndarray = levels,
                present: np.ndarray = present,
                codes_of: Any = codes_of,
            ) -> Coded:
                numbers = np.rint(codes_of(X) / step).astype(np.int64)
                bits = support_bits(levels, numbers) * len(X)
                bits += histogram_bits(present[:, None], numbers[numbers > 0][:, None])
                with torch.no_grad():
                    decoded = model.decoder(torch.from_numpy((numbers * step).astype(np.float32))).numpy()
                return Coded(decoded, bits, numbers * step)

            yield Candidate({"k": k, "step": step}, code)


def quantized_autoencoder(data: Telemetry) -> Iterator[Candidate]:
    """Autoencoders whose code is one word out of each of some books."""
    rows, watched = (torch.from_numpy(np.ascontiguousarray(part.rows)) for part in (data.train, data.validation))
    for n_books in BOOKS:
        torch.manual_seed(0)
        model = QuantizedAutoencoder(rows.shape[1], n_books, 256, hidden=VQ_HIDDEN, seed=0)
        pairs = ((rows, rows), (watched, watched))
        train_for(model, *pairs, seconds=SPARSE_SECONDS, learning_rate=1e-3, seed=0)

        @torch.no_grad()
        def indices_of(X: np.ndarray, model: QuantizedAutoencoder = model) -> torch.Tensor:
            return model.indices(model.encoded(torch.from_numpy(np.ascontiguousarray(X))))

        known = indices_of(data.train.rows).numpy()

        @torch.no_grad()
        def code(
            X: np.ndarray, model: QuantizedAutoencoder = model, known: np.ndarray = known, indices_of: Any = indices_of
        ) -> Coded:
            indices = indices_of(X)
            return Coded(model.decode(indices).numpy(), histogram_bits(known, indices.numpy()))

        yield Candidate({"books": n_books}, code)


def delta(data: Telemetry) -> Iterator[Candidate]:
    """Rounded values, as differences in time over all windows, by the frequencies of each column."""

    def differences(rows: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.rint(_in_time(data, rows) / step).astype(np.int64)
        return numbers, np.diff(numbers, axis=1, prepend=0).T

    apart = data.train.rows[:: data.length // data.stride]  # windows that do not overlap
    for step in STEPS:
        _, known = differences(apart, step)

        def code(rows: np.ndarray, step: float = step, known: np.ndarray = known) -> Coded:
            numbers, given = differences(rows, step)
            return Coded(_by_window(data, numbers * step), histogram_bits(known, given))

        yield Candidate({"step": step}, code)


def sz3(data: Telemetry) -> Iterator[Candidate]:
    """SZ3 with an absolute bound, one array of all windows after each other."""
    import pysz  # pyright: ignore[reportMissingImports]

    def code(rows: np.ndarray, bound: float) -> Coded:
        in_time = np.ascontiguousarray(_in_time(data, rows))
        config = pysz.szConfig(in_time.shape)
        config.errorBoundMode, config.absErrorBound = pysz.szErrorBoundMode.ABS, bound
        content, _ = pysz.sz.compress(in_time, config)
        decoded, _ = pysz.sz.decompress(content, in_time.dtype, in_time.shape)
        return Coded(_by_window(data, decoded), 8.0 * content.nbytes)

    return (Candidate({"bound": bound}, lambda rows, bound=bound: code(rows, bound)) for bound in BOUNDS)


def zfp(data: Telemetry) -> Iterator[Candidate]:
    """ZFP with an absolute tolerance, one array of all windows after each other."""
    import zfpy  # pyright: ignore[reportMissingImports]

    def code(rows: np.ndarray, bound: float) -> Coded:
        in_time = np.ascontiguousarray(_in_time(data, rows))
        content = zfpy.compress_numpy(in_time, tolerance=bound)
        return Coded(_by_window(data, zfpy.decompress_numpy(content)), 8.0 * len(content))

    return (Candidate({"tolerance": bound}, lambda rows, bound=bound: code(rows, bound)) for bound in BOUNDS)


def _in_time(data: Telemetry, rows: np.ndarray) -> np.ndarray:
    return rows.reshape(len(rows), data.n_columns, data.length).transpose(1, 0, 2).reshape(data.n_columns, -1)


def _by_window(data: Telemetry, series: np.ndarray) -> np.ndarray:
    cut = series.reshape(data.n_columns, -1, data.length).transpose(1, 0, 2)
    return np.ascontiguousarray(cut).reshape(cut.shape[0], -1)


@dataclass(frozen=True)
class Peer:
    """A peer with its title, how its bits are counted, and the package that it needs."""

    title: str
    bits: str
    candidates: Callable[[Telemetry], Iterator[Candidate]]
    package: str | None = None


IDEAL, REAL = "ideal", "real"
PEERS: dict[str, Peer] = {
    "pca": Peer("PCA, rounded", IDEAL, pca),
    "pca-levels": Peer("PCA, levels apart", IDEAL, pca_of_shapes, "constriction"),
    "dct": Peer("cosine transform, rounded", IDEAL, dct),
    "wavelets": Peer("wavelets, rounded", IDEAL, wavelets, "pywt"),
    "product": Peer("product quantisation", IDEAL, product_quantizer, "faiss"),
    "residual": Peer("residual quantisation", IDEAL, residual_quantizer, "faiss"),
    "sparse": Peer("top-k sparse autoencoder", IDEAL, sparse_autoencoder),
    "vq": Peer("autoencoder with quantised code", IDEAL, quantized_autoencoder),
    "delta": Peer("delta coding", IDEAL, delta),
    "sz3": Peer("SZ3", REAL, sz3, "pysz"),
    "zfp": Peer("ZFP", REAL, zfp, "zfpy"),
}
"""The peers, by name."""


def packages_of(names: Sequence[str]) -> dict[str, str]:
    """Return the package that each of some peers needs, of those that need one."""
    return {name: package for name in names if name in PEERS and (package := PEERS[name].package)}
