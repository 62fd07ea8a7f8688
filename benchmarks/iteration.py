"""Time of a training iteration with each gradient, relative to the paper's Gumbel-Softmax in the same run.

The contestants take turns, the best of several rounds counts, and torch has one thread: the machine may be noisy.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from sdlgm.gradients import GRADIENTS
from sdlgm.model import ModelConfig, SDLGMModule
from sdlgm.paper.provenance import provenance
from sdlgm.train import TrainConfig, Trainer

REFERENCE = "gumbel_softmax"
PIXELS, BATCH = 784, 100  # MNIST, the paper's batch


def trainer_of(gradient: str) -> Trainer:
    config = TrainConfig(
        max_iter=10**9,
        batch_size=BATCH,
        learning_rate=1e-3,
        lr_decay=0.0,
        kl_warmup=0.0,
        final_temperature=None,
        learn_temperature=False,
        gradient=gradient,
        n_samples=1,
        kl="exact",
        binarize="dynamic",
        n_iter_no_change=None,
    )
    torch.manual_seed(0)
    return Trainer(SDLGMModule(ModelConfig(n_inputs=PIXELS)), config, seed=0)


def seconds(trainer: Trainer, rows: torch.Tensor, n: int) -> float:
    """Seconds an iteration over n of them."""
    start = time.perf_counter()
    for _ in range(n):
        trainer.step(rows)
    return (time.perf_counter() - start) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=20, help="of each contestant in a round")
    parser.add_argument("--out", type=Path, help="where to write JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = torch.rand(BATCH, PIXELS, generator=torch.Generator().manual_seed(0))
    trainers = {name: trainer_of(name) for name in GRADIENTS}
    times: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(arguments.rounds):
        for name, trainer in trainers.items():
            times[name].append(seconds(trainer, rows, arguments.iterations))
    best = {name: float(np.min(values)) for name, values in times.items()}
    table = Table("gradient", "ms an iteration", f"relative to {REFERENCE}")
    for name, value in sorted(best.items(), key=lambda item: item[1]):
        table.add_row(name, f"{1000 * value:.1f}", f"{value / best[REFERENCE]:.2f}")
    Console().print(table)
    if arguments.out:
        result = {"seconds": times, "ratios": {name: value / best[REFERENCE] for name, value in best.items()}}
        arguments.out.write_text(json.dumps(result | provenance(), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
