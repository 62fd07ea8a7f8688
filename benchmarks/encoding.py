"""Rows per second of `transform`, the bare encoder networks and orthogonal matching pursuit; a file of 10 GB."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import SparseCoder
from threadpoolctl import threadpool_limits

from benchmarks.iteration import DEFAULT, SHARED
from benchmarks.peers import HIDDEN, PIXELS
from benchmarks.timing import alternate, best, run, threads
from sdlgm import SDLGM
from sdlgm.model.networks.encoders import LogitEncoder, SlotEncoder

ROWS, OMP_ROWS = 10_000, 500
STREAM_BYTES = 10 * 10**9


def pictures(n_rows: int) -> np.ndarray:
    """The handwritten digits of scikit-learn, enlarged to the size of MNIST's and repeated."""
    bunch: Any = load_digits()
    digits = bunch.images / 16
    enlarged = np.pad(np.kron(digits, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2))).reshape(len(digits), PIXELS)
    return np.resize(enlarged.astype(np.float32), (n_rows, PIXELS))


def fitted(X: np.ndarray, **settings: Any) -> SDLGM:
    """A model after enough iterations to have codes that say something."""
    return SDLGM(likelihood="bernoulli", hidden=HIDDEN, max_iter=500, random_state=0, **settings).fit(X)


def measure(rounds: int) -> dict[str, Any]:
    """Rows a second on one thread: `transform` of the default model and of the shared posterior, and their peers.

    OMP has as many atoms, of noise, and the same budget of non-zeros. It always spends the budget, which `transform`
    does not, so it is also given what `transform` spent.
    """
    X = pictures(ROWS)
    model, shared = fitted(X, **DEFAULT), fitted(X, **SHARED)
    spent = {"transform": model.transform(X).nnz / ROWS, "transform, shared": shared.transform(X).nnz / ROWS}
    atoms = np.random.default_rng(1).normal(size=(model.n_components, PIXELS)).astype(np.float32)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    n_nonzeros = {"OMP": model.max_active, "OMP, as many as transform": max(1, round(spent["transform"]))}

    def omp(name: str) -> object:
        coder = SparseCoder(atoms, transform_algorithm="omp", transform_n_nonzero_coefs=n_nonzeros[name])
        return coder.transform(X[:OMP_ROWS])

    contestants: dict[str, Callable[[], object]] = {
        "transform": lambda: model.transform(X),
        "bare encoder": lambda: bare(model, X),
        "transform, shared": lambda: shared.transform(X),
        "bare encoder, shared": lambda: bare(shared, X),
        **{name: lambda name=name: omp(name) for name in n_nonzeros},
    }
    with threads(1), threadpool_limits(1):
        seconds = best(alternate(contestants, rounds=rounds))
    rates = {name: (OMP_ROWS if name in n_nonzeros else ROWS) / value for name, value in seconds.items()}
    return {
        "rounds": rounds,
        "rows_per_second": rates,
        "n_nonzeros": spent | n_nonzeros,
        "ratios": {
            "transform_vs_bare": rates["transform"] / rates["bare encoder"],
            "transform_shared_vs_bare": rates["transform, shared"] / rates["bare encoder, shared"],
            "transform_vs_omp": rates["transform"] / rates["OMP"],
            "transform_vs_short_omp": rates["transform"] / rates["OMP, as many as transform"],
        },
    }


def bare(model: SDLGM, X: np.ndarray) -> None:
    """The encoder's linear layers and activations, in batches of the same size, and nothing else."""
    encoder, size = model.module_.posterior.encoder, model._fitted.rows_at_once()
    assert isinstance(encoder, SlotEncoder | LogitEncoder)
    with torch.inference_mode():
        for start in range(0, len(X), size):
            hidden = encoder.trunk(torch.from_numpy(X[start : start + size]))
            if isinstance(encoder, LogitEncoder):
                encoder.out(hidden)
            else:
                encoder.features(hidden)
                encoder.gate(hidden)


def stream(n_bytes: int = STREAM_BYTES) -> dict[str, float]:
    """`sdlgm encode` of a large file by the default model; most of the file is a hole, which reads as zeros."""
    X = pictures(1000)
    n_rows = n_bytes // X[0].nbytes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fitted(X, **DEFAULT).save(folder / "model.sdlgm")
        data = np.lib.format.open_memmap(folder / "big.npy", "w+", np.float32, (n_rows, PIXELS))
        for start in range(0, n_rows - len(X), 100 * len(X)):
            data[start : start + len(X)] = X
        data.flush()
        del data
        size = (folder / "big.npy").stat().st_size
        np.save(folder / "small.npy", X)
        command = [str(Path(sys.executable).with_name("sdlgm")), "encode", str(folder / "model.sdlgm")]
        seconds, memory = run(*command, str(folder / "big.npy"), "--out", str(folder / "a.npz"), OMP_NUM_THREADS="1")
        _, small = run(*command, str(folder / "small.npy"), "--out", str(folder / "b.npz"), OMP_NUM_THREADS="1")
    return {
        "bytes": size,
        "rows": n_rows,
        "rows_per_second": n_rows / seconds,
        "memory": memory,
        "memory_small_file": small,
    }
