"""Encode large tables on several machines with Ray Data."""

import os
from collections.abc import Callable
from typing import Any

from sdlgm._optional import optional_import
from sdlgm.data import CodedParts


class PartEncoder:
    """Encode parts of the data in a Ray worker. Each worker loads the model once.

    Parameters
    ----------
    model : str
        Path of the model file.
    coded : CodedParts
        The data and the folder for the codes.
    options : dict
        Keyword arguments of `SDLGM.transform`.

    """

    def __init__(self, model: str, coded: CodedParts, options: dict[str, Any]):
        import torch

        from sdlgm.estimators._modelfile import load

        torch.set_num_threads(1)  # Ray starts one worker for each core
        self.estimator = load(model)
        self.coded = coded
        self.options = options

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        number = int(item["part"])
        self.coded.encode_part(number, lambda rows: self.estimator.transform(rows, **self.options))
        return {"part": number, "rows": self.coded.rows.parts[number].n_rows}


def encode_with_ray(
    model: str | os.PathLike[str],
    coded: CodedParts,
    options: dict[str, Any],
    *,
    n_workers: int,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Encode the parts that are not yet encoded, like `CodedParts.encode`, with workers of a Ray cluster.

    All machines must find the model, the data and the folder for the codes under the same path. Ray starts on this
    machine, unless it is already running or ``RAY_ADDRESS`` names a cluster.

    Parameters
    ----------
    model : path
        The model file.
    coded : CodedParts
        The data and the folder for the codes.
    options : dict
        Keyword arguments of `SDLGM.transform`.
    n_workers : int
        Largest number of workers.
    advance : callable
        Called with the number of rows that were encoded since the last call.

    """
    ray = optional_import("ray", "ray")
    ray_data = optional_import("ray.data", "ray")
    missing = coded.prepare()
    advance(len(coded.rows) - sum(coded.rows.parts[number].n_rows for number in missing))
    if not missing:
        return
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    try:
        ray_data.DataContext.get_current().enable_progress_bars = False
        items = ray_data.from_items([{"part": number} for number in missing], override_num_blocks=len(missing))
        encoded = items.map(
            PartEncoder,
            fn_constructor_args=(os.path.abspath(model), coded.absolute(), options),
            concurrency=min(n_workers, len(missing)),
        )
        for item in encoded.iter_rows():
            advance(item["rows"])
    finally:
        if started_here:
            ray.shutdown()
