"""Checkpoints: the state from which a run ends, bit for bit, where it would have ended uninterrupted."""

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sdlgm import _tensorfile
from sdlgm._files import check_folder, remove_temporary_files
from sdlgm._version import __version__
from sdlgm.errors import CheckpointError, ModelFileError
from sdlgm.train.adam import Moments
from sdlgm.train.lock import locked
from sdlgm.train.monitor import record_of
from sdlgm.train.progress import Progress
from sdlgm.train.trainer import Trainer, state_of

KIND = "sdlgm-checkpoint"
LARGEST = 2**53
"""Largest number of iterations of a run that only the time limits: JSON readers know no larger whole numbers."""


class Checkpoint:
    """One file in ``folder``, replaced every ``every`` iterations.

    ``identity`` describes the model, the options of training and the data. A checkpoint with another one is refused.
    Each phase of a fit has a file of its own.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int, identity: dict[str, Any], phase: str = "fit"):
        self.path = Path(folder) / ("checkpoint.safetensors" if phase == "fit" else f"checkpoint-{phase}.safetensors")
        self.every = every
        self.identity = identity
        self._last: int | None = None

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Make the folder, and keep other runs out of it in a block. Check at once that it can be written to.

        Half-written files of a killed run are removed; the folder belongs to one run.
        """
        folder = self.path.parent
        with contextlib.ExitStack() as stack:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(folder))
                remove_temporary_files(folder, self.path.suffix)
                check_folder(folder)
            except CheckpointError:
                raise
            except OSError as error:
                raise CheckpointError(
                    f"{folder}: checkpoints cannot be written there ({_reason(error)}); choose another checkpoint_dir"
                ) from error
            yield

    def save(self, trainer: Trainer, progress: Progress) -> None:
        """Write the checkpoint, whole or not at all."""
        tensors = {f"module.{name}": tensor for name, tensor in state_of(trainer.module).items()}
        tensors |= {f"estimator.{name}": tensor for name, tensor in state_of(trainer.estimator).items()}
        for index, state in trainer.optimizer.moments().items():
            tensors |= {f"optimizer.{index}.{name}": tensor.cpu() for name, tensor in state.items()}
        tensors["generator"] = trainer.generator.get_state()
        if progress.best_parameters is not None:
            tensors |= {f"best.{name}": tensor for name, tensor in progress.best_parameters.items()}
        document = {
            "identity": self.identity,
            "iteration": trainer.iteration,
            "seconds": trainer.seconds,
            "history": [asdict(record) for record in progress.history],
            "n_without_improvement": progress.n_without_improvement,
            "training": [trainer.training_sum, trainer.n_training_steps],
        }
        try:
            _tensorfile.write(self.path, KIND, document, tensors)
        except OSError as error:
            kept = "there is no earlier one"
            if self._last is not None and self.path.exists():
                kept = f"that of iteration {self._last} is intact"
            raise CheckpointError(
                f"{self.path}: the checkpoint of iteration {trainer.iteration} cannot be written ({_reason(error)}); "
                f"{kept}. Make room there, or choose another checkpoint_dir, and resume"
            ) from error
        self._last = trainer.iteration

    def restore(self, trainer: Trainer, progress: Progress) -> None:
        """Set trainer and progress to where the checkpoint was written."""
        content = _tensorfile.read(self.path, KIND)
        if content.written_by != __version__:
            raise ModelFileError(
                f"{self.path}: was written by sdlgm {content.written_by}, this is {__version__}; checkpoints belong to "
                "one version: continue with that one, or use another checkpoint folder"
            )
        document = content.document
        found_identity = document.get("identity")
        for key, value in self.identity.items():
            found = found_identity.get(key) if isinstance(found_identity, dict) else None
            if found != value:
                raise ModelFileError(
                    f"{self.path}: was made with {key}={found!r}, this run has {value!r}; "
                    "continue with the same settings and data, or use another checkpoint folder"
                )
        try:
            best, last = (content.under(name) for name in ("best", "module"))
            for state in (best, last) if best else (last,):  # the best ones too, to check that they fit
                trainer.module.load_state_dict(_tensorfile.check_finite(state))
            trainer.estimator.load_state_dict(_tensorfile.check_finite(content.under("estimator")))
            self._restore_optimizer(trainer, _tensorfile.check_finite(content.under("optimizer")))
            trainer.generator.set_state(content.tensors["generator"])
            most = trainer.config.max_iter or LARGEST
            trainer.iteration = _whole("iteration", document["iteration"], most)
            seconds = document["seconds"]
            if not (isinstance(seconds, float) and 0 <= seconds < math.inf):
                raise ValueError(f"seconds is {seconds!r}; it has to be a time")
            trainer.seconds += seconds
            progress.history = [record_of(values) for values in document["history"]]
            if any(not 0 < record.iteration <= trainer.iteration for record in progress.history):
                raise ValueError("a point of the training curves is of a later iteration")
            progress.n_without_improvement = _whole("n_without_improvement", document["n_without_improvement"], most)
            training_sum, n_steps = document["training"]
            if not math.isfinite(training_sum):
                raise ValueError("the sum of the training objectives is not finite")
            trainer.training_sum, trainer.n_training_steps = float(training_sum), _whole("training", n_steps, most)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
            raise ModelFileError(f"{self.path}: incomplete checkpoint ({error})") from error
        progress.best_parameters = best or None
        self._last = trainer.iteration

    @staticmethod
    def _restore_optimizer(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
        state: dict[int, Moments] = {}
        for name, tensor in tensors.items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = tensor
        parameters = trainer.trained()
        for index, of_parameter in state.items():
            if not 0 <= index < len(parameters):
                raise ValueError(f"optimizer.{index} belongs to no parameter")
            for name, tensor in of_parameter.items():
                expected = torch.Size() if name == "step" else parameters[index].shape
                if tensor.shape != expected:
                    raise ValueError(f"optimizer.{index}.{name} has the shape {tuple(tensor.shape)}")
        trainer.optimizer.load_moments(state)


def _whole(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r}; it has to be a whole number up to {most}")
    return value


def _reason(error: BaseException) -> str:
    error = error.__cause__ or error  # that of a `WriteError`
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
