"""One iteration of the classifier with many labels, beside a sigmoid network with the same trunk, and peaks of memory.

Rows and labels are made and sparse. Writes ``scaling`` and ``memory`` of ``docs/results/tags.json``.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from benchmarks.timing import alternate, best, forget_peak, in_new_process, peak_memory, threads
from sdlgm import SDLGMClassifier
from sdlgm._files import write_text
from sdlgm.model.networks.multilabel import LabelEncoder
from sdlgm.train import ShuffledBatches, Targets, Trainer
from sdlgm.train.adam import Adam

LABELS = (1000, 10_000, 100_000)
LABELS_OF_ROW, COLUMNS_OF_ROW = 20, 20
N_ROWS, N_COLUMNS = 1000, 500
ROUNDS, REPEATS = 5, 3
LARGE = {"rows": 100_000, "columns": 50_000, "labels": 20_000}
COLUMNS_OF_LARGE, LABELS_OF_LARGE = 50, 5
PREDICTED_ROWS, FEW_ITERATIONS = 1000, 20
SEED = 0


def made(n_rows: int, n_columns: int, in_row: int, seed: int, dtype: type = np.float64) -> sp.csr_matrix:
    """Return zeros, and in each row at most ``in_row`` ones."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, n_columns, (n_rows, in_row)), axis=1)
    ends = np.arange(0, n_rows * in_row + 1, in_row)
    matrix = sp.csr_matrix((np.ones(columns.size, dtype), columns.ravel(), ends), shape=(n_rows, n_columns))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


class SigmoidNetwork:
    """The encoder of the classifier, its loss the cross-entropy of each label by itself, and its optimiser."""

    def __init__(self, encoder: LabelEncoder, learning_rate: float, weight_decay: float):
        self.encoder = encoder
        self.optimizer = Adam(encoder.parameters(), learning_rate, weight_decay)
        self.generator = torch.Generator().manual_seed(SEED)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Update all parameters."""
        self.optimizer.zero_grad()
        logits = self.encoder(x, self.generator).labels.logits
        loss = F.binary_cross_entropy_with_logits(logits, y, reduction="none").sum(-1).mean()
        loss.backward()
        self.optimizer.step()


def iteration(n_labels: int, rounds: int) -> dict[str, float]:
    """Time one iteration of both, from sparse rows to new parameters, in milliseconds."""
    X, Y = made(N_ROWS, N_COLUMNS, COLUMNS_OF_ROW, 0), made(N_ROWS, n_labels, LABELS_OF_ROW, 1, np.int8)
    estimator = SDLGMClassifier(inputs="sparse", max_iter=1, random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one iteration learns nothing
        fitted = estimator.fit(X, Y)._fitted
    targets = Targets.all_known(sp.csr_array(Y))
    batches = ShuffledBatches(X, int(estimator.batch_size), SEED, fitted.scaling.apply, targets)
    trainer = Trainer(fitted.module, estimator._train_config(N_ROWS), SEED)
    config = trainer.config
    torch.manual_seed(SEED)
    network = SigmoidNetwork(LabelEncoder(fitted.module.config), config.learning_rate, config.weight_decay)
    device = torch.device("cpu")

    def sigmoid() -> None:
        batch = batches.batch(0, device)
        assert batch.y is not None
        network.step(batch.x, batch.y)

    times = best(
        alternate(
            {"ms": lambda: trainer.step(batches.batch(0, device)), "sigmoid_ms": sigmoid},
            rounds=rounds,
            repeats=REPEATS,
        )
    )
    return {"labels": n_labels, **{name: 1000 * seconds for name, seconds in times.items()}}


def memory(n_rows: int, n_columns: int, n_labels: int) -> list[dict[str, Any]]:
    """Measure the peak of the memory of this process in each step, in MB."""
    size = {"rows": n_rows, "columns": n_columns, "labels": n_labels}
    X, Y = made(n_rows, n_columns, COLUMNS_OF_LARGE, 0), made(n_rows, n_labels, LABELS_OF_LARGE, 1, np.int8)
    few_rows, few_labels = X[:PREDICTED_ROWS], Y[:PREDICTED_ROWS]
    model = SDLGMClassifier(max_iter=FEW_ITERATIONS, random_state=SEED)
    steps = {
        "data": lambda: None,
        "fit": lambda: model.fit(X, Y),
        "predict": lambda: model.predict(few_rows),
        "evaluate": lambda: model.evaluate(few_rows, few_labels),
    }
    found = []
    for step, run in steps.items():
        forget_peak()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
        found.append({"step": step, **size, "peak_mb": peak_memory() / 1e6})
    return found


def main() -> None:
    """Measure here, or each point in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/tags.json"))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each contestant")
    parser.add_argument("--quick", action="store_true", help="small sizes and two rounds, to see that it works")
    parser.add_argument("--here", type=json.loads, help="measure one point in this process, and print it")
    arguments = parser.parse_args()
    rounds = 2 if arguments.quick else arguments.rounds
    if arguments.here is not None:
        with threads(1):
            point = arguments.here
            found = memory(**point) if "n_rows" in point else iteration(point["n_labels"], rounds)
        sys.stdout.write(json.dumps(found))
        return
    scale = 100 if arguments.quick else 1

    def apart(point: dict[str, int]) -> Any:
        return json.loads(in_new_process("benchmarks.labels", "--rounds", str(rounds), "--here", json.dumps(point)))

    scaling = [apart({"n_labels": n_labels // scale}) for n_labels in LABELS]
    peaks = apart({f"n_{name}": size // scale for name, size in LARGE.items()})
    result = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    write_text(arguments.out, json.dumps({**result, "scaling": scaling, "memory": peaks}, indent=1) + "\n")


if __name__ == "__main__":
    main()
