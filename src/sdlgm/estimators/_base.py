"""The common part of all estimators: settings, training, files."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Literal, Self, TypedDict, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from sdlgm import train
from sdlgm.data import Schema
from sdlgm.errors import FitInterruptedWarning, TrainingDivergedError
from sdlgm.estimators import _modelfile
from sdlgm.estimators._compat import Interval, StrOptions
from sdlgm.estimators._fitted import Fitted
from sdlgm.estimators._limits import LARGEST_BUDGET, MOST_LAYERS
from sdlgm.estimators._profile import in_proportion
from sdlgm.estimators._targets import check_budget
from sdlgm.model.modules import TrainableModule
from sdlgm.model.modules.base import Batch
from sdlgm.model.networks.layers import ACTIVATIONS
from sdlgm.model.noise import Noise
from sdlgm.train.batches import Rows, TargetMatrix, make_batch
from sdlgm.train.trainer import Module

RandomState = int | np.random.RandomState | None

# Rows on which a run with targets is watched.
WATCHED_ROWS = 100

# Attributes that are set when rows are validated for a fit.
_COLUMN_ATTRIBUTES = ("n_features_in_", "feature_names_in_", "schema_")

COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "hidden": [tuple, list],
    "activation": [StrOptions(set(ACTIVATIONS))],
    "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "lr_decay": [Interval(Real, 0, 1, closed="both")],
    "checkpoint_dir": [str, os.PathLike, None],
    "checkpoint_every": [Interval(Integral, 1, None, closed="left")],
    "resume": ["boolean"],
    "random_state": ["random_state"],
    "device": [str],
    "verbose": ["verbose"],
}
"""Constraints of the parameters that all estimators have."""
SUPERVISED_CONSTRAINTS: dict[str, list[Any]] = {
    **COMMON_CONSTRAINTS,
    "max_active": [Interval(Integral, 1, LARGEST_BUDGET, closed="both"), None],
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
}
"""Constraints of the parameters that estimators with targets have."""

FittedModel = TypeVar("FittedModel", bound=Fitted)


class Limits(TypedDict):
    """The limits of a run, as `TrainConfig` has them."""

    max_iter: int | None
    max_time: float | None


@dataclass(frozen=True)
class HeldOut:
    """Rows with targets that a run is watched on."""

    rows: Rows
    y: TargetMatrix


class TorchEstimator(BaseEstimator, Generic[FittedModel]):
    """An estimator around a torch module: settings, seeds, training, checkpoints, files.

    The fitted state is one frozen object, ``_fitted``. A trainer exists only during `fit`, and between two calls of
    ``partial_fit``.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    schema_: Schema | None = None
    n_iter_: int
    history_: list[train.Record]
    interrupted_: bool
    _fitted: FittedModel
    _trainer: train.Trainer | None = None
    """That of the last `partial_fit`."""
    _sizes: ClassVar[tuple[str, ...]] = ("hidden",)
    """Parameters that the shapes of the tensors follow from."""
    _default_max_iter: ClassVar[int]
    """What ``max_iter="auto"`` is without ``max_time``."""

    hidden: tuple[int, ...] | Literal["auto"]
    max_iter: int | Literal["auto"]
    max_time: float | None
    random_state: RandomState
    device: str
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_every: int
    resume: bool
    verbose: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file that `sdlgm.load` reads.

        The file holds numbers and settings, no code.

        Parameters
        ----------
        path : path
            Conventionally ends with ``.sdlgm``.

        """
        check_is_fitted(self)
        _modelfile.save(self, path)

    def _check_settings(self) -> None:
        """Raise for settings that `_parameter_constraints` cannot express."""
        if self.resume and self.checkpoint_dir is None:
            raise ValueError("resume=True needs a checkpoint_dir, to know where the checkpoint is")
        if self.resume and not isinstance(self.random_state, Integral):
            raise ValueError("resume=True needs an integer random_state, to know that the run is the same")
        if not isinstance(self.hidden, str):
            check_widths("hidden", self.hidden)

    # Training

    def _run(
        self,
        fitted: FittedModel,
        trainer: train.Trainer[Module],
        batches: train.Batches,
        monitor: train.Monitor,
        callback: Callable[[Module, int], None] | None = None,
        start: float | None = None,
        phase: str = "fit",
    ) -> Self:
        """Train the module of ``fitted`` in place and publish it; after a divergence, with the last good parameters."""
        progress = train.Progress()
        try:
            train.fit(
                trainer,
                batches,
                monitor,
                progress,
                checkpoint=self._checkpoint(trainer, batches, phase),
                resume=bool(self.resume),
                visible=bool(self.verbose),
                callback=callback,
                start=start,
                phase=phase,
            )
        except TrainingDivergedError:
            if progress.history:  # otherwise there is nothing good to publish
                self._publish(_after(fitted, trainer, progress))
            raise
        self._publish(_after(fitted, trainer, progress))
        self.interrupted_ = progress.interrupted
        return self

    def _limits(self) -> Limits:
        """Return the limits of a run."""
        if self.max_time is None:
            return {"max_iter": self._iterations(), "max_time": None}
        only_time = self.max_iter == "auto"
        return {"max_iter": None if only_time else self._iterations(), "max_time": float(self.max_time)}

    def _iterations(self) -> int:
        """Return ``max_iter``, and for ``"auto"`` what it is without ``max_time``."""
        return self._default_max_iter if self.max_iter == "auto" else int(self.max_iter)

    def _one_pass(
        self,
        fitted: FittedModel,
        config: train.TrainConfig,
        batches: Callable[[train.Trainer], Iterable[Batch]],
        monitor: train.Monitor,
        seed: int,
    ) -> tuple[train.Trainer, train.Record]:
        """Train the module of ``fitted`` on some batches, or leave it as it was if that fails.

        Returns the trainer, which the next pass continues with, and a point of the training curves.
        """
        trainer = self._trainer or self._new_trainer(fitted, config, seed)
        before = trainer.snapshot()
        try:
            trainer.configure(config)
            for batch in batches(trainer):
                trainer.step(batch)
            trainer.check_finite()
            record = monitor(trainer)
            record.check_finite()
        except BaseException:  # a divergence, or Ctrl-C
            trainer.go_back(before)
            trainer.module.eval()
            raise
        return trainer, record

    def _new_trainer(self, fitted: FittedModel, config: train.TrainConfig, seed: int) -> train.Trainer:
        """Return a trainer for a model without one, with other noise than its earlier iterations had."""
        if fitted.n_iter:
            own = int(self.random_state) if isinstance(self.random_state, Integral) else 0
            seed = int(np.random.SeedSequence([own, fitted.n_iter]).generate_state(1)[0])
        return train.Trainer(fitted.module, config, seed, iteration=fitted.n_iter)

    def _checkpoint(self, trainer: train.Trainer, batches: train.Batches, phase: str) -> train.Checkpoint | None:
        if self.checkpoint_dir is None:
            return None
        # JSON turns a tuple into a list, and the identity is compared after a JSON round trip.
        settings = trainer.module.settings()
        model = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
        options = asdict(trainer.config)
        identity = {**model, **options, "seed": trainer.seed, "data": batches.fingerprint()}
        return train.Checkpoint(self.checkpoint_dir, self.checkpoint_every, identity, phase)

    def _publish(self, fitted: FittedModel) -> Self:
        """Set the fitted state and the public attributes, all at once."""
        fitted.module.eval()
        fitted.module.zero_grad()  # frees the memory of the last gradients
        self._fitted = fitted
        self._trainer = None  # one of an earlier model
        self.n_iter_ = fitted.n_iter
        self.history_ = list(fitted.history)
        self.interrupted_ = False
        return self

    def _warn(self, problem: str | None, stacklevel: int) -> None:
        """Warn if a fit ended early or did not work; ``stacklevel`` is that of the line that called it, from here."""
        if self.interrupted_:
            limits = self._limits()
            of = "" if limits["max_iter"] is None else f" of {limits['max_iter']}"
            warnings.warn(
                f"stopped by Ctrl-C after {self.n_iter_}{of} iterations, and the model has what was learned until "
                "then; to continue such a run later, fit with checkpoint_dir and resume=True",
                FitInterruptedWarning,
                stacklevel=stacklevel,
            )
        if problem is not None:
            warnings.warn(problem, ConvergenceWarning, stacklevel=stacklevel)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the attributes of the columns if a fit fails before it has published anything."""
        known = {name: value for name, value in vars(self).items() if name in _COLUMN_ATTRIBUTES}
        published = vars(self).get("_fitted")
        try:
            yield
        except BaseException:
            if vars(self).get("_fitted") is published:
                for name in _COLUMN_ATTRIBUTES:
                    vars(self).pop(name, None)
                vars(self).update(known)
            raise

    # Randomness

    def _seed_of(self, random_state: RandomState) -> int:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))

    def _noise(self, random_state: RandomState) -> Noise:
        """Return the noise of a method call, by default that of the estimator's own ``random_state``."""
        seed = self._seed_of(self.random_state if random_state is None else random_state)
        return Noise.seeded(seed, self._fitted.device)

    # Content of a model file that differs between estimators

    def _fitted_params(self) -> dict[str, Any]:
        """Return settings as they were when the model was fitted."""
        return {}

    def _fitted_document(self) -> dict[str, Any]:
        """Return what was learned and is not a tensor, as JSON."""
        return {}

    def _fitted_tensors(self) -> dict[str, Tensor]:
        """Return learned tensors that belong to neither the module nor the scaling."""
        return {}

    def _module_factory(self, document: dict[str, Any]) -> Callable[[], TrainableModule]:
        """Return a function that makes the module of settings and document."""
        raise NotImplementedError

    def _check_sizes(self, document: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Raise if sizes that making the module takes memory for are not those of the tensors of a file."""

    def _restore(self, base: Fitted, document: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        """Publish the fitted model of a file."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __getstate__(self) -> dict[str, Any]:
        """Leave the trainer out of pickles and copies; `partial_fit` then begins with a fresh optimiser."""
        state = cast(dict[str, Any], super().__getstate__())
        return {name: value for name, value in state.items() if name != "_trainer"}


class SupervisedEstimator(TorchEstimator[FittedModel]):
    """An estimator whose rows have targets."""

    max_active: int | None
    batch_size: int
    learning_rate: float
    lr_decay: float
    weight_decay: float | Literal["auto"]

    def _budget_for(self, targets: TargetMatrix, unit: str) -> int:
        """Return the budget that was set, or that of these targets; raise for rows beyond it."""
        largest = max(1, int(targets.sum(axis=1).max()))
        if largest > LARGEST_BUDGET:
            raise ValueError(f"a row of y adds up to {largest}; the largest budget is {LARGEST_BUDGET}")
        max_active = largest if self.max_active is None else int(self.max_active)
        check_budget(targets, max_active, unit)
        return max_active

    def _weight_decay(self, n_rows: int | None) -> float:
        """Return the weight decay for a number of training rows, None if it is not known."""
        return float(self.weight_decay)

    def _train_config(self, n_rows: int | None = None) -> train.TrainConfig:
        """Return the options of training for an objective without draws."""
        return train.TrainConfig(
            **self._limits(),
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
            weight_decay=self._weight_decay(n_rows),
        )

    def _train(
        self,
        fitted: FittedModel,
        rows: Rows,
        targets: train.Targets,
        seed: int,
        weights: np.ndarray | None = None,
        held_out: HeldOut | None = None,
    ) -> Self:
        """Train on rows, of which the first ones have known targets; watch some of those, or the ones held out."""
        prepare = fitted.scaling.apply
        n_known = int(targets.known.sum())
        rng = np.random.default_rng(seed)
        of_known = None if weights is None else weights[:n_known]
        if held_out is not None:
            watched = held_out
        else:
            places = rng.permutation(n_known)
            if of_known is None:
                places = places[:WATCHED_ROWS]
            else:
                places = places[in_proportion(of_known[places], min(WATCHED_ROWS, n_known), rng)]
            watched = HeldOut(cast(Rows, rows[places]), cast(TargetMatrix, targets.y[places]))
        own = None if weights is None else weights / weights.mean()
        batches = train.ShuffledBatches(rows, int(self.batch_size), seed, prepare, targets, own)
        monitor = train.Monitor(watched.rows, seed, prepare=prepare, targets=watched.y)
        trainer = train.Trainer(fitted.module, self._train_config(rows.shape[0]), seed)
        baseline = train.frequency_log_prob(cast(TargetMatrix, targets.y[:n_known]), watched.y, of_known)
        # Training begins at the frequencies, as far as the model can have them.
        uninformed = min(baseline, monitor(trainer).discrete)
        self._run(fitted, trainer, batches, monitor)
        problem = None
        if not self.interrupted_:
            problem = train.convergence_problem(self.history_, baseline=baseline, uninformed=uninformed)
        self._warn(problem, stacklevel=6)
        return self

    def _train_one_pass(
        self, fitted: FittedModel, rows: Rows, y: TargetMatrix, seed: int, weights: np.ndarray | None
    ) -> Self:
        """Train on one pass over rows in the order given, and publish the model."""
        config = replace(self._train_config(), lr_decay=0.0, max_iter=self._iterations(), max_time=None)
        n_rows = rows.shape[0]
        n_batches = max(1, n_rows // int(self.batch_size))
        places = np.array_split(np.arange(n_rows), n_batches)
        own = None if weights is None else (weights / weights.mean()).astype(np.float32)

        def batches(trainer: train.Trainer) -> Iterator[Batch]:
            for part in places:
                x = fitted.scaling.apply(cast(Rows, rows[part]))
                targets = train.Targets.all_known(cast(TargetMatrix, y[part]))
                batch = make_batch(x, targets, trainer.device)
                yield batch if own is None else replace(batch, weight=train.to_tensor(own[part], trainer.device))

        watched = np.arange(n_rows)[:WATCHED_ROWS]
        if weights is not None:
            watched = watched[in_proportion(weights[watched], len(watched), np.random.default_rng(seed))]
        watched_rows = cast(Rows, rows[watched])
        monitor = train.Monitor(
            watched_rows, seed, prepare=fitted.scaling.apply, targets=cast(TargetMatrix, y[watched])
        )
        trainer, record = self._one_pass(fitted, config, batches, monitor, seed)
        self._publish(replace(fitted, n_iter=trainer.iteration, history=(*fitted.history, record)))
        self._trainer = trainer
        return self

    def _check_same_model(self, max_active: int) -> None:
        """Raise if settings of the fitted model, as opposed to its training, have changed."""
        there = {**self._fitted_params(), "max_active": max_active}
        for name, value in there.items():
            own = getattr(self, name)
            if name == "max_active" and own is None:
                continue
            if (tuple(own) if isinstance(own, list) else own) != (tuple(value) if isinstance(value, list) else value):
                raise ValueError(f"the model has {name}={value!r}, which partial_fit cannot change; use fit")

    def _validate_rows(self, X: Any, *, reset: bool) -> Rows:
        return cast(Rows, validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]))


