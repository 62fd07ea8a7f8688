"""What every estimator of the library has in common."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from numbers import Integral, Real
from typing import Any, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from sdlgm import train
from sdlgm.errors import TrainingDivergedError
from sdlgm.estimators import _modelfile
from sdlgm.estimators._inputs import Scaling, in_batches, usable_device
from sdlgm.estimators._targets import check_budget
from sdlgm.model.networks import ACTIVATIONS
from sdlgm.model.supervised import SupervisedModule
from sdlgm.train.batches import Rows

RandomState = int | np.random.RandomState | None

# Distributions of the number of labels, or of a count, have as many entries.
LARGEST_BUDGET = 10**4

# What scikit-learn notes when rows are validated for a fit.
_OF_THE_COLUMNS = ("n_features_in_", "feature_names_in_")

_BATCH = 1000
# Rows on which a run with targets is watched.
_WATCHED_ROWS = 100


# Of the parameters that all estimators have.
COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "hidden": [tuple, list],
    "activation": [StrOptions(set(ACTIVATIONS))],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "lr_decay": [Interval(Real, 0, 1, closed="both")],
    "checkpoint_dir": [str, os.PathLike, None],
    "checkpoint_every": [Interval(Integral, 1, None, closed="left")],
    "resume": ["boolean"],
    "random_state": ["random_state"],
    "device": [str],
    "verbose": ["verbose"],
}
# And of those that estimators with targets have.
SUPERVISED_CONSTRAINTS: dict[str, list[Any]] = {
    **COMMON_CONSTRAINTS,
    "max_active": [Interval(Integral, 1, LARGEST_BUDGET, closed="both"), None],
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
}


class TorchEstimator(BaseEstimator):
    """An estimator around a torch module: seeds, checkpoints, files."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    module_: Any
    n_iter_: int
    history_: list[train.Record]
    _fitting: Any

    random_state: RandomState
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_every: int
    resume: bool
    verbose: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file that `sdlgm.load` reads. The file holds numbers and settings, no code."""
        check_is_fitted(self)
        _modelfile.save(self, path)

    def _check_settings(self) -> None:
        """What `_parameter_constraints` cannot say."""
        if self.resume and self.checkpoint_dir is None:
            raise ValueError("resume=True needs a checkpoint_dir, to know where the checkpoint is")
        if self.resume and not isinstance(self.random_state, Integral):
            raise ValueError("resume=True needs an integer random_state, to know that the run is the same")
        for name in ("hidden", "gate_hidden"):
            widths = getattr(self, name, ())
            if not all(isinstance(width, Integral) and int(width) > 0 for width in widths):
                raise ValueError(f"{name}={widths!r}; it is a tuple of positive whole numbers")

    def _run(self, fitting: Any, batches: train.AnyBatches, monitor: Any, seed: int, callback: Any = None) -> Self:
        """Train, and make what comes of it the estimator's own; after a divergence, the last good parameters."""
        progress = train.Progress()
        try:
            train.fit(
                fitting.trainer,
                batches,
                monitor,
                progress,
                checkpoint=self._checkpoint(fitting.trainer, batches, seed),
                resume=bool(self.resume),
                visible=bool(self.verbose),
                callback=callback,
            )
        except TrainingDivergedError:
            if progress.history:  # otherwise nothing good has come of it, and the estimator stays what it was
                self._publish(fitting, progress.history)
            raise
        return self._publish(fitting, progress.history)

    def _publish(self, fitting: Any, history: list[train.Record]) -> Self:
        """Make what was fitted the estimator's own, all at once."""
        raise NotImplementedError

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A fit that fails before it has published anything leaves what the estimator knows of its columns alone."""
        known = {name: value for name, value in vars(self).items() if name in _OF_THE_COLUMNS}
        published = vars(self).get("_fitting")
        try:
            yield
        except BaseException:
            if vars(self).get("_fitting") is published:
                for name in _OF_THE_COLUMNS:
                    vars(self).pop(name, None)
                vars(self).update(known)
            raise

    def _seed_of(self, random_state: RandomState) -> int:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))

    def _generator_on(self, device: torch.device, random_state: RandomState) -> torch.Generator:
        seed = self._seed_of(self.random_state if random_state is None else random_state)
        return torch.Generator(device).manual_seed(seed)

    def _checkpoint(self, trainer: train.Trainer, batches: train.AnyBatches, seed: int) -> train.Checkpoint | None:
        if self.checkpoint_dir is None:
            return None
        # Through JSON a tuple becomes a list; the identity is compared after such a trip.
        config = asdict(trainer.module.config)
        model = {key: list(value) if isinstance(value, tuple) else value for key, value in config.items()}
        identity: dict[str, Any] = {**model, **asdict(trainer.config), "seed": seed, "data": batches.fingerprint()}
        return train.Checkpoint(self.checkpoint_dir, self.checkpoint_every, identity)

    # What a model file holds beside what all estimators have

    def _fitted_params(self) -> dict[str, Any]:
        """Settings as they were when the model was fitted."""
        return {}

    def _fitted_document(self) -> dict[str, Any]:
        """What was learned and is no tensor, as JSON knows it."""
        return {}

    def _fitted_tensors(self) -> dict[str, Tensor]:
        """What was learned beside the module and the scaling."""
        return {}

    def _module_of(self, document: dict[str, Any]) -> Callable[[], nn.Module]:
        """How to make the module that settings and document describe."""
        raise NotImplementedError

    def _restored(
        self,
        document: dict[str, Any],
        tensors: dict[str, Tensor],
        module: Any,
        scaling: Scaling,
        n_iter: int,
        seed: int,
        history: list[train.Record],
    ) -> Self:
        """The estimator as it was when it was saved."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "module_")


