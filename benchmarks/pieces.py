"""Pieces of an iteration, in plain torch and as the library does them, on one thread."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.iteration import BATCH, SHARED, images
from benchmarks.peers import N_FEATURES, N_SLOTS
from benchmarks.timing import alternate, best, threads
from sdlgm.model import ModelConfig, Noise, SDLGMModule, SlotDistribution, Temperatures


def distribution(*, gradients: bool) -> SlotDistribution:
    generator = torch.Generator().manual_seed(0)
    gate_logit = torch.randn(BATCH, generator=generator).requires_grad_(gradients)
    feature_logits = torch.randn(BATCH, N_FEATURES, generator=generator).requires_grad_(gradients)
    return SlotDistribution(gate_logit, feature_logits, N_SLOTS)


def pieces() -> dict[str, dict[str, Callable[[], object]]]:
    """For each piece of work the ways to do it, slowest idea first."""
    noise = Noise.seeded(0)
    generator = noise.generator
    rows, one = images(), torch.tensor(1.0)
    shape = (1, BATCH, N_SLOTS, N_FEATURES)
    fixed, trained, prior = distribution(gradients=False), distribution(gradients=True), SDLGMModule(_config()).prior()
    upstream = torch.ones(1, BATCH, N_FEATURES)

    def plain_relaxed(slots: SlotDistribution) -> torch.Tensor:
        return slots.from_parts(*slots.relaxed_parts(1, Temperatures(one, one), noise))

    def relaxed(slots: SlotDistribution) -> torch.Tensor:
        return slots.relaxed_sample(1, Temperatures(one, one), noise)

    def fresh() -> SlotDistribution:  # what is cached would not be measured
        return SlotDistribution(trained.gate_logit, trained.feature_logits, N_SLOTS)

    return {
        "noise of all slots": {
            "exponential_": lambda: torch.empty(shape).exponential_(generator=generator).log_(),
            "rand and two logarithms": lambda: noise.gumbel(shape, one),
        },
        "relaxed counts, forward": {
            "tensor operations": lambda: plain_relaxed(fixed),
            "compiled": lambda: relaxed(fixed),
        },
        "relaxed counts, forward and backward": {
            "autograd": lambda: plain_relaxed(fresh()).backward(upstream),
            "by hand, compiled": lambda: relaxed(fresh()).backward(upstream),
        },
        "hard counts": {
            "torch.multinomial and scatter_add": lambda: _plain_counts(fixed.probs, generator),
            "compiled": lambda: fixed.sample_symbols(1, noise),
        },
        "KL, forward and backward": {
            "term by term": lambda: fresh().prior_terms(prior, "exact").kl.sum().backward(),
            "at once": lambda: fresh().kl(prior, "exact").sum().backward(),
        },
        "binary draws of a batch": {
            "torch.bernoulli": lambda: torch.bernoulli(rows, generator=generator),
            "rand and compare": lambda: torch.lt(torch.rand(rows.shape, generator=generator), rows).to(rows.dtype),
            "compiled": lambda: noise.bernoulli(rows),
        },
        "mode of a batch": {
            "sorting and filling one slot at a time": lambda: _plain_mode(fixed.probs),
            "compiled": fixed.mode,
        },
        "optimiser": _optimisers(),
    }


def _config() -> ModelConfig:
    return ModelConfig(n_inputs=images().shape[1], **SHARED, learn_prior=False)


def _plain_counts(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.multinomial(probs, N_SLOTS, replacement=True, generator=generator)
    return torch.zeros_like(probs).scatter_add_(-1, drawn, torch.ones_like(drawn, dtype=probs.dtype))


def _plain_mode(probs: torch.Tensor) -> torch.Tensor:
    top, symbols = probs.topk(N_SLOTS, dim=-1)
    counts = (top * N_SLOTS).floor()
    left = N_SLOTS - counts.sum(-1, keepdim=True)
    while bool((left > 0).any()):
        step = (left > 0).to(counts.dtype)
        counts.scatter_add_(-1, (top / (counts + 1)).argmax(-1, keepdim=True), step)
        left -= step
    return torch.zeros_like(probs).scatter_(-1, symbols, counts)


def _optimisers() -> dict[str, Callable[[], object]]:
    steps: dict[str, Callable[[], object]] = {}
    options: dict[str, dict[str, Any]] = {
        "Adam, one tensor at a time": {"foreach": False},
        "Adam, foreach": {"foreach": True},
        "Adam, fused": {"fused": True},
    }
    for name, option in options.items():
        parameters = list(SDLGMModule(_config()).parameters())
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        steps[name] = torch.optim.Adam(parameters, **option).step
    return steps


def measure(rounds: int) -> dict[str, dict[str, float]]:
    with threads(1):
        return {name: best(alternate(ways, rounds=rounds, repeats=5)) for name, ways in pieces().items()}
