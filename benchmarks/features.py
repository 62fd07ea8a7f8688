"""Time and memory of a training iteration against the number of features, beside a top-k sparse autoencoder.

Every number of features has a process of its own, and so has the memory of each system.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.encoding import bare
from benchmarks.iteration import BATCH, images, trainer_of
from benchmarks.peers import TopKAutoencoder
from benchmarks.timing import alternate, best, forget_peak, in_new_process, peak_memory, threads
from sdlgm import SDLGM
from sdlgm.estimators._widths import prior_width_for
from sdlgm.model import Batch
from sdlgm.model.networks.encoders import LogitEncoder

N_INPUTS, N_ACTIVE, HIDDEN = 384, 32, 512
RANK = 32  # the default for many features
FEATURES = (1000, 4000, 16_000, 65_536)
ALL_ROUNDS_UP_TO = 4000
"""With more features, fewer rounds: an iteration takes up to a second."""
ENCODED_FEATURES, ROWS = 16_000, 2000


def measure(rounds: int, show: Callable[..., Any]) -> list[dict[str, float]]:
    """Milliseconds of an iteration and bytes of memory for each number of features."""
    return [_point(k, max(2, min(rounds, rounds * ALL_ROUNDS_UP_TO // k))) for k in show(FEATURES, "features")]


def _point(k: int, rounds: int) -> dict[str, float]:
    def of(what: str) -> Any:
        return json.loads(in_new_process("benchmarks.features", what, str(k), str(rounds)))

    seconds = of("time")
    return {
        "k": k,
        **{f"{name}_ms": 1000 * seconds[name] for name in SYSTEMS},
        "ratio": seconds["default"] / seconds["topk"],
        **{f"{name}_memory": of(name) for name in SYSTEMS},
    }


def default_step(k: int) -> Callable[[Batch], object]:
    """Return the training step of the default model for many features."""
    return trainer_of(
        {"binarize": None},
        n_inputs=N_INPUTS,
        n_features=k,
        n_slots=N_ACTIVE,
        hidden=(HIDDEN,),
        likelihood="gaussian",
        refine=0,
        posterior="chain",
        posterior_rank=RANK,
        prior="chain",
        prior_hidden=prior_width_for(k),
        learn_prior=True,
    ).step


def topk_step(k: int) -> Callable[[Batch], object]:
    """Return the training step of the top-k autoencoder of the same sizes."""
    return TopKAutoencoder(N_INPUTS, k, N_ACTIVE, HIDDEN).step


SYSTEMS: dict[str, Callable[[int], Callable[[Batch], object]]] = {"default": default_step, "topk": topk_step}


def seconds_here(k: int, rounds: int) -> dict[str, float]:
    """Return the seconds of an iteration of each system, measured in turns."""
    batch = Batch(images(n_inputs=N_INPUTS))
    steps = {name: make(k) for name, make in SYSTEMS.items()}
    contestants = {name: lambda step=step: step(batch) for name, step in steps.items()}
    return best(alternate(contestants, rounds=rounds, repeats=2))


def memory_here(name: str, k: int) -> int:
    """Return the bytes that the parameters, their optimiser and two iterations of a system take at their peak."""
    batch = Batch(images(n_inputs=N_INPUTS))
    SYSTEMS[name](4 * N_ACTIVE)(batch)  # compile and load everything before memory is looked at
    before = forget_peak()
    step = SYSTEMS[name](k)
    for _ in range(2):
        step(batch)
    return peak_memory() - before


def encoding(rounds: int) -> dict[str, float]:
    """Return the rows a second of `transform` and of the bare encoder with many features, on one thread."""
    X = np.random.default_rng(0).normal(size=(ROWS, N_INPUTS)).astype(np.float32)
    model = SDLGM(
        n_components=ENCODED_FEATURES,
        max_active=N_ACTIVE,
        hidden=(HIDDEN,),
        likelihood="gaussian",
        refine=0,
        kl_warmup=0.0,
        max_iter=1,
        batch_size=BATCH,
        random_state=0,
    ).fit(X)
    _fill_codes(model, X[:BATCH])
    contestants = {"transform": lambda: model.transform(X), "bare": lambda: bare(model, X)}
    with threads(1):
        seconds = best(alternate(contestants, rounds=rounds))
        n_nonzeros = model.transform(X).nnz / ROWS
    return {
        "k": ENCODED_FEATURES,
        "rows_per_second": ROWS / seconds["transform"],
        "bare_rows_per_second": ROWS / seconds["bare"],
        "ratio": seconds["bare"] / seconds["transform"],
        "n_nonzeros": n_nonzeros,
    }


@torch.no_grad()
def _fill_codes(model: SDLGM, X: np.ndarray) -> None:
    """Shift the logits so that as many features as the budget are more probable present than absent in a mean row.

    After one iteration all codes would be empty, which takes less time.
    """
    encoder = model.module_.posterior.encoder
    assert isinstance(encoder, LogitEncoder)
    logits = encoder(torch.from_numpy(X))
    encoder.bias -= logits.flatten().kthvalue(logits.numel() - N_ACTIVE * len(X)).values


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["time", *SYSTEMS])
    parser.add_argument("k", type=int)
    parser.add_argument("rounds", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.what == "time":
        sys.stdout.write(json.dumps(seconds_here(arguments.k, arguments.rounds)))
    else:
        sys.stdout.write(json.dumps(memory_here(arguments.what, arguments.k)))
