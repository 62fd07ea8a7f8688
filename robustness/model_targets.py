"""Models whose settings or weights were edited, with a right checksum.

`MODELS` names a small model of each kind. A target reads the settings as JSON, or a list of changes to the weights.
It puts them into the file of a model, loads it and calls every public method. Each may raise errors of sdlgm only.
"""

import functools
import json
import math
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors.torch import load, save

from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter, SDLGMError, _tensorfile
from sdlgm import load as load_model

_RNG = np.random.default_rng(0)
BINARY = (_RNG.random((12, 4)) > 0.5).astype(np.float64)
CONTINUOUS = _RNG.normal(size=(12, 4)) * 3
MIXED = np.column_stack([np.arange(12) % 3, BINARY[:, 0], _RNG.poisson(2, 12), CONTINUOUS[:, 0]])
MIXED[3, [0, 3]] = np.nan
PICTURES = _RNG.random((12, 8, 16))
LABELS = np.tile([[1, 0, 0], [0, 1, 1], [1, 0, 1], [0, 0, 0]], (3, 1))
COUNTS = np.tile([[1, 0], [0, 2], [1, 1]], (4, 1))

_SMALL = {"hidden": (3,), "max_iter": 2, "batch_size": 6, "random_state": 0}
_UNSUPERVISED = {**_SMALL, "n_components": 5, "max_active": 2, "gate_hidden": (2,)}
_PAPER = {"posterior": "shared", "kl": "paper", "gradient": "gumbel_softmax", "normalize_logits": False}
_PICTURES = {"channels": 2, "patch_size": 8}

MODELS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    **{
        f"{posterior}-{likelihood}": (functools.partial(SDLGM, **_UNSUPERVISED, posterior=posterior), rows)
        for posterior in ("chain", "subset", "ordered", "shared")
        for likelihood, rows in (("bernoulli", BINARY), ("gaussian", CONTINUOUS))
    },
    "paper": (functools.partial(SDLGM, **_UNSUPERVISED, **_PAPER), BINARY),
    **{
        f"classifier-{variant}": (
            functools.partial(SDLGMClassifier, **_SMALL, variant=variant, n_members=2),
            CONTINUOUS,
        )
        for variant in ("dis", "gen", "con")
    },
    **{
        f"classifier-{form}": (functools.partial(SDLGMClassifier, **_SMALL, likelihood=form), CONTINUOUS)
        for form in ("closed_form", "multinomial", "monte_carlo")
    },
    "classifier-trees": (functools.partial(SDLGMClassifier, **_SMALL, n_trees=2, threshold=0.4), CONTINUOUS),
    "counter-mlp": (functools.partial(SDLGMCounter, **_SMALL), CONTINUOUS),
    "counter-cnn": (functools.partial(SDLGMCounter, **_SMALL, **_PICTURES, encoder="cnn"), PICTURES),
    "counter-patches": (functools.partial(SDLGMCounter, **_SMALL, **_PICTURES, encoder="patches"), PICTURES),
    "mixed": (functools.partial(SDLGM, **_UNSUPERVISED, likelihood={0: "categorical"}), MIXED),
}
"""A model of each kind, and its rows."""


@functools.cache
def model_file(name: str) -> bytes:
    """Return the file of a model."""
    make, rows = MODELS[name]
    model = make()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two iterations learn nothing
        model.fit(*_with_targets(model, rows)).save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


