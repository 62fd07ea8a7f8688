"""Train the default model for a long time and record the discrete bound against time."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reproduction.internals import Noise, SDLGMModule
from reproduction.provenance import publish
from reproduction.table1 import WIDE, run_version, split
from sdlgm import PAPER, SDLGM, load
from sdlgm.data import load_data
from sdlgm.report.figures import dense

POINTS = 60  # of the curve
# The protocol is part of the published results. Change it together with a new run.
PROTOCOL = {
    "model": "the defaults of SDLGM, but for the networks and the number of iterations",
    "training": "on all training images but the last twelfth (5,000 of MNIST's), which are the validation images of "
    "the curve; nothing is chosen by the test images",
    "binarisation": "dynamic: a fresh Bernoulli draw of the grey levels every time an image is seen",
    "time": "processor seconds of the one thread that trains, without those that the curve itself takes",
}


@dataclass(frozen=True)
class LongRun:
    """A model that was trained for a long time, its curve, and the images that it was not trained on."""

    model: SDLGM
    curve: "Curve"
    train: Any
    validation: Any


def long_run(
    out: Path, *, data: str, one_layer: bool, iterations: int, seed: int, work_folder: Path, verbose: bool
) -> dict[str, Any]:
    """Train one model, record its validation bound, and write the curve and the final scores to ``out``.

    Its networks are those of the paper, or with ``one_layer`` the default ones.
    """
    run = trained(
        data=data, one_layer=one_layer, iterations=iterations, seed=seed, work_folder=work_folder, verbose=verbose
    )
    test = load_data(f"{data}:test").X
    result = {
        "data": data,
        "iterations": iterations,
        "seed": seed,
        "curve": run.curve.points(iterations),
        "validation": asdict(run.model.evaluate(run.validation, random_state=0)),
        "test": asdict(run.model.evaluate(test, random_state=0)),
        "train": asdict(run.model.evaluate(run.train, random_state=0)),
        "importance_weighted_100": float(np.mean(run.model.elbo(test, n_importance=100, random_state=0))),
        "settings": {name: value for name, value in run.model.get_params().items() if name != "checkpoint_dir"},
        "protocol": PROTOCOL,
    }
    return publish(out, result)


def trained(
    *, data: str, one_layer: bool, iterations: int, seed: int, work_folder: Path, verbose: bool = False
) -> LongRun:
    """Return the model of a run, trained by this call or an earlier one. An interrupted run is resumed."""
    train, validation = split(load_data(f"{data}:train").X)
    networks = WIDE if one_layer else {"hidden": PAPER["hidden"]}
    settings: dict[str, Any] = {"likelihood": "bernoulli", **networks}
    version = run_version(SDLGM(**settings))
    folder = work_folder / f"long-{data}-{iterations}-{seed}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    every = max(1, iterations // POINTS)
    curve = Curve(folder / "curve.jsonl", validation, every)
    path = folder / "model.sdlgm"
    if path.exists():
        return LongRun(load(path), curve, train, validation)
    model = SDLGM(
        **settings,
        max_iter=iterations,
        random_state=seed,
        checkpoint_dir=folder,
        checkpoint_every=every,
        resume=True,
        verbose=int(verbose),
    )
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # processor seconds are then the time of the run
    try:
        model.fit(train, callback=curve)
    finally:
        torch.set_num_threads(n_threads)
    model.save(path)
    return LongRun(model, curve, train, validation)


class Curve:
    """Callback of fit: append the validation bound to a file of JSON lines every ``every`` iterations."""

    def __init__(self, path: Path, images: Any, every: int):
        self.path, self.images, self.every = path, images, every
        self.last = time.process_time()

    def __call__(self, module: SDLGMModule, iteration: int) -> None:
        if iteration % self.every:
            return
        seconds = time.process_time() - self.last
        bound = _mean_bound(module, self.images, seed=iteration)
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"iteration": iteration, "seconds": seconds, "validation": -bound}) + "\n")
        self.last = time.process_time()

    def points(self, iterations: int) -> list[dict[str, float]]:
        """Return the points in order, with cumulative seconds. If an iteration was repeated, the later point counts."""
        lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        found = {line["iteration"]: line for line in lines if line["iteration"] <= iterations}
        total, points = 0.0, []
        for iteration in sorted(found):
            total += found[iteration]["seconds"]
            points.append({**found[iteration], "seconds": total})
        return points


@torch.no_grad()
def _mean_bound(module: SDLGMModule, images: Any, seed: int) -> float:
    """Return the mean discrete bound on some images, with one draw for each image."""
    training = module.training
    module.eval()
    noise = Noise.seeded(seed)
    total = 0.0
    for start in range(0, images.shape[0], 500):
        x = torch.bernoulli(
            torch.from_numpy(np.asarray(dense(images[start : start + 500]), dtype=np.float32)),
            generator=noise.generator,
        )
        total += float(module.elbo(x, noise=noise).value.sum())
    module.train(training)
    return total / images.shape[0]
