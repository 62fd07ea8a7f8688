"""Time of a training iteration compared with the peers, and a profile of it."""

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.peers import N_FEATURES, N_SLOTS, PIXELS, BareProducts, GumbelSoftmaxVAE, PlainSDLGM
from benchmarks.timing import alternate, best, threads
from reproduction.table1 import PAPER
from sdlgm.model import Batch, ModelConfig, SDLGMModule
from sdlgm.train import TrainConfig, Trainer

BATCH = 100  # the paper's
N_ROWS = 60_000  # of MNIST
DEFAULT: dict[str, Any] = {"posterior": "chain", "prior": "chain", "prior_hidden": 256}
"""Posterior and prior of the default estimator."""
SHARED: dict[str, Any] = {"posterior": "shared", "prior": "slots"}
"""Posterior and prior of the paper."""


def trainer_of(settings: dict[str, Any], **model: Any) -> Trainer:
    """A trainer of the shared posterior with ReinMax, or with some settings otherwise."""
    training = {"gradient": "reinmax", "kl": "exact", "learn_temperature": False, "kl_warmup": 0.0, "lr_decay": 0.0}
    training["binarize"] = "dynamic"
    architecture = {name: value for name, value in settings.items() if name in ModelConfig.__dataclass_fields__}
    training |= {name: value for name, value in settings.items() if name in training}
    config = TrainConfig(
        max_iter=10**9,
        batch_size=BATCH,
        learning_rate=1e-3,
        final_temperature=None,
        n_samples=1,
        n_iter_no_change=None,
        **training,
    )
    torch.manual_seed(0)
    shared = {**SHARED, "n_inputs": PIXELS, "learn_prior": False}
    module = SDLGMModule(ModelConfig(**{**shared, **architecture, **model}))
    return Trainer(module, config, seed=0, n_rows=N_ROWS)


def images(batch: int = BATCH, n_inputs: int = PIXELS) -> torch.Tensor:
    """Grey images of noise: what they show does not change the time."""
    return torch.rand(batch, n_inputs, generator=torch.Generator().manual_seed(0))


def contestants() -> dict[str, Callable[[], object]]:
    """One training iteration each."""
    torch.manual_seed(0)
    peers = {
        "limit": BareProducts(trainer_of({**DEFAULT, "learn_prior": True}).module, BATCH),
        "limit, shared": BareProducts(trainer_of({}).module, BATCH),
        "gumbel_softmax_relu": GumbelSoftmaxVAE("relu", normalize_logits=False),
        "gumbel_softmax_silu": GumbelSoftmaxVAE("silu", normalize_logits=True),
        "naive": PlainSDLGM(),
        "paper": trainer_of(dict(PAPER)),
        "default": trainer_of({**DEFAULT, "learn_prior": True}),
        "ReinMax, shared": trainer_of({}),
        "ReinMax, gate network on x": trainer_of({"share_layers": False, "gate_hidden": (256, 64)}),
        "chain posterior, prior of slots": trainer_of({"posterior": "chain", "learn_prior": True}),
        "straight_through": trainer_of({"gradient": "straight_through"}),
        "straight_through_gumbel": trainer_of({"gradient": "straight_through_gumbel"}),
        "gumbel_softmax": trainer_of({"gradient": "gumbel_softmax"}),
    }
    batch = Batch(images())
    return {name: lambda peer=peer: peer.step(batch) for name, peer in peers.items()}


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    return {
        "paper_vs_gumbel_softmax": seconds["paper"] / seconds["gumbel_softmax_relu"],
        "default_vs_gumbel_softmax": seconds["default"] / seconds["gumbel_softmax_silu"],
        "naive_vs_paper": seconds["naive"] / seconds["paper"],
        "default_vs_limit": seconds["default"] / seconds["limit"],
        "reinmax_shared_vs_gumbel_softmax": seconds["ReinMax, shared"] / seconds["gumbel_softmax_silu"],
        "reinmax_shared_vs_limit": seconds["ReinMax, shared"] / seconds["limit, shared"],
    }


def measure(n_threads: int, rounds: int, repeats: int) -> dict[str, Any]:
    with threads(n_threads):
        seconds = best(alternate(contestants(), rounds=rounds, repeats=repeats))
    return {"seconds": seconds, "ratios": ratios(seconds)}


CODE_OPERATIONS = (
    "_RelaxedCounts",
    "_Symbols",
    "_Divergence",
    "_ConditionalDivergence",
    "_Cost",
    "_DrawnBy",
    "_HiddenEffect",
    "_LowRankEffect",
    "_SparseProduct",
)
"""Draws and divergences of `sdlgm.model.codes`, as torch's profiler names them."""
GROUPS = {
    "matrix products": ("aten::mm", "aten::addmm"),
    "optimiser": ("aten::_fused_adam_", "Optimizer.", "aten::_foreach"),
    "codes": CODE_OPERATIONS,
    "activations": ("aten::silu", "aten::relu", "aten::threshold", "aten::clamp_min"),
    "likelihood": ("aten::log_sigmoid", "aten::binary_cross", "aten::sigmoid"),
    "binary draws": ("aten::bernoulli_",),
}
ALL_SLOTS = BATCH * N_SLOTS * N_FEATURES


def profiled(name: str, iterations: int = 50) -> dict[str, float]:
    """Milliseconds an iteration by kind of work, as torch's profiler attributes them; its own cost is included.

    Operations on a tensor with all slots count as "codes" whatever they do. "Between the operations" is the rest of the
    time: Python, and compiled loops that torch does not know of, such as the hard and the binary draws.
    """
    with threads(1):
        step = contestants()[name]
        for _ in range(10):
            step()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as record:
            start = time.perf_counter()
            for _ in range(iterations):
                step()
            total = 1000 * (time.perf_counter() - start) / iterations
    parts = dict.fromkeys([*GROUPS, "other operations"], 0.0)
    for event in record.key_averages(group_by_input_shape=True):
        group = next((group for group, starts in GROUPS.items() if event.key.startswith(starts)), "other operations")
        if any(math.prod(shape) >= ALL_SLOTS for shape in event.input_shapes if shape):
            group = "codes"
        parts[group] += event.self_cpu_time_total / iterations / 1000
    return {**parts, "between the operations": total - sum(parts.values()), "all": total}