class SupervisedEstimator(TorchEstimator):
    """An estimator whose rows have targets."""

    max_active: int | None
    max_iter: int
    batch_size: int
    learning_rate: float
    lr_decay: float
    weight_decay: float
    device: str

    def _budget_for(self, targets: np.ndarray, what: str) -> int:
        """The budget that was set, or that of these targets; rows beyond it are refused."""
        largest = max(1, int(targets.sum(axis=1).max()))
        if largest > LARGEST_BUDGET:
            raise ValueError(f"a row of y adds up to {largest}; the largest budget is {LARGEST_BUDGET}")
        max_active = largest if self.max_active is None else int(self.max_active)
        check_budget(targets, max_active, what)
        return max_active

    def _train_config(self) -> train.TrainConfig:
        """For an objective in which nothing is relaxed."""
        return train.TrainConfig(
            max_iter=int(self.max_iter),
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            lr_decay=float(self.lr_decay),
            kl_warmup=0.0,
            final_temperature=None,
            learn_temperature=False,
            gradient="reinmax",
            n_samples=1,
            kl="exact",
            binarize=None,
            n_iter_no_change=None,
            weight_decay=float(self.weight_decay),
        )

    def _new_trainer(self, module: SupervisedModule, seed: int) -> train.SupervisedTrainer:
        device = usable_device(self.device)
        return train.SupervisedTrainer(module.to(device), self._train_config(), seed)

    def _run_on(self, fitting: Any, packed: np.ndarray, n_with_targets: int, seed: int) -> Self:
        """Train on packed rows, of which the first have targets."""
        watched = packed[np.random.default_rng(seed).permutation(n_with_targets)[:_WATCHED_ROWS]]
        batches = train.ShuffledBatches(packed, int(self.batch_size), seed)
        return self._run(fitting, batches, train.SupervisedMonitor(watched, seed), seed)

    def _validated(self, X, *, reset: bool) -> Rows:
        return cast(Rows, validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]))

    def _batches(self, rows: Rows) -> Iterator[Tensor]:
        for number, batch in enumerate(in_batches(rows, _BATCH)):
            values = self._fitting.scaling.apply_checked(batch, first_row=number * _BATCH)
            yield train.to_tensor(values, self._fitting.trainer.device)


def checked_budget(budget: Any) -> int:
    """A budget from a file."""
    if not isinstance(budget, int) or isinstance(budget, bool) or not 1 <= budget <= LARGEST_BUDGET:
        raise ValueError(f"the budget is {budget}")
    return budget


def checked_classes(classes: Any) -> np.ndarray:
    """Names or numbers of labels or classes from a file."""
    plain = isinstance(classes, list) and all(isinstance(name, str | int | float) for name in classes)
    if not plain or len(set(classes)) != len(classes):
        raise ValueError("the classes are not a list of different names or numbers")
    return np.array(classes, dtype=object if any(isinstance(name, str) for name in classes) else None)
