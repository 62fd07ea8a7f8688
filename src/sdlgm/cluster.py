"""Encoding of large tables on several machines, through Ray Data."""

import os
from collections.abc import Callable
from typing import Any

from sdlgm.data import CodedParts
from sdlgm.errors import DataError


class PartEncoder:
    """In a worker: a model, loaded once, that codes parts of the data and writes them."""

    def __init__(self, model: str, coded: CodedParts, options: dict[str, Any]):
        import torch

        from sdlgm import load

        torch.set_num_threads(1)
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
    """What `CodedParts.encode` does, by ``n_workers`` workers of a Ray cluster, each with the model in memory.

    Model, data and folder have to be where every machine finds them under the same path. Ray starts on this machine
    unless it runs already, or ``RAY_ADDRESS`` says where.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]  (an extra)
        import ray.data  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise DataError("Ray is not installed; pip install 'sdlgm[ray]', or use the local engine") from error
    missing = coded.prepare()
    done = len(coded.rows) - sum(coded.rows.parts[number].n_rows for number in missing)
    advance(done)
    if not missing:
        return
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        work = ray.data.from_items([{"part": number} for number in missing], override_num_blocks=len(missing)).map(
            PartEncoder,  # pyright: ignore[reportArgumentType]
            fn_constructor_args=(os.path.abspath(model), coded.absolute(), options),
            concurrency=min(n_workers, len(missing)),
        )
        for item in work.iter_rows():
            advance(item["rows"])
    finally:
        if started_here:
            ray.shutdown()
