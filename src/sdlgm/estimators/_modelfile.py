"""Fitted estimators to files and back."""

import os
from collections.abc import Callable
from dataclasses import asdict
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sdlgm import _tensorfile
from sdlgm.errors import ModelFileError
from sdlgm.estimators._inputs import Scaling, usable_device
from sdlgm.train import parameters_of, record_of

if TYPE_CHECKING:
    from sdlgm.estimators._base import TorchEstimator

KIND = "sdlgm-model"
# No network has so many layers, and to lay them out takes time.
_LONGEST = 1000
# Settings of a run on some machine, not of the model.
_NOT_SAVED = {"checkpoint_dir", "compile", "devices", "num_nodes", "resume", "strategy", "verbose"}


def save(estimator: "TorchEstimator", path: str | os.PathLike[str]) -> None:
    """Settings as JSON, everything learned as tensors."""
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _NOT_SAVED}
    if not isinstance(params["random_state"], Integral):
        params["random_state"] = None  # the state of a generator that has moved on is of no use to a reader
    params |= estimator._fitted_params()  # what was fitted counts, not what set_params has changed since
    params = {name: _plain(value) for name, value in params.items()}
    try:
        _unfitted(type(estimator), params, params["device"])
    except ValueError as error:
        raise ValueError(
            f"the settings have changed since the fit, and the model could not be read: {error}"
        ) from error
    scaling = estimator._fitting.scaling
    document = {
        "estimator": type(estimator).__name__,
        "params": params,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "n_iter": estimator.n_iter_,
        "history": [asdict(record) for record in estimator.history_],
        **estimator._fitted_document(),
    }
    tensors = {f"module.{name}": tensor for name, tensor in parameters_of(estimator.module_).items()}
    tensors |= estimator._fitted_tensors()
    tensors["scaling.location"] = torch.from_numpy(scaling.location)
    tensors["scaling.scale"] = torch.from_numpy(scaling.scale)
    _tensorfile.write(path, KIND, document, tensors)


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> Any:
    """Read a model that the ``save`` of an `SDLGM`, `SDLGMClassifier` or `SDLGMCounter` wrote.

    The file is data: nothing in it is executed. A file that is truncated, foreign, of another version, or whose
    numbers do not fit its settings raises `ModelFileError`, which says what is wrong with it. The state of the
    optimiser is not part of a model: `partial_fit` starts with a fresh one.
    """
    from sdlgm.estimators import SDLGM, SDLGMClassifier, SDLGMCounter

    known: dict[str, type[TorchEstimator]] = {kind.__name__: kind for kind in (SDLGM, SDLGMClassifier, SDLGMCounter)}
    target = usable_device(device)
    document, tensors = _tensorfile.read(path, KIND)
    try:
        if document["estimator"] not in known:
            raise ModelFileError(f"{path}: holds a {document['estimator']!r}, which this sdlgm does not know")
        kind = known[document["estimator"]]
        estimator = _unfitted(kind, document["params"], device)
        estimator.n_features_in_ = int(document["n_features_in"])
        names = document["feature_names_in"]
        if names:
            if len(names) != estimator.n_features_in_:
                raise ValueError(f"{len(names)} column names for {estimator.n_features_in_} columns")
            estimator.feature_names_in_ = np.array(names, dtype=object)
        module = _filled(estimator._module_of(document), tensors).to(target)
        n_iter = int(document["n_iter"])
        # Other noise than the iterations that went before.
        seed = np.random.SeedSequence([int(document["params"]["random_state"] or 0), n_iter]).generate_state(1)
        history = [record_of(values) for values in document["history"]]
        scaling = _scaling(tensors, estimator.n_features_in_)
        return estimator._restored(document, tensors, module, scaling, n_iter, int(seed[0]), history)
    except ModelFileError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path}: settings and content do not fit together ({_one_line(error)})") from error


def _unfitted(kind: type["TorchEstimator"], params: Any, device: str) -> Any:
    """An estimator with the settings of a file, which are checked as those of users are."""
    estimator: Any = kind(**_arguments(params, kind) | {"device": device})
    estimator._validate_params()
    estimator._check_settings()
    return estimator


def _filled(make: Callable[[], nn.Module], tensors: dict[str, Tensor]) -> Any:
    """The module that the settings describe, filled from the file.

    It is laid out without memory, compared with the file and given the file's tensors, so that settings alone cannot
    make the reader allocate more than the file holds.
    """
    with torch.device("meta"):
        module = make()
    expected = module.state_dict()
    found = _tensorfile.under("module", tensors)
    for name, tensor in expected.items():
        if name not in found:
            raise ValueError(f"the tensor {name} is missing")
        if found[name].shape != tensor.shape or found[name].dtype != tensor.dtype:
            raise ValueError(
                f"the tensor {name} is {tuple(found[name].shape)} {found[name].dtype}, "
                f"expected {tuple(tensor.shape)} {tensor.dtype}"
            )
        _tensorfile.finite({name: found[name]})
        if name.endswith("running_var") and bool((found[name] < 0).any()):
            raise ValueError(f"the tensor {name} has negative variances")
    module.load_state_dict(found, assign=True)
    return module.eval()


def _scaling(tensors: dict[str, Tensor], n_features: int) -> Scaling:
    location, scale = tensors["scaling.location"].numpy(), tensors["scaling.scale"].numpy()
    fits = location.shape == scale.shape == (n_features,) and location.dtype == scale.dtype == np.float64
    if not fits or not np.isfinite(location).all() or not np.isfinite(scale).all() or not (scale >= 0).all():
        raise ValueError("the scaling does not fit the number of features")
    return Scaling(location, scale)


def _arguments(params: Any, estimator: type["TorchEstimator"]) -> dict[str, Any]:
    known = set(estimator._get_param_names()) - _NOT_SAVED
    if set(params) != known:
        differing = sorted(set(params) ^ known)
        raise ValueError(f"unknown or missing settings: {', '.join(differing)}")
    if any(isinstance(value, list) and len(value) > _LONGEST for value in params.values()):
        raise ValueError(f"a setting has more than {_LONGEST} values")
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in params.items()}
    del arguments["device"]
    return arguments


def _plain(value: Any) -> Any:
    """A setting as JSON knows it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