def _with_targets(model: object, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    if isinstance(model, SDLGM):
        return (rows,)
    return rows, LABELS if isinstance(model, SDLGMClassifier) else COUNTS


def header_of(content: bytes) -> dict[str, Any]:
    """Return the header of a model file or a checkpoint."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"][_tensorfile.METADATA_KEY])


def with_document(content: bytes, document: object) -> bytes:
    """Return a file with another document and a right checksum."""
    return _sealed(header_of(content) | {"document": document}, load(content))


def with_tensors(content: bytes, tensors: dict[str, torch.Tensor]) -> bytes:
    """Return a file with other tensors and a right checksum."""
    return _sealed(header_of(content), tensors)


def _sealed(header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> bytes:
    header["sha256"] = _tensorfile.checksum(header, tensors)
    return save(tensors, {_tensorfile.METADATA_KEY: json.dumps(header)})


def answers(model: Any, rows: np.ndarray) -> Iterator[tuple[str, Callable[[], object]]]:
    """Iterate over the public methods of a model, each with its arguments."""
    given = _with_targets(model, rows)
    if isinstance(model, SDLGM):
        codes = sp.csr_matrix(np.eye(1, model.module_.config.n_features, dtype=np.int64))
        yield "transform", lambda: model.transform(rows)
        yield "candidates", lambda: model.transform(rows, n_candidates=2)
        if model.posterior == "ordered":
            yield "budget", lambda: model.transform(rows, budget=1)
        yield "transform_batches", lambda: list(model.transform_batches([rows]))
        yield "sample_codes", lambda: model.sample_codes(rows, random_state=0)
        yield "posterior_probs", lambda: model.posterior_probs(rows)
        yield "inverse_transform", lambda: model.inverse_transform(codes)
        yield "sample", lambda: model.sample(3, random_state=0)
        yield "elbo", lambda: model.elbo(rows, random_state=0)
        yield "compress", lambda: model.decompress(model.compress(rows))
        yield "to_messages", lambda: model.from_messages(model.to_messages(rows))
        yield "relaxed", lambda: model.elbo(rows, bound="relaxed", random_state=0)
        yield "importance", lambda: model.elbo(rows, n_importance=3, random_state=0)
    else:
        yield "predict", lambda: model.predict(rows)
        yield "predict_proba", lambda: model.predict_proba(rows)
    if isinstance(model, SDLGMClassifier):
        yield "predict_labels", lambda: model.predict_labels(rows)
        yield "predict_sparsity", lambda: model.predict_sparsity(rows)
        if model.variant != "dis":
            yield "sample", lambda: model.sample(LABELS, random_state=0)
    if isinstance(model, SDLGMCounter):
        yield "predict_mean", lambda: model.predict_mean(rows)
    yield "score", lambda: model.score(*given)
    yield "evaluate", lambda: model.evaluate(*given)


def numbers_of(answer: object) -> Iterator[np.ndarray]:
    """Iterate over the numbers of an answer."""
    if sp.issparse(answer):
        yield np.asarray(answer.data)  # pyright: ignore[reportAttributeAccessIssue]
    elif isinstance(answer, np.ndarray | float | int):
        yield np.asarray(answer)
    elif isinstance(answer, list | tuple):
        for part in answer:
            yield from numbers_of(part)
    elif hasattr(answer, "__dataclass_fields__"):
        yield from numbers_of(list(asdict(answer).values()))  # pyright: ignore[reportArgumentType]


def check_answers(content: bytes, rows: np.ndarray) -> int:
    """Load a file and call every method.

    Return the number of answers. Raise whatever is not an error of sdlgm, for a file that cannot be loaded or a method
    that cannot answer, and `AssertionError` for an answer that is not finite.
    """
    n_answers = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sdlgm"
        path.write_bytes(content)
        try:
            model = load_model(path)
        except SDLGMError as error:
            if str(path) not in str(error):
                raise AssertionError("the error does not name the file") from error
            return 0
        for name, ask in answers(model, rows):
            try:
                answer = ask()
            except SDLGMError:
                continue
            n_answers += 1
            for numbers in numbers_of(answer):
                assert numbers.dtype.kind not in "fc" or np.isfinite(numbers).all(), f"{name} is not finite"
    return n_answers


# Targets

_EDITED = (
    "chain-gaussian",
    "ordered-bernoulli",
    "paper",
    "classifier-con",
    "classifier-monte_carlo",
    "counter-patches",
)
_RECORD = struct.Struct("<HHf")


def _write_document(name: str, path: Path) -> None:
    path.write_text(json.dumps(header_of(model_file(name))["document"]))


def _read_document(name: str, path: Path) -> None:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return  # the file of a model is read by other targets
    check_answers(with_document(model_file(name), document), MODELS[name][1])


def _write_changes(path: Path) -> None:
    path.write_bytes(_RECORD.pack(0, 0, 1.0) + _RECORD.pack(1, 0, 3e38) + _RECORD.pack(2, 1, -1e-38))


def _read_changes(name: str, path: Path) -> None:
    """Set entries of tensors: each change is the number of a tensor, that of an entry, and a value."""
    content = path.read_bytes()
    usable = len(content) // _RECORD.size * _RECORD.size
    tensors = load(model_file(name))
    floating = [tensor for _, tensor in sorted(tensors.items()) if tensor.is_floating_point() and tensor.numel()]
    for number, entry, value in _RECORD.iter_unpack(content[:usable]):
        tensor = floating[number % len(floating)]
        tensor.view(-1)[entry % tensor.numel()] = value if math.isfinite(value) else 1.0
    check_answers(with_tensors(model_file(name), tensors), MODELS[name][1])


MODEL_TARGETS: dict[str, tuple[str, Callable[[Path], object], Callable[[Path], object]]] = {
    **{
        f"settings_{name}": (
            ".json",
            functools.partial(_write_document, name),
            functools.partial(_read_document, name),
        )
        for name in _EDITED
    },
    **{f"weights_{name}": (".bin", _write_changes, functools.partial(_read_changes, name)) for name in _EDITED},
}
"""By name: the ending of a file, how to write a valid one, and how to read one."""
