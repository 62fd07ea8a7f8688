"""Fitted estimators to files and back."""

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sdlgm import _tensorfile
from sdlgm.errors import ModelFileError
from sdlgm.estimators._inputs import Scaling
from sdlgm.model import SDLGMModule
from sdlgm.train import Record, parameters_of

if TYPE_CHECKING:
    from sdlgm.estimators._sdlgm import SDLGM

KIND = "sdlgm-model"
# Settings of a run on some machine, not of the model.
_NOT_SAVED = {"checkpoint_dir", "resume", "verbose"}


def save(estimator: "SDLGM", path: str | os.PathLike[str]) -> None:
    """Settings as JSON, everything learned as tensors."""
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _NOT_SAVED}
    if not isinstance(params["random_state"], int | None):
        params["random_state"] = None  # the state of a generator that has moved on is of no use to a reader
    document = {
        "estimator": type(estimator).__name__,
        "params": {name: _plain(value) for name, value in params.items()},
        "likelihood": estimator.likelihood_,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "n_iter": estimator.n_iter_,
        "history": [asdict(record) for record in estimator.history_],
    }
    tensors = {f"module.{name}": tensor for name, tensor in parameters_of(estimator.module_).items()}
    tensors["scaling.location"] = torch.from_numpy(estimator._scaling.location)
    tensors["scaling.scale"] = torch.from_numpy(estimator._scaling.scale)
    _tensorfile.write(path, KIND, document, tensors)


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> "SDLGM":
    """Read a model that `SDLGM.save` wrote.

    The file is data: nothing in it is executed. A file that is truncated, foreign, of another version, or whose
    numbers do not fit its settings raises `ModelFileError`, which says what is wrong with it.
    """
    from sdlgm.estimators._sdlgm import SDLGM

    document, tensors = _tensorfile.read(path, KIND)
    try:
        if document["estimator"] != "SDLGM":
            raise ModelFileError(f"{path}: holds a {document['estimator']!r}, which this sdlgm does not know")
        estimator = SDLGM(**_arguments(document["params"], SDLGM), device=device)
        estimator._validate_params()
        estimator.likelihood_ = document["likelihood"]
        estimator.n_features_in_ = int(document["n_features_in"])
        estimator.n_iter_ = int(document["n_iter"])
        estimator.history_ = [Record(**record) for record in document["history"]]
        if document["feature_names_in"]:
            estimator.feature_names_in_ = np.array(document["feature_names_in"], dtype=object)
        estimator.module_ = _module(estimator, tensors).to(torch.device(device))
        estimator._scaling = _scaling(tensors, estimator.n_features_in_)
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path}: settings and content do not fit together ({_one_line(error)})") from error
    estimator._publish_prior()
    return estimator


def _module(estimator: "SDLGM", tensors: dict[str, Tensor]) -> SDLGMModule:
    """The module that the settings describe, filled from the file.

    It is first laid out without memory and compared with the file, so that settings alone cannot make the reader
    allocate more than the file holds.
    """
    config = estimator._model_config(estimator.n_features_in_)
    with torch.device("meta"):
        expected = SDLGMModule(config).state_dict()
    found = {name.removeprefix("module."): t for name, t in tensors.items() if name.startswith("module.")}
    for name, tensor in expected.items():
        if name not in found:
            raise ValueError(f"the tensor {name} is missing")
        if found[name].shape != tensor.shape or found[name].dtype != tensor.dtype:
            raise ValueError(
                f"the tensor {name} is {tuple(found[name].shape)} {found[name].dtype}, "
                f"expected {tuple(tensor.shape)} {tensor.dtype}"
            )
    with torch.random.fork_rng(devices=[]):
        module = SDLGMModule(config)
    module.load_state_dict(found)
    return module.eval()


def _scaling(tensors: dict[str, Tensor], n_features: int) -> Scaling:
    location, scale = tensors["scaling.location"].numpy(), tensors["scaling.scale"].numpy()
    if location.shape != (n_features,) or scale.shape != (n_features,) or not (scale > 0).all():
        raise ValueError("the scaling does not fit the number of features")
    return Scaling(location, scale)


def _arguments(params: Any, estimator: type["SDLGM"]) -> dict[str, Any]:
    known = set(estimator._get_param_names()) - _NOT_SAVED
    if set(params) != known:
        differing = sorted(set(params) ^ known)
        raise ValueError(f"unknown or missing settings: {', '.join(differing)}")
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
