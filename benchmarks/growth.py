"""Time and memory against the number of slots, of features, of rows in a batch and of rows to encode.

Every point has a process of its own, so that its peak of memory is its own too.
"""

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
import torch

from benchmarks.iteration import BATCH, SHARED, images, trainer_of
from benchmarks.peers import HIDDEN, N_FEATURES, N_SLOTS, PIXELS
from benchmarks.timing import forget_peak, in_new_process, peak_memory
from sdlgm import SDLGM
from sdlgm.model import Batch
from sdlgm.model.networks.encoders import SlotEncoder

GRADIENTS = ("reinmax", "gumbel_softmax")
SLOTS = (10, 20, 40, 80, 160, 320, 640)
FEATURES = (50, 100, 200, 400, 800, 1600, 3200, 6400)
BATCHES = (25, 50, 100, 200, 400, 800)
ROWS = (1000, 4000, 16_000, 64_000)


def points() -> list[dict[str, Any]]:
    training = [{"what": gradient} for gradient in GRADIENTS]
    encoding = {"what": "transform", "rows": 4000}
    return [
        *[{**what, "axis": "L0", "n_slots": n} for what in [*training, encoding] for n in SLOTS],
        *[{**what, "axis": "K", "n_features": n} for what in [*training, encoding] for n in FEATURES],
        *[{**what, "axis": "batch", "batch": n} for what in training for n in BATCHES],
        *[{**encoding, "axis": "rows", "rows": n} for n in ROWS],
    ]


def measure(repeats: int, show: Any) -> list[dict[str, Any]]:
    return [
        json.loads(in_new_process("benchmarks.growth", json.dumps(point), str(repeats))) for point in show(points())
    ]


def measure_here(point: dict[str, Any], repeats: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    size = {"n_slots": point.get("n_slots", N_SLOTS), "n_features": point.get("n_features", N_FEATURES)}
    measured = _transform if point["what"] == "transform" else _training
    return {**point, **size, **measured(point, size, repeats)}


def _training(point: dict[str, Any], size: dict[str, int], repeats: int) -> dict[str, float]:
    settings = {"gradient": point["what"]}
    small = trainer_of(settings, n_inputs=4, n_features=4, n_slots=2, hidden=(4,))
    small.step(Batch(images(4, 4)))  # compile and load everything before memory is looked at
    trainer, batch = trainer_of(settings, **size), Batch(images(point.get("batch", BATCH)))
    before = forget_peak()
    trainer.step(batch)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        trainer.step(batch)
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds), "memory": peak_memory() - before}


def _transform(point: dict[str, Any], size: dict[str, int], repeats: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = rng.random((point["rows"], PIXELS), dtype=np.float32)
    model = SDLGM(
        n_components=size["n_features"],
        max_active=size["n_slots"],
        **SHARED,
        hidden=HIDDEN,
        max_iter=1,
        batch_size=BATCH,
        random_state=0,
    ).fit(X[:200])
    encoder = model.module_.posterior.encoder
    assert isinstance(encoder, SlotEncoder)
    with torch.no_grad():  # all slots on: the fullest codes that there can be
        encoder.gate[-1].get_parameter("bias").copy_(torch.tensor([5.0, -5.0]))
    model.transform(X[:10])
    before = forget_peak()
    seconds = []
    output = 0
    for _ in range(repeats):
        start = time.perf_counter()
        codes = model.transform(X)
        seconds.append(time.perf_counter() - start)
        output = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes
    return {"seconds": min(seconds), "memory": peak_memory() - before, "output": output}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("point", type=json.loads)
    parser.add_argument("repeats", type=int)
    arguments = parser.parse_args()
    sys.stdout.write(json.dumps(measure_here(arguments.point, arguments.repeats)))
