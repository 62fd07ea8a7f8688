"""Time and memory of attention, forward and backward, against the number of keys, beside its peers.

All systems get the same queries, keys and values of 8 heads. The memory of each is measured in a process of its own.

    python -m benchmarks.attention --keys 256 512 1024 2048 --rounds 5
"""

import argparse
import json
import sys
from collections.abc import Callable

import torch
from entmax import entmax_bisect
from torch import Tensor

from benchmarks.timing import alternate, best, forget_peak, in_new_process, peak_memory, threads
from sdlgm.nn import sparse_attention

HEADS, WIDTH, BUDGET = 8, 64, 8
GOAL = 1.5

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


def step(name: str, n_keys: int) -> Callable[[], object]:
    """Return a forward and backward pass of self-attention over some keys."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, HEADS, n_keys, WIDTH)
    query, key, value = (torch.randn(shape, generator=generator).requires_grad_() for _ in range(3))
    gradient = torch.randn(shape, generator=generator)

    def run() -> tuple[Tensor, ...]:
        return torch.autograd.grad(SYSTEMS[name](query, key, value), (query, key, value), gradient)

    return run


def seconds(n_keys: int, rounds: int) -> dict[str, float]:
    """Return the seconds of each system, measured in turns on one thread."""
    with threads(1):
        return best(alternate({name: step(name, n_keys) for name in SYSTEMS}, rounds=rounds))


def memory_here(name: str, n_keys: int) -> int:
    """Return the bytes that a pass takes at its peak."""
    step(name, 64)()
    call = step(name, n_keys)
    before = forget_peak()
    call()
    return peak_memory() - before


def measure(n_keys: int, rounds: int) -> dict[str, object]:
    """Return times, memory and ratios for one number of keys."""
    times = seconds(n_keys, rounds)
    memory = {name: int(in_new_process("benchmarks.attention", "--memory", name, str(n_keys))) for name in SYSTEMS}
    ratios = {name: times["sdlgm"] / times[name] for name in ("entmax_bisect", "topk")}
    return {"keys": n_keys, "seconds": times, "memory": memory, "ratios": ratios, "goal": GOAL}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", nargs=2, metavar=("SYSTEM", "KEYS"))
    arguments = parser.parse_args()
    if arguments.memory:
        sys.stdout.write(str(memory_here(arguments.memory[0], int(arguments.memory[1]))))
    else:
        for number in arguments.keys:
            sys.stdout.write(json.dumps(measure(number, arguments.rounds)) + "\n")
