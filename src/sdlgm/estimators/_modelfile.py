"""Fitted estimators to files and back."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from sdlgm import _tensorfile
from sdlgm._fileheader import MODEL
from sdlgm.data import Schema
from sdlgm.errors import ModelFileError
from sdlgm.estimators._checks import check_count, usable_device
from sdlgm.estimators._fitted import Fitted
from sdlgm.estimators._limits import MOST_LAYERS
from sdlgm.estimators._migrations import migrate
from sdlgm.estimators._preparation import Scaling
from sdlgm.model.modules import TrainableModule
from sdlgm.train import record_of, state_of

if TYPE_CHECKING:
    from sdlgm.estimators._base import TorchEstimator

# Longest message of another library that is repeated in an error.
_LONGEST_REASON = 500
# Settings of a run on some machine, not of the model.
_NOT_SAVED = {"checkpoint_dir", "compile", "devices", "max_time", "num_nodes", "resume", "strategy", "verbose"}

LOADABLE: "dict[str, type[TorchEstimator]]" = {}
"""The estimators that a file may hold, by the name of their class."""


class Wrapper(ABC):
    """An estimator around another one. Its file is that of the other one with a section more."""

    inner: ClassVar[str]
    """Name of the class of the other estimator."""

    @abstractmethod
    def _content(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the section: what is JSON, and tensors."""

    @classmethod
    @abstractmethod
    def _around(cls, model: Any, section: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        """Return the wrapper of a file around the model in it, or raise ValueError for a section that does not fit."""


WRAPPERS: dict[str, type[Wrapper]] = {}
"""The wrappers that a file may hold, by the name of their class."""

_Class = TypeVar("_Class", bound=type)


def loadable(estimator: _Class) -> _Class:
    """Let `load` read files of an estimator."""
    LOADABLE[estimator.__name__] = estimator
    return estimator


def loadable_around(name: str) -> Callable[[_Class], _Class]:
    """Let `load` read files of an estimator around another one, whose class has this name."""

    def register(wrapper: _Class) -> _Class:
        assert issubclass(wrapper, Wrapper)
        wrapper.inner = name
        WRAPPERS[wrapper.__name__] = wrapper
        return wrapper

    return register


def save(estimator: "TorchEstimator", path: str | os.PathLike[str], around: "Wrapper | None" = None) -> None:
    """Write settings as JSON and everything learned as tensors; also the section of a wrapper ``around`` it."""
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _NOT_SAVED}
    if not isinstance(params["random_state"], Integral):
        params["random_state"] = None  # the state of a used generator is not part of a file
    params |= estimator._fitted_params()  # the settings of the fit, whatever set_params has changed since
    params = {name: _as_json(value) for name, value in params.items()}
    try:
        _new_estimator(type(estimator), params, params["device"])
    except ValueError as error:
        raise ValueError(
            f"the settings have changed since the fit, and the model could not be read: {error}"
        ) from error
    fitted = estimator._fitted
    document = {
        "estimator": type(estimator if around is None else around).__name__,
        "params": params,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "n_iter": fitted.n_iter,
        "history": [asdict(record) for record in fitted.history],
        **estimator._fitted_document(),
    }
    if estimator.schema_ is not None:
        document["schema"] = estimator.schema_.to_document()
    tensors = {f"module.{name}": tensor for name, tensor in state_of(fitted.module).items()}
    tensors |= estimator._fitted_tensors()
    tensors["scaling.location"] = torch.from_numpy(fitted.scaling.location)
    tensors["scaling.scale"] = torch.from_numpy(fitted.scaling.scale)
    if around is not None:
        section, own_tensors = around._content()
        document["wrapper"], tensors = section, tensors | own_tensors
    _tensorfile.write(path, MODEL, document, tensors)


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> Any:
    """Read a model that the ``save`` of an estimator wrote.

    The file is data: nothing in it is executed. Files of earlier versions load and answer as they did. The state of the
    optimiser is not part of a model: ``partial_fit`` begins with a fresh one.

    Parameters
    ----------
    path : path
    device : str, default="cpu"
        Any torch device.

    Returns
    -------
    estimator : SDLGM, SDLGMDetector, SDLGMClassifier or SDLGMCounter

    Raises
    ------
    ModelFileError
        If the file is truncated, damaged, foreign, of a later version, or if its numbers do not fit its settings.

    """
    target = usable_device(device)
    content = _tensorfile.read(path, MODEL)
    document = content.document
    try:
        name = document["estimator"]
        if name not in (*LOADABLE, *WRAPPERS):
            raise ModelFileError(f"{path}: holds a {name!r}, which this sdlgm does not know")
        wrapper = WRAPPERS.get(name)
        name = name if wrapper is None else wrapper.inner
        params = migrate(name, document["params"], content.written_by)
        estimator = _new_estimator(LOADABLE[name], params, device)
        check_count("n_features_in", document["n_features_in"], 1)
        estimator.n_features_in_ = document["n_features_in"]
        names = document["feature_names_in"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("feature_names_in is not a list of names")
        if names:
            if len(names) != estimator.n_features_in_:
                raise ValueError(f"{len(names)} column names for {estimator.n_features_in_} columns")
            estimator.feature_names_in_ = np.array(names, dtype=object)
        if "schema" in document:  # files of models of arrays and of earlier versions have none
            estimator.schema_ = _schema(document["schema"], estimator.n_features_in_, names)
        check_count("n_iter", document["n_iter"], 0)
        fitted = Fitted(
            module=_fill(estimator, document, content.under("module")).to(target),
            scaling=_scaling(content.tensors, estimator.n_features_in_),
            device=target,
            n_iter=document["n_iter"],
            history=tuple(record_of(values) for values in document["history"]),
        )
        model = estimator._restore(fitted, document, content.tensors)
        return model if wrapper is None else wrapper._around(model, document["wrapper"], content.tensors)
    except ModelFileError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path}: settings and content do not fit together ({_one_line(error)})") from error


