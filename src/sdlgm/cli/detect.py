"""The command detect: anomalies in new rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdlgm._progress import Progress
from sdlgm.cli._arguments import Data, LabelColumn, Model, TableOut
from sdlgm.cli._errors import handle_errors
from sdlgm.cli._models import check_model, load_model
from sdlgm.cli._output import print_line

if TYPE_CHECKING:
    import numpy as np

    from sdlgm import SDLGM, SDLGMDetector

COLUMNS = ("score", "decision", "anomaly")


@handle_errors
def detect(
    model: Model,
    data: Data,
    scores: TableOut,
    contamination: Annotated[
        float | None,
        typer.Option(
            help="Share of anomalies in the rows that set the threshold, up to 0.5. Default: a rule that assumes none.",
            show_default=False,
        ),
    ] = None,
    normal: Annotated[
        str | None,
        typer.Option(
            help="Rows that set the threshold: mostly normal, and not those that the model was fitted to. "
            "Default: the threshold in the file of a detector, otherwise the rows to score.",
            show_default=False,
        ),
    ] = None,
    contributions: Annotated[
        bool, typer.Option("--contributions", help="Add what each column, and the code, add to the score.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="File for the model with its threshold, for later calls.", show_default=False)
    ] = None,
    label_column: LabelColumn = None,
) -> None:
    """Score rows, and mark anomalies: rows that the model finds less likely than nearly all normal ones.

    The file has for each row its score in nats, the score above the threshold (decision), and whether it is an anomaly.

    $ sdlgm detect model.sdlgm today.csv --normal yesterday.csv --contamination 0.01 --out scores.csv
    """
    from sdlgm.data import TABLES, check_source, check_writable, read_for_model, write_table

    if contamination is not None and not 0 < contamination <= 0.5:
        raise typer.BadParameter(f"--contamination {contamination:g} is not above 0 and at most 0.5.")
    inputs = [model, data] if normal is None else [model, data, normal]
    check_writable(scores, TABLES, inputs=inputs)
    if save is not None:
        check_writable(save, inputs=inputs)
    check_model(model, "SDLGM")
    for source in (data, normal):
        if source is not None:
            check_source(source)
    from sdlgm import SDLGM, SDLGMDetector

    found = load_model(model, SDLGM, SDLGMDetector)
    own = found.model_ if isinstance(found, SDLGMDetector) else found
    with Progress(f"load {data}"):
        rows = read_for_model(data, own, label_column)
        reference = None if normal is None else read_for_model(normal, own, label_column)
    with Progress("detect"):
        detector, origin = _detector(found, rows, reference, contamination, normal or data)
        written, names = _table(detector, rows, contributions)
        write_table(scores, written, names)
        if save is not None:
            detector.save(save)
    n_anomalies = int(written[:, COLUMNS.index("anomaly")].sum())
    print_line(
        f"scores: {scores} ({len(written)} rows, {n_anomalies} anomalies below {detector.offset_:.2f} nats, "
        f"the threshold {origin})"
    )


def _detector(
    found: "SDLGM | SDLGMDetector", rows: object, reference: object, contamination: float | None, name: str
) -> "tuple[SDLGMDetector, str]":
    """Return a detector and where its threshold is from."""
    from sdlgm import SDLGMDetector

    if isinstance(found, SDLGMDetector):
        if contamination is None and reference is None:
            return found, "of the model"
        found = found.model_
    detector = SDLGMDetector(found, contamination="auto" if contamination is None else contamination, prefit=True)
    return detector.fit(rows if reference is None else reference), f"from {name}"


def _table(detector: "SDLGMDetector", rows: object, with_parts: bool) -> "tuple[np.ndarray, tuple[str, ...]]":
    """Return the columns of the table and their names."""
    import numpy as np

    if not with_parts:
        scores, parts, names = detector.score_samples(rows), [], COLUMNS
    else:
        found = detector.contributions(rows)
        scores, parts = found.scores, [found.columns, found.code]
        own = getattr(detector, "feature_names_in_", [f"x{i}" for i in range(detector.n_features_in_)])
        names = (*COLUMNS, *(f"contribution:{name}" for name in own), "contribution:code")
    decision = scores - detector.offset_
    return np.column_stack([scores, decision, decision < 0, *parts]), tuple(names)
