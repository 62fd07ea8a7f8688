"""The counter of repeated classes: its parameters and its public methods."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import torch
from scipy.stats import binom
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sdlgm import train
from sdlgm.estimators._base import (
    SUPERVISED_CONSTRAINTS,
    RandomState,
    SupervisedEstimator,
    checked_budget,
    checked_classes,
)
from sdlgm.estimators._checks import usable_device
from sdlgm.estimators._compat import Interval, StrOptions, fit_context
from sdlgm.estimators._fitted import Fitted, FittedCounter, check_finite
from sdlgm.estimators._modelfile import loadable
from sdlgm.estimators._preparation import Columns, Scaling
from sdlgm.estimators._results import CountEvaluation
from sdlgm.estimators._targets import Counts, check_budget, counts_of
from sdlgm.estimators._weights import checked_weights, weighted_targets
from sdlgm.model.codes import SlotDistribution
from sdlgm.model.modules import CountModule
from sdlgm.model.networks.counting import CELL, CountConfig
from sdlgm.train.batches import Rows, dense

# Parameters that the module depends on.
_OF_THE_MODULE = (
    "encoder",
    "hidden",
    "channels",
    "patch_size",
    "patch_stride",
    "activation",
    "dropout",
    "max_shift",
)


@loadable
class SDLGMCounter(SupervisedEstimator[FittedCounter]):
    """Count how often each class appears, with a hard budget.

    The counts of a row are its code, known in training. Their distribution is that of the slots,

        counts ~ Multinomial(max_active, (lambda pi_1, ..., lambda pi_K, 1 - lambda)),

    with lambda and pi from an encoder of x. Training maximises its logarithm, exactly and without samples; see
    `sdlgm.model.modules.counting`.

    Parameters
    ----------
    max_active : int or None, default=None
        Largest sum of the counts of a row, L0. None takes that of the training data.
    encoder : {"auto", "mlp", "cnn", "patches"}, default="auto"
        Network from a row to its counts. ``"mlp"``: fully connected layers, for any rows. ``"cnn"``: convolutions, then
        fully connected layers. ``"patches"``: convolutions, then each patch of the picture votes for one class or for
        none, and the votes add up to the expected counts; there have to be at least ``max_active`` patches. ``"auto"``
        takes ``"patches"`` for pictures, or ``"cnn"`` for those too small for as many patches, and ``"mlp"`` for other
        rows.
    hidden : tuple of int, default=(128,)
        Widths of the fully connected layers; ``"patches"`` uses the last one only, for each patch.
    channels : int, default=24
        Channels of the first convolutions; later ones have twice as many.
    patch_size : int, (int, int) or None, default=None
        Height and width of a patch in pixels, rounded to multiples of four. None divides the area of the picture by
        ``max_active`` and takes a square of that size.
    patch_stride : int, (int, int) or None, default=None
        Pixels from one patch to the next, at most the size of a patch and rounded like it. None lets patches tile the
        picture if they do so exactly and there are as many as slots, and otherwise is a quarter of a patch.
    activation : {"silu", "relu"}, default="silu"
        Activation function of all networks.
    dropout : float, default=0.3
        Dropout rate of the hidden layers.
    max_shift : int, default=0
        Largest random shift of pictures in training, in pixels each way; the edge is repeated. It helps with few
        pictures if nothing that is counted touches their edges.
    weight_decay : float, default=0.01
        Weight decay, decoupled from the gradient as in AdamW.
    max_iter : int or "auto", default="auto"
        Number of iterations, each of one batch. ``"auto"`` is 1,000; with ``max_time``, only the time limits the fit.
    max_time : float or None, default=None
        Seconds of wall time for training, beside ``max_iter``. The learning rate follows the share of it that is used.
    batch_size : int, default=50
        Rows in a batch. Convolutions normalise over a batch, so they need some rows in it.
    learning_rate : float, default=3e-3
        Learning rate of AdamW.
    lr_decay : float, default=1.0
        Last fraction of the run over which the learning rate falls linearly to zero.
    checkpoint_dir : path or None, default=None
        Folder for a checkpoint, written every ``checkpoint_every`` iterations and on SIGINT or SIGTERM. It belongs
        to one run; leave it out in a parameter search.
    checkpoint_every : int, default=1000
        Iterations between two checkpoints.
    resume : bool, default=False
        Let `fit` continue from the checkpoint, if there is one. Needs an integer ``random_state``.
    random_state : int, RandomState or None, default=None
        Seed. An integer makes results reproducible.
    device : str, default="cpu"
        A torch device, such as cpu or cuda.
    verbose : int, default=0
        If not 0, show progress on the standard error once the work has taken a few seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Column names of the counts, or column numbers.
    max_active_ : int
        The budget in use.
    encoder_ : str
        The encoder in use.
    shape_in_ : tuple of int
        Shape of a row: (values,), or (height, width, channels) of a picture.
    single_class_ : bool
        Whether the counts were one number for each row.
    n_iter_ : int
        Number of iterations done.
    interrupted_ : bool
        Whether Ctrl-C ended the last `fit` early. The model has what was learned until then. With ``checkpoint_dir``,
        Ctrl-C writes a checkpoint and raises KeyboardInterrupt instead.
    history_ : list of Record
        Training curves; ``discrete`` is the mean log-probability of the counts.
    module_ : CountModule
        The fitted torch module.
    n_features_in_ : int
        Number of values of a row.
    feature_names_in_ : ndarray of str
        Only if X had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from sdlgm import SDLGMCounter
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.integers(3, size=(300, 2))
    >>> X = counts @ rng.normal(size=(2, 5)) + rng.normal(scale=0.1, size=(300, 5))
    >>> model = SDLGMCounter(max_iter=300, random_state=0).fit(X, counts)
    >>> model.predict(X).shape, model.max_active_, bool(model.score(X, counts) > 0.9)
    ((300, 2), 4, True)

    """

    _parameter_constraints: dict[str, list[Any]] = {
        **SUPERVISED_CONSTRAINTS,
        "encoder": [StrOptions({"auto", "mlp", "cnn", "patches"})],
        "channels": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [Interval(Integral, 1, None, closed="left"), tuple, list, None],
        "patch_stride": [Interval(Integral, 1, None, closed="left"), tuple, list, None],
        "max_shift": [Interval(Integral, 0, None, closed="left")],
    }
    _module_class: type[CountModule] = CountModule
    _default_max_iter = 1000
    _sizes = ("encoder", "hidden", "channels", "patch_size")

    def __init__(
        self,
        *,
        max_active: int | None = None,
        encoder: Literal["auto", "mlp", "cnn", "patches"] = "auto",
        hidden: tuple[int, ...] = (128,),
        channels: int = 24,
        patch_size: int | tuple[int, int] | None = None,
        patch_stride: int | tuple[int, int] | None = None,
        activation: Literal["silu", "relu"] = "silu",
        dropout: float = 0.3,
        max_shift: int = 0,
        weight_decay: float = 0.01,
        max_iter: int | Literal["auto"] = "auto",
        max_time: float | None = None,
        batch_size: int = 50,
        learning_rate: float = 3e-3,
        lr_decay: float = 1.0,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 1000,
        resume: bool = False,
        random_state: RandomState = None,
        device: str = "cpu",
        verbose: int = 0,
    ):
        self.max_active = max_active
        self.encoder = encoder
        self.hidden = hidden
        self.channels = channels
        self.patch_size = patch_size
        self.patch_stride = patch_stride
        self.activation = activation
        self.dropout = dropout
        self.max_shift = max_shift
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.lr_decay = lr_decay
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the counter to rows, or pictures, and their counts.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in), (n_samples, height, width) or (.., height, width, channels)
            Rows may also be a CSR matrix.
        y : array-like of shape (n_samples, n_classes), sparse matrix or data frame of counts, or (n_samples,)
            Non-negative whole numbers; one number for each row counts a single class.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows in the loss, in the scaling and in the training curves. A row of weight 2 counts, in
            expectation, as two such rows; one of weight 0 as none. Only their ratios matter.

        Returns
        -------
        self : SDLGMCounter

        """
        self._check_settings()
        with self._all_or_nothing():
            return self._fit(X, y, sample_weight)

    def _fit(self, X, y, sample_weight) -> Self:
        flat, shape = _flatten(X)
        rows, y, weights = weighted_targets(self._validate_rows(flat, reset=True), y, sample_weight)
        counts = counts_of(y)
        if rows.shape[0] != len(counts.matrix):
            raise ValueError(f"X has {rows.shape[0]} rows, and y has {len(counts.matrix)}")
        max_active = self._budget_for(counts.matrix, "in all")
        seed = self._seed_of(self.random_state)
        fitted = self._new_model(rows, counts, shape or (rows.shape[1],), max_active, seed, weights)
        return self._train(fitted, rows, train.Targets.all_known(counts.matrix), seed, weights)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None) -> Self:
        """Train on one pass over the rows of X in the order given, at the constant ``learning_rate``.

        A pass that fails leaves the model as it was. The first call fixes the classes, the budget, the shape of a row,
        the scaling and the mean counts that training begins at; set ``max_active`` if later rows may add up to more
        than the first ones. Settings of the training may differ from those of earlier calls, those of the model may
        not. After `fit`, `sdlgm.load` or unpickling the optimiser starts afresh.

        Parameters
        ----------
        X : rows or pictures as for `fit`
        y : counts as for `fit`
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows, as in `fit`. Only their ratios within a call matter.

        Returns
        -------
        self : SDLGMCounter

        """
        self._check_settings()
        with self._all_or_nothing():
            return self._partial_fit(X, y, sample_weight)

    def _partial_fit(self, X, y, sample_weight) -> Self:
        first = not self.__sklearn_is_fitted__()
        flat, shape = _flatten(X)
        if not first:
            self._check_shape(shape)
        rows, y, weights = weighted_targets(self._validate_rows(flat, reset=first), y, sample_weight)
        counts = counts_of(y, None if first else self.classes_)
        if rows.shape[0] != len(counts.matrix):
            raise ValueError(f"X has {rows.shape[0]} rows, and y has {len(counts.matrix)}")
        seed = self._seed_of(self.random_state)
        if first:
            max_active = self._budget_for(counts.matrix, "in all")
            fitted = self._new_model(rows, counts, shape or (rows.shape[1],), max_active, seed, weights)
        else:
            fitted = self._fitted
            self._check_same_model(self.max_active_)
            check_budget(counts.matrix, self.max_active_, "in all")
            self._check_batches(fitted.module.config.encoder, rows.shape[0])
            for _ in fitted.scaled_batches(rows):  # raise for bad values before anything changes
                pass
        return self._train_one_pass(fitted, rows, counts.matrix, seed, weights)

    def _check_shape(self, shape: tuple[int, ...] | None) -> None:
        """Raise for pictures of another shape than those of the fit."""
        if shape is not None and shape != self.shape_in_:
            raise ValueError(f"X has rows of shape {shape}, the model was fitted with {self.shape_in_}")

    def _check_batches(self, encoder: str, n_rows: int) -> None:
        """Raise if a batch may have a single row, and the encoder needs more."""
        if encoder != "mlp" and min(int(self.batch_size), n_rows) < 2:
            raise ValueError(
                f"encoder={encoder!r} normalises over a batch and needs two rows in it; there are "
                f"{n_rows} rows, and batch_size={self.batch_size}"
            )

    def _new_model(
        self,
        rows: Rows,
        counts: Counts,
        shape: tuple[int, ...],
        max_active: int,
        seed: int,
        weights: np.ndarray | None,
    ) -> FittedCounter:
        """Return the model before its first iteration."""
        config = self._model_config(shape, counts.matrix.shape[1], max_active)
        self._check_batches(config.encoder, rows.shape[0])
        device = usable_device(self.device)
        module = train.seeded(lambda: self._module_class(config), seed)
        mean = counts.matrix.mean(axis=0) if weights is None else np.average(counts.matrix, axis=0, weights=weights)
        module.adapt_to(torch.tensor(mean, dtype=torch.float32))
        return FittedCounter(
            module=module.to(device),
            scaling=_scaling_of(rows, shape, weights),
            device=device,
            n_iter=0,
            history=(),
            classes=counts.names,
            single_class=counts.single,
            shape=shape,
            settings=self._module_settings(),
        )

    def _module_settings(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in _OF_THE_MODULE}

    def _publish(self, fitted: FittedCounter) -> Self:
        super()._publish(fitted)
        self.classes_ = fitted.classes
        self.single_class_ = fitted.single_class
        self.shape_in_ = fitted.shape
        self.module_ = fitted.module
        self.max_active_ = fitted.module.config.n_slots
        self.encoder_ = fitted.module.config.encoder
        return self

    def _model_config(self, shape: tuple[int, ...], n_classes: int, max_active: int) -> CountConfig:
        pictures = len(shape) == 3
        if not pictures and self.encoder in ("cnn", "patches"):
            raise ValueError(
                f"encoder={self.encoder!r} needs pictures, X of shape (n_samples, height, width) or (n_samples, "
                "height, width, channels); for other rows use encoder='mlp'"
            )
        patch, stride = self._patches(shape, max_active) if pictures else ((1, 1), (1, 1))
        config = CountConfig(
            shape=shape,
            n_classes=n_classes,
            n_slots=max_active,
            encoder="patches" if pictures else "mlp",
            hidden=tuple(int(width) for width in self.hidden),
            channels=int(self.channels),
            activation=str(self.activation),
            dropout=float(self.dropout),
            patch=patch,
            stride=stride,
            max_shift=int(self.max_shift) if pictures else 0,
        )
        enough = pictures and config.n_patches >= max_active
        if self.encoder == "patches" and not enough:
            raise ValueError(
                f"{config.n_patches} patches, each of which votes for at most one thing, cannot count up to "
                f"max_active={max_active}; set a smaller patch_size or patch_stride, or encoder='cnn'"
            )
        if self.encoder == "auto":
            return config if enough or not pictures else replace(config, encoder="cnn")
        return replace(config, encoder=self.encoder)

    def _patches(self, shape: tuple[int, ...], max_active: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return size and stride of the patches, in cells."""
        height, width, _ = shape
        cells = -(-height // CELL), -(-width // CELL)
        square = math.sqrt(height * width / max_active)
        down, across = _pair("patch_size", self.patch_size) or (square, square)
        patch = max(1, min(cells[0], round(down / CELL))), max(1, min(cells[1], round(across / CELL)))
        chosen = _pair("patch_stride", self.patch_stride)
        if chosen is not None:
            stride = max(1, round(chosen[0] / CELL)), max(1, round(chosen[1] / CELL))
            if any(step > side for step, side in zip(stride, patch, strict=True)):
                raise ValueError(
                    f"patch_stride={self.patch_stride!r} leaves gaps between patches of {patch[0] * CELL} x "
                    f"{patch[1] * CELL} pixels; set a smaller one"
                )
            return patch, stride
        tiles = all(whole % side == 0 for whole, side in zip((height, width), (CELL * p for p in patch), strict=True))
        n_tiles = math.prod(whole // side for whole, side in zip(cells, patch, strict=True))
        quarter = max(1, round(patch[0] / 4)), max(1, round(patch[1] / 4))
        return patch, patch if tiles and n_tiles == max_active else quarter

    # Prediction

    def predict(self, X) -> np.ndarray:
        """Predict counts as whole numbers: `predict_mean` rounded, no more than ``max_active_`` in all.

        Parameters
        ----------
        X : rows or pictures as for `fit`

        Returns
        -------
        counts : ndarray of int of shape (n_samples, n_classes)
            Of shape (n_samples,) if the counts were one number for each row.

        """
        return self._as_given(self._rounded(self._mean(self._slots(X))))

    def predict_mean(self, X) -> np.ndarray:
        """Return the expected counts, L0 lambda pi.

        Parameters
        ----------
        X : rows or pictures as for `fit`

        Returns
        -------
        counts : ndarray of the same shape as that of `predict`

        """
        return self._as_given(self._mean(self._slots(X)))

    def predict_proba(self, X) -> np.ndarray:
        """Return the probability of every count from 0 to ``max_active_``.

        The count of a class is Binomial(L0, lambda pi_k).

        Parameters
        ----------
        X : rows or pictures as for `fit`

        Returns
        -------
        probs : ndarray of shape (n_samples, n_classes, max_active_ + 1)
            Of shape (n_samples, max_active_ + 1) if the counts were one number for each row.

        """
        shares = self._slots(X).probs[:, 1:, None].clamp(max=1).numpy()
        return self._as_given(np.asarray(binom.pmf(np.arange(self.max_active_ + 1), self.max_active_, shares)))

    def score(self, X, y, sample_weight=None) -> float:
        """Return the share of rows whose counts are all predicted right.

        Parameters
        ----------
        X : rows or pictures as for `fit`
        y : counts as for `fit`
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float

        """
        slots = self._slots(X)
        right = (self._rounded(self._mean(slots)) == self._true(slots, y)).all(axis=1)
        weights = None if sample_weight is None else checked_weights(sample_weight, len(right))
        return float(np.average(right, weights=weights))

    def evaluate(self, X, y) -> CountEvaluation:
        """Score predictions on rows whose counts are known.

        Parameters
        ----------
        X : rows or pictures as for `fit`
        y : counts as for `fit`

        Returns
        -------
        evaluation : CountEvaluation

        """
        slots = self._slots(X)
        true, mean = self._true(slots, y), self._mean(slots)
        rounded = self._rounded(mean)
        n_beyond = int((true.sum(axis=1) > self.max_active_).sum())
        log_probs = slots.log_prob(torch.tensor(true, dtype=torch.float64))
        return CountEvaluation(
            n_rows=len(true),
            max_active=self.max_active_,
            mse_expected=float(np.square(mean - true).mean()),
            mse_rounded=float(np.square(rounded - true).mean()),
            exact_match=float((rounded == true).all(axis=1).mean()),
            log_likelihood=None if n_beyond else float(log_probs.mean()),
            n_beyond_budget=n_beyond,
            total_true=float(true.sum(axis=1).mean()),
            total_expected=float(mean.sum(axis=1).mean()),
        )

    def _slots(self, X) -> SlotDistribution:
        """Return q(counts given x) of all rows, in double precision."""
        check_is_fitted(self)
        flat, shape = _flatten(X)
        self._check_shape(shape)
        rows = self._validate_rows(flat, reset=False)
        with torch.inference_mode():
            parts = [self.module_.inference(x) for x in self._fitted.scaled_batches(rows)]
        gate_logit = torch.cat([part.gate_logit for part in parts]).cpu().double()
        feature_logits = torch.cat([part.feature_logits for part in parts]).cpu().double()
        check_finite("the counts", gate_logit, feature_logits)
        return SlotDistribution(gate_logit, feature_logits, self.max_active_)

    def _mean(self, slots: SlotDistribution) -> np.ndarray:
        return slots.n_slots * slots.probs[:, 1:].numpy()

    def _rounded(self, mean: np.ndarray) -> np.ndarray:
        """Round to whole numbers; where those exceed the budget, round the least certain ones down."""
        whole = np.floor(mean)
        rest = mean - whole
        rank = np.argsort(np.argsort(-rest, axis=1, kind="stable"), axis=1, kind="stable")
        room = self.max_active_ - whole.sum(axis=1, keepdims=True)
        return (whole + ((rest >= 0.5) & (rank < room))).astype(np.int64)

    def _true(self, slots: SlotDistribution, y) -> np.ndarray:
        true = counts_of(y, self.classes_).matrix
        if len(slots.gate_logit) != len(true):
            raise ValueError(f"X has {len(slots.gate_logit)} rows, and y has {len(true)}")
        return true

    def _as_given(self, values: np.ndarray) -> np.ndarray:
        """Drop the dimension of the classes if the counts had none."""
        return values[:, 0] if self.single_class_ else values

    # Files

    def _fitted_params(self) -> dict[str, Any]:
        return self._fitted.settings

    def _fitted_document(self) -> dict[str, Any]:
        return {
            "classes": self.classes_.tolist(),
            "single_class": self.single_class_,
            "budget": self.max_active_,
            "shape": list(self.shape_in_),
        }

    def _module_factory(self, document: dict[str, Any]) -> Callable[[], CountModule]:
        budget = checked_budget(document["budget"], self.max_active)
        config = self._model_config(self._checked_shape(document["shape"]), len(document["classes"]), budget)
        return lambda: self._module_class(config)

    def _checked_shape(self, shape: object) -> tuple[int, ...]:
        if (
            not isinstance(shape, list)
            or not all(type(side) is int and side > 0 for side in shape)
            or len(shape) not in (1, 3)
            or math.prod(shape) != self.n_features_in_
        ):
            raise ValueError(f"rows of {self.n_features_in_} values do not have the shape {shape}")
        return tuple(shape)

    def _restore(self, base: Fitted, document: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        classes, single_class = checked_classes(document["classes"]), document["single_class"]
        if not isinstance(single_class, bool) or (single_class and len(classes) != 1):
            raise ValueError("single_class does not fit the classes")
        return self._publish(
            FittedCounter(
                **vars(base),
                classes=classes,
                single_class=single_class,
                shape=tuple(document["shape"]),
                settings=self._module_settings(),
            )
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = True
        return tags


def _flatten(X: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return pictures as rows, and their (height, width, channels); return anything else unchanged."""
    pictures = _as_array(X)
    if getattr(pictures, "ndim", 2) not in (3, 4):
        return X, None
    shape = (*pictures.shape[1:], 1) if pictures.ndim == 3 else pictures.shape[1:]
    if shape[0] in (1, 3, 4) and shape[2] > 4:
        raise ValueError(
            f"pictures of shape {shape} look as if their channels came first; give (n_samples, height, width, channels)"
        )
    return pictures.reshape(len(pictures), math.prod(shape)), tuple(int(side) for side in shape)


def _as_array(X: Any) -> Any:
    """Return lists as arrays if possible."""
    if not isinstance(X, list | tuple):
        return np.asarray(X) if getattr(X, "ndim", 2) in (3, 4) else X
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return X


def _scaling_of(rows: Rows, shape: tuple[int, ...], weights: np.ndarray | None) -> Scaling:
    """Return the scaling of each value to mean 0 and standard deviation 1; pixels of a channel are scaled together."""
    if len(shape) == 1:
        return Scaling.standardizing(Columns.of(rows, weights))
    pixels = shape[0] * shape[1]
    values = dense(rows).reshape(-1, shape[2])
    of_pixels = None if weights is None else np.repeat(weights, pixels)
    of_channels = Scaling.standardizing(Columns.of(values, of_pixels))
    return Scaling(np.tile(of_channels.location, pixels), np.tile(of_channels.scale, pixels))


def _pair(name: str, value: Any) -> tuple[int, int] | None:
    """Return a setting that is one number, or one each way, as two."""
    if value is None:
        return None
    pair = (value, value) if isinstance(value, Integral) else tuple(value)
    if len(pair) != 2 or not all(isinstance(side, Integral) and int(side) > 0 for side in pair):
        raise ValueError(f"{name}={value!r}; it has to be a positive whole number, or two of them")
    return int(pair[0]), int(pair[1])
