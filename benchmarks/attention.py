"""Time and memory of attention, forward and backward, against the number of keys, beside its peers.

All systems get the same queries, keys and values of 8 heads. The scores have a standard deviation of 1, where most keys
count for a little, and of 4, where few count and the budget binds. Times are those of the processor on one thread, the
best of several turns. The memory of each system is measured in a process of its own.

    python -m benchmarks.attention --keys 256 512 1024 2048 --rounds 5 --out docs/results/attention_speed.json
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from entmax import entmax_bisect
from torch import Tensor

from benchmarks.timing import alternate, best, forget_peak, in_new_process, peak_memory, threads
from reproduction.provenance import provenance
from sdlgm._files import write_text
from sdlgm.nn import sparse_attention

HEADS, WIDTH, BUDGET = 8, 64, 8
SPREADS = (1, 4)
"""Standard deviations of the scores."""
GOAL = 1.5
"""Largest ratio to entmax by bisection, and to top-k."""

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return (query * WIDTH**-0.5) @ key.transpose(-2, -1)


def softmax(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return dense attention, written out: the weights exist, as in the others."""
    return _scores(query, key).softmax(-1) @ value


def bisect(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention by entmax-1.5, by bisection."""
    weights = entmax_bisect(_scores(query, key), alpha=1.5, dim=-1)
    assert isinstance(weights, Tensor)
    return weights @ value


def topk(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention to the keys with the largest scores."""
    scores = _scores(query, key)
    largest = scores.topk(min(BUDGET, scores.shape[-1]), dim=-1)
    weights = torch.zeros_like(scores).scatter(-1, largest.indices, largest.values.softmax(-1))
    return weights @ value


def drawn(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention to drawn sets, with their divergence in the gradient."""
    result = sparse_attention(query, key, value, BUDGET, training=True)
    assert result.kl is not None
    return result.output + 0.0 * result.kl.mean()


def mode(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention to the most probable sets, as in evaluation."""
    return sparse_attention(query, key, value, BUDGET).output


SYSTEMS: dict[str, Attention] = {
    "softmax": softmax,
    "entmax_bisect": bisect,
    "topk": topk,
    "sdlgm": drawn,
    "sdlgm_mode": mode,
}


PEERS = ("entmax_bisect", "topk", "softmax")


def step(name: str, n_keys: int, spread: int) -> Callable[[], object]:
    """Return a forward and backward pass of self-attention over some keys."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, HEADS, n_keys, WIDTH)
    query, key, value, gradient = (torch.randn(shape, generator=generator) for _ in range(4))
    inputs = tuple(part.requires_grad_() for part in (spread * query, key, value))

    def run() -> tuple[Tensor, ...]:
        return torch.autograd.grad(SYSTEMS[name](*inputs), inputs, gradient)

    return run


def seconds(n_keys: int, spread: int, rounds: int) -> dict[str, float]:
    """Return the processor seconds of each system, measured in turns on one thread."""
    with threads(1):
        contestants = {name: step(name, n_keys, spread) for name in SYSTEMS}
        return best(alternate(contestants, rounds=rounds, clock=time.process_time))


def memory_here(name: str, n_keys: int, spread: int) -> int:
    """Return the bytes that a pass takes at its peak."""
    with threads(1):
        step(name, 64, spread)()
        call = step(name, n_keys, spread)
        before = forget_peak()
        call()
        return peak_memory() - before


def measure(n_keys: int, spread: int, rounds: int) -> dict[str, Any]:
    """Return times and memory for one number of keys, and the ratios of drawn sets to each peer."""
    times = seconds(n_keys, spread, rounds)
    arguments = {name: ("--memory", name, str(n_keys), str(spread)) for name in SYSTEMS}
    memory = {name: int(in_new_process("benchmarks.attention", *given)) for name, given in arguments.items()}
    ratios = {name: times["sdlgm"] / times[name] for name in PEERS}
    return {"keys": n_keys, "spread": spread, "seconds": times, "memory": memory, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="file of the results")
    parser.add_argument("--memory", nargs=3, metavar=("SYSTEM", "KEYS", "SPREAD"))
    arguments = parser.parse_args()
    if arguments.memory:
        name, n_keys, spread = arguments.memory
        sys.stdout.write(str(memory_here(name, int(n_keys), int(spread))))
        return
    rows = []
    for spread in SPREADS:
        for n_keys in arguments.keys:
            rows.append(measure(n_keys, spread, arguments.rounds))
            sys.stdout.write(json.dumps(rows[-1]) + "\n")
            sys.stdout.flush()
    if arguments.out:
        result = {"goal": GOAL, "heads": HEADS, "width": WIDTH, "budget": BUDGET, "rounds": arguments.rounds}
        result |= {"load": os.getloadavg()[2], "rows": rows, **provenance()}
        write_text(arguments.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
