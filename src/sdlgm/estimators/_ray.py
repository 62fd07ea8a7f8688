"""Encode or compress large tables on several machines with Ray Data."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sdlgm._optional import optional_import
from sdlgm.data import PartFolder, RowFiles


@dataclass(frozen=True)
class Transform:
    """Encode rows.

    Parameters
    ----------
    options : dict
        Keyword arguments of `SDLGM.transform`.

    """

    options: dict[str, Any]

    def __call__(self, estimator: Any, rows: RowFiles) -> Any:
        """Return codes."""
        return estimator.transform(rows, **self.options)


class PartEncoder:
    """Encode parts of the data in a Ray worker. Each worker loads the model once.

    Parameters
    ----------
    model : str
        Path of the model file.
    coded : PartFolder
        The data and the folder for the results.
    work : callable
        Takes the model, and then what the work of `PartFolder.encode_part` takes.

    """

    def __init__(self, model: str, coded: PartFolder, work: Callable[..., Any]):
        import torch

        from sdlgm.estimators._modelfile import load

        torch.set_num_threads(1)  # Ray starts one worker for each core
        self.work = partial(work, load(model))
        self.coded = coded

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        number = int(item["part"])
        self.coded.encode_part(number, self.work)
        return {"part": number, "rows": self.coded.rows.parts[number].n_rows}


def encode_with_ray(
    model: str | os.PathLike[str],
    coded: PartFolder,
    work: Callable[..., Any],
    *,
    n_workers: int,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Encode the parts that are not yet encoded, like `PartFolder.encode`, with workers of a Ray cluster.

    All machines must find the model, the data and the folder for the results under the same path. Ray starts on this
    machine, unless it is already running or ``RAY_ADDRESS`` names a cluster.

    Parameters
    ----------
    model : path
        The model file.
    coded : PartFolder
        The data and the folder for the results.
    work : callable
        Takes the model, and then what the work of `PartFolder.encode_part` takes. It must be importable by a worker.
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
            fn_constructor_args=(os.path.abspath(model), coded.absolute(), work),
            concurrency=min(n_workers, len(missing)),
        )
        for item in encoded.iter_rows():
            advance(item["rows"])
    finally:
        if started_here:
            ray.shutdown()