def _new_estimator(kind: "type[TorchEstimator]", params: dict[str, Any], device: str) -> "TorchEstimator":
    """Return an estimator with the settings of a file, which are checked as those of users are."""
    estimator = kind(**_arguments(params, kind) | {"device": device})
    estimator._validate_params()
    estimator._check_settings()
    return estimator


def _fill(estimator: "TorchEstimator", document: dict[str, Any], tensors: dict[str, Tensor]) -> TrainableModule:
    """Return the module that the settings describe with the tensors of the file.

    It is first made without memory and compared with the file, so that settings alone cannot make the reader allocate
    more than the file holds.
    """
    estimator._check_sizes(document, tensors)
    make = estimator._module_factory(document)
    names = ("n_features_in_", *estimator._sizes)
    sizes = ", ".join(f"{name.removesuffix('_')}={getattr(estimator, name)!r}" for name in names)
    try:
        with torch.device("meta"):
            module = make()
    except (RuntimeError, OverflowError, TypeError) as error:
        raise ValueError(f"no tensor can be as large as {sizes} say ({_one_line(error)})") from error
    for name, expected in module.state_dict().items():
        if name not in tensors:
            raise ValueError(f"the tensor {name} is missing")
        found = tensors[name]
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise ValueError(
                f"the tensor {name} is {tuple(found.shape)} {found.dtype}, "
                f"expected {tuple(expected.shape)} {expected.dtype} for {sizes}"
            )
        _tensorfile.check_finite({name: found})
        if name.endswith("running_var") and bool((found < 0).any()):
            raise ValueError(f"the tensor {name} has negative variances")
    module.load_state_dict(tensors, assign=True)
    return module.eval()


def _schema(document: object, n_features: int, names: list[str]) -> Schema:
    schema = Schema.from_document(document)
    if schema.n_features != n_features or list(schema.feature_names) != names:
        raise ValueError(f"the schema has {schema.n_features} columns that are not the {n_features} of the model")
    return schema


def _scaling(tensors: dict[str, Tensor], n_features: int) -> Scaling:
    location, scale = tensors["scaling.location"].numpy(), tensors["scaling.scale"].numpy()
    fits = location.shape == scale.shape == (n_features,) and location.dtype == scale.dtype == np.float64
    if not fits or not np.isfinite(location).all() or not np.isfinite(scale).all() or not (scale >= 0).all():
        raise ValueError("the scaling does not fit the number of features")
    return Scaling(location, scale)


def _arguments(params: dict[str, Any], estimator: "type[TorchEstimator]") -> dict[str, Any]:
    """Return the arguments of a constructor from the settings of a file; raise if one is unknown or missing."""
    known = set(estimator._get_param_names()) - _NOT_SAVED
    unknown, missing = sorted(set(params) - known), sorted(known - set(params))
    if unknown:
        raise ValueError(f"unknown settings: {', '.join(unknown)}")
    if missing:
        raise ValueError(f"missing settings: {', '.join(missing)}")
    if any(isinstance(value, list) and len(value) > MOST_LAYERS for value in params.values()):
        longest = max(params, key=lambda name: len(params[name]) if isinstance(params[name], list) else 0)
        raise ValueError(f"{longest} has {len(params[longest])} entries; it may have {MOST_LAYERS}")
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in params.items()}
    del arguments["device"]
    return arguments


def _as_json(value: Any) -> Any:
    """Return a setting as JSON knows it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_as_json(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _as_json(part) for key, part in value.items()}
    return value


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]} ..."
