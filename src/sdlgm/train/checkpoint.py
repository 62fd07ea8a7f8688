"""Checkpoints: all that a run needs to end, bit for bit, where it would have ended uninterrupted."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sdlgm import _tensorfile
from sdlgm.errors import ModelFileError
from sdlgm.train.monitor import Record
from sdlgm.train.progress import Progress
from sdlgm.train.trainer import Trainer, parameters_of

KIND = "sdlgm-checkpoint"


class Checkpoint:
    """One file in ``folder``, replaced every ``every`` iterations.

    ``identity`` says what is being trained on which data; a checkpoint of something else is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int, identity: dict[str, Any]):
        self.path = Path(folder) / "checkpoint.safetensors"
        self.every = every
        self.identity = identity

    def save(self, trainer: Trainer, progress: Progress) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {f"module.{name}": tensor for name, tensor in parameters_of(trainer.module).items()}
        tensors |= {f"estimator.{name}": tensor for name, tensor in parameters_of(trainer.estimator).items()}
        for index, state in trainer.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": tensor.cpu().clone() for name, tensor in state.items()}
        tensors["generator"] = trainer.generator.get_state()
        if progress.best_parameters is not None:
            tensors |= {f"best.{name}": tensor for name, tensor in progress.best_parameters.items()}
        document = {
            "identity": self.identity,
            "iteration": trainer.iteration,
            "history": [asdict(record) for record in progress.history],
            "n_without_improvement": progress.n_without_improvement,
        }
        _tensorfile.write(self.path, KIND, document, tensors)

    def restore(self, trainer: Trainer, progress: Progress) -> None:
        """Bring trainer and progress to where the checkpoint was written."""
        document, tensors = _tensorfile.read(self.path, KIND)
        for key, value in self.identity.items():
            found = document.get("identity", {}).get(key)
            if found != value:
                raise ModelFileError(
                    f"{self.path}: was made with {key}={found!r}, this run has {value!r}; "
                    "continue with the same settings and data, or use another checkpoint folder"
                )
        try:
            trainer.module.load_state_dict(_tensorfile.under("module", tensors))
            trainer.estimator.load_state_dict(_tensorfile.under("estimator", tensors))
            self._restore_optimizer(trainer, _tensorfile.under("optimizer", tensors))
            trainer.generator.set_state(tensors["generator"])
            trainer.iteration = document["iteration"]
            progress.history = [Record(**record) for record in document["history"]]
            progress.n_without_improvement = document["n_without_improvement"]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelFileError(f"{self.path}: incomplete checkpoint ({error})") from error
        progress.best_parameters = _tensorfile.under("best", tensors) or None

    @staticmethod
    def _restore_optimizer(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = tensor
        groups = trainer.optimizer.state_dict()["param_groups"]
        trainer.optimizer.load_state_dict({"state": state, "param_groups": groups})
