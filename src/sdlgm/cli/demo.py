"""The command demo."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sdlgm.cli._arguments import Seed
from sdlgm.cli._errors import handle_errors
from sdlgm.cli._models import check_folder, exit_if_interrupted
from sdlgm.cli._output import print_line
from sdlgm.cli._reports import check_report_dependencies
from sdlgm.cli.unsupervised import print_evaluation

# Smaller than the defaults, which are meant for images of 28 x 28 pixels. These have 8 x 8.
SETTINGS: dict[str, Any] = {"n_components": 64, "max_active": 16, "hidden": (256, 128), "likelihood": "gaussian"}


@handle_errors
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report, the model and the codes.")] = Path(
        "demo"
    ),
    max_iter: Annotated[int, typer.Option(help="Training iterations.", min=1)] = 4000,
    seed: Seed = 0,
) -> None:
    """Fit, encode, decode, evaluate and report on handwritten digits that come with scikit-learn.

    $ sdlgm demo --out demo
    """
    check_folder(folder)
    check_report_dependencies()
    from sdlgm.data import check_writable, load_data, write_codes, write_table

    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "report": folder / "report.html",
        "model": folder / "model.sdlgm",
        "codes": folder / "codes.npz",
        "decoded": folder / "decoded.npy",
    }
    for path in files.values():
        check_writable(path)
    from sdlgm import SDLGM
    from sdlgm.report import write_report

    train, test = load_data("digits:train"), load_data("digits:test")
    model = SDLGM(**SETTINGS, max_iter=max_iter, random_state=seed, verbose=1).fit(train.X)
    codes = model.transform(test.X)
    model.save(files["model"])
    write_codes(files["codes"], codes)
    write_table(files["decoded"], model.inverse_transform(codes))
    write_report(model, test, files["report"], random_state=seed, verbose=1)
    print_evaluation(model.evaluate(test.X, random_state=seed), "digits:test")
    for name, path in files.items():
        print_line(f"{name:>8}: {path}")
    exit_if_interrupted(model)