def _after(fitted: FittedModel, trainer: train.Trainer, progress: train.Progress) -> FittedModel:
    """Return a model with what a run has done."""
    return replace(fitted, n_iter=trainer.iteration, history=(*fitted.history, *progress.history))


def check_widths(name: str, widths: object) -> None:
    """Raise if the widths of hidden layers are not positive whole numbers."""
    widths = cast(tuple[object, ...], widths)
    if len(widths) > MOST_LAYERS:
        raise ValueError(f"{name} has {len(widths)} entries; it may have {MOST_LAYERS}")
    if not all(isinstance(width, Integral) and int(width) > 0 for width in widths):
        raise ValueError(f"{name}={widths!r}; it has to be a tuple of positive whole numbers")


def checked_budget(budget: object, max_active: int | None) -> int:
    """Return the budget in use from a file whose setting is ``max_active``, or raise."""
    if not isinstance(budget, int) or isinstance(budget, bool) or not 1 <= budget <= LARGEST_BUDGET:
        raise ValueError(f"budget={budget!r}; it has to be a whole number from 1 to {LARGEST_BUDGET}")
    if max_active not in (None, budget):
        raise ValueError(f"budget={budget}, and max_active={max_active}")
    return budget


def checked_classes(classes: object) -> np.ndarray:
    """Return names or numbers of labels or classes from a file, or raise."""
    if (
        not isinstance(classes, list)
        or not all(isinstance(name, str) or (isinstance(name, int | float) and np.isfinite(name)) for name in classes)
        or len(set(classes)) != len(classes)
    ):
        raise ValueError("the classes are not a list of different names or numbers")
    return np.array(classes, dtype=object if any(isinstance(name, str) for name in classes) else None)
