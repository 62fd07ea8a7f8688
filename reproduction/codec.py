"""Measure codes on the wire: sizes beside the ideal, rows in a second, and the ceiling of messages."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from reproduction.provenance import publish
from sdlgm import SDLGM, load
from sdlgm.codec import Codec
from sdlgm.data import load_data
from sdlgm.report.figures import dense

ROUNDS = 3
TRIED_AT_ONCE = 10_000
PROTOCOL = {
    "model": "the defaults of SDLGM, trained by the command on the training rows; codes are those of "
    "`transform` for the test rows",
    "ideal": "-log2 p(z) under the prior in floating point, the mean of the rows",
    "speed": f"codes to bytes and back, without encoder and decoder, one thread; the best of {ROUNDS} rounds, after "
    "one that compiles",
    "ceiling": "codes of all sizes, drawn without regard to the prior, half of them of the rarer features",
}


def trained(name: str, rows: np.ndarray, work_folder: Path, iterations: int, **settings: Any) -> SDLGM:
    """Return a model that was fitted to rows, by this call or an earlier one. An interrupted fit is resumed."""
    folder = work_folder / f"{name}-{iterations}"
    path = folder / "model.sdlgm"
    if not path.exists():
        model = SDLGM(max_iter=iterations, random_state=0, checkpoint_dir=folder, resume=True, **settings)
        model.fit(rows).save(path)
    return load(path)


def reproduce_codec(
    out: Path, *, data: str, iterations: int, tried: int, work_folder: Path, **settings: Any
) -> dict[str, Any]:
    """Train a model, write its codes in every form, and publish the sizes."""
    known, test = (dense(load_data(f"{data}:{split}").X) for split in ("train", "test"))
    model = trained(f"codec-{data}", known, work_folder, iterations, **settings)
    codes = sp.csr_matrix(model.transform(test))
    codec, n_rows = model.codec_, codes.get_shape()[0]
    ideal = model.evaluate(test).code_bits

    def row(system: str, write: Callable[[], Any], read: Callable[[Any], Any], n_bytes: Callable[[Any], int]) -> Any:
        written = write()
        read(written)
        return {
            "system": system,
            "bits": 8 * n_bytes(written) / n_rows,
            "written_per_second": n_rows / _best_time(write),
            "read_per_second": n_rows / _best_time(lambda: read(written)),
        }

    def total(messages: list[bytes]) -> int:
        return sum(len(message) for message in messages)

    rows = [
        row("file", lambda: codec.to_bytes(codes), codec.from_bytes, len),
        row("messages", lambda: codec.to_messages(codes), codec.from_messages, total),
        row(
            "messages with checksum",
            lambda: codec.to_messages(codes, checksum=True),
            lambda messages: codec.from_messages(messages, checksum=True),
            total,
        ),
    ]
    return publish(
        out,
        {
            "data": data,
            "n_rows": n_rows,
            "n_components": codec.n_features,
            "max_active": codec.budget,
            "iterations": iterations,
            "seeds": [0],
            "ideal_bits": ideal,
            "rows": rows,
            "ceiling": {"max_bytes": codec.max_bytes, **longest_message(codec, codes, tried)},
            "protocol": PROTOCOL,
        },
    )


def longest_message(codec: Codec, likely: sp.csr_matrix, tried: int) -> dict[str, int]:
    """Return the length of the longest of many messages, each of which is read back."""
    rng, longest, as_numbers = np.random.default_rng(0), 0, 0
    rare = np.argsort(np.asarray(likely.sum(axis=0)).ravel())[: max(codec.budget, codec.n_features // 2)]
    for first in range(0, tried, TRIED_AT_ONCE):
        codes = np.zeros((min(TRIED_AT_ONCE, tried - first), codec.n_features), np.int32)
        for place, row in enumerate(codes):
            features = rare if place % 2 else np.arange(codec.n_features)
            row[rng.choice(features, rng.integers(0, min(codec.budget, len(features)) + 1), replace=False)] = 1
        messages = codec.to_messages(sp.csr_matrix(codes))
        if not np.array_equal(codec.from_messages(messages).toarray(), codes):
            raise AssertionError("a message was not read back as its code")
        longest = max(longest, *(len(message) for message in messages))
        as_numbers += sum(message[0] >= 128 for message in messages)
    return {"tried": tried, "longest": longest, "as_numbers": as_numbers}


def _best_time(work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
