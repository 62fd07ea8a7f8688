"""The main job from end to end on data that come with scikit-learn."""

from dataclasses import dataclass
from pathlib import Path

from sdlgm import SDLGM, Evaluation
from sdlgm.data import load_data, write_codes, write_table
from sdlgm.report import write_report

# Smaller than the defaults, which are made for 28 x 28 pixels: these pictures have 8 x 8.
SETTINGS = {"n_components": 64, "max_active": 16, "hidden": (256, 128), "likelihood": "gaussian"}


@dataclass(frozen=True)
class DemoResult:
    evaluation: Evaluation
    files: dict[str, Path]
    """What was written, by what it is."""


def run_demo(folder: Path, *, max_iter: int, seed: int, verbose: bool) -> DemoResult:
    """Fit on the training digits; encode, decode, evaluate and report on the test digits."""
    train, test = load_data("digits:train"), load_data("digits:test")
    folder.mkdir(parents=True, exist_ok=True)
    model = SDLGM(**SETTINGS, max_iter=max_iter, random_state=seed, verbose=int(verbose)).fit(train.X)
    codes = model.transform(test.X)
    files = {
        "report": folder / "report.html",
        "model": folder / "model.sdlgm",
        "codes": folder / "codes.npz",
        "decoded": folder / "decoded.npy",
    }
    model.save(files["model"])
    write_codes(files["codes"], codes)
    write_table(files["decoded"], model.inverse_transform(codes))
    write_report(model, test, files["report"], random_state=seed)
    return DemoResult(model.evaluate(test.X, random_state=seed), files)
