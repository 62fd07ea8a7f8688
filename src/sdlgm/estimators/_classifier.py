"""The multi-label classifier: its parameters and its public methods."""

import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sdlgm import train
from sdlgm._progress import Progress
from sdlgm.estimators._answers import Answers, answers
from sdlgm.estimators._base import (
    SUPERVISED_CONSTRAINTS,
    HeldOut,
    Limits,
    RandomState,
    SupervisedEstimator,
    checked_budget,
    checked_classes,
)
from sdlgm.estimators._checks import usable_device
from sdlgm.estimators._compat import Interval, StrOptions, fit_context
from sdlgm.estimators._decisions import DECISIONS, Decision
from sdlgm.estimators._fitted import Fitted, FittedClassifier, check_finite
from sdlgm.estimators._forest import Forest
from sdlgm.estimators._inputs import (
    INPUTS,
    Inputs,
    choose_inputs,
    inputs_of,
    kind_in,
    log_loss,
    n_inputs_in,
    n_inputs_of,
    scaling_for,
    scaling_in,
    tensors_of,
)
from sdlgm.estimators._limits import LARGEST_N_SAMPLES
from sdlgm.estimators._modelfile import loadable
from sdlgm.estimators._preparation import Columns
from sdlgm.estimators._profile import in_proportion
from sdlgm.estimators._results import LabelEvaluation, LabelNumbers
from sdlgm.estimators._targets import Labels, check_budget, labels_of, names_of_classes
from sdlgm.estimators._thresholds import best_threshold, best_thresholds, out_of_fold
from sdlgm.estimators._weights import checked_weights, weighted_targets
from sdlgm.model.codes.label_sets import LABEL_FORMS, LabelForm
from sdlgm.model.modules import MultiLabelModule
from sdlgm.model.networks.members import for_each_member
from sdlgm.model.networks.multilabel import MultiLabelConfig, Variant
from sdlgm.train.batches import Rows, TargetMatrix, dense

_FOLDS = 5
# Settings of the module that are parameters of the estimator under the same name.
_SAVED_AS_FITTED = (
    "variant",
    "n_latent",
    "hidden",
    "activation",
    "dropout",
    "input_dropout",
    "reconstruction_weight",
    "n_members",
)
# Share of the weights that decays in an iteration, with few rows; how many are few; the least decay of more.
_DECAY, _FEW_ROWS, _LEAST_DECAY = 0.009, 3000, 0.1
# With more labels than these, predictions are sparse.
_MOST_DENSE_LABELS = 4096
_CV_THRESHOLDS = {"cv", "cv_per_label"}


@loadable
class SDLGMClassifier(ClassifierMixin, SupervisedEstimator[FittedClassifier]):
    """Multi-label classification with a learned number of labels and a hard budget of them.

    The labels y of a row are the features of its code: at most ``max_active`` out of K. Their number is a random
    variable that the model learns. ``variant="dis"`` maximises log q(y | x). ``"gen"`` and ``"con"`` also model x:

        log q(y | x) + reconstruction_weight * (bound on log p(x | y) + bound on log p(x)),

    for rows with labels, and the last bound alone for rows without; see `sdlgm.model.modules.multilabel`.

    Parameters
    ----------
    variant : {"dis", "gen", "con"}, default="dis"
        Discriminative; generative, with a decoder from labels to x; or conditional generative, whose decoder also gets
        ``n_latent`` latent features.
    max_active : int or None, default=None
        Largest number of labels of a row, L0. None takes that of the training data.
    likelihood : {"subset", "closed_form", "multinomial", "monte_carlo"}, default="subset"
        Probability of a set of labels. ``"closed_form"``: P(y_k = 1) = 1 - (1 - lambda pi_k) ** L0.
        ``"multinomial"``: |y| ~ Binomial(L0, lambda), labels drawn from pi. ``"subset"``: log-odds for each label, no
        more than L0 present, in the order of the labels. These need no samples. ``"monte_carlo"`` is the paper's, with
        relaxed samples. See `docs/classification.md`.
    n_latent : int, default=20
        Number of latent features in addition to the labels, for ``variant="con"``.
    temperature : float, default=1.0
        Temperature of the relaxed gates and features, for ``likelihood="monte_carlo"``.
    decision : {"auto", "f1", "mode", "count", "threshold"}, default="auto"
        Which labels are predicted, under the distribution over sets of labels. ``"f1"``: the set with the largest
        expected F1 of the row. ``"mode"``: the most probable set. ``"count"``: the likeliest labels, as many as are
        expected. ``"threshold"``: those at or above ``threshold``. ``"auto"`` is "f1", or "threshold" if there is one.
    threshold : float, "cv", "cv_per_label" or None, default=None
        Labels with at least this probability are predicted. ``"cv"`` chooses it by five-fold cross-validation on the
        training rows, for the largest micro F1. ``"cv_per_label"`` chooses one for each label, which may be lower for
        rare labels, for the largest macro F1. None is 0.5 with ``decision="threshold"``.
    hidden : tuple of int, default=(256,)
        Widths of the hidden layers of the encoder; the decoder has them in reverse.
    activation : {"silu", "relu"}, default="silu"
        Activation function of all networks.
    dropout : float, default=0.5
        Dropout rate of the encoder's hidden layers.
    input_dropout : float, default=0.3
        Dropout rate of the encoder's inputs.
    weight_decay : float or "auto", default="auto"
        Weight decay, decoupled from the gradient as in AdamW. ``"auto"`` is 0.009 / ``learning_rate`` up to 3,000
        training rows, and less in proportion to their number above that; it is never less than 0.1, which it is for
        `partial_fit`, and for ``variant="gen"`` and ``"con"``, whose model of x restrains the labels.
    inputs : {"auto", "standard", "ranks", "sparse"}, default="auto"
        What the networks see of a row. ``"standard"``: columns of mean 0 and standard deviation 1. ``"ranks"``: each
        column brought to a normal distribution by the ranks of its values, which heavy tails do not disturb.
        ``"sparse"``: principal components of the columns as they are, 1,024 at most, and a linear path from them to the
        labels beside the hidden layers, for texts. The last two need ``variant="dis"``. ``"auto"`` is "ranks" for that
        variant; of rows that are mostly zeros it is "sparse" or "standard", whichever has the larger log q(y | x) of
        held-out rows in two short fits (with ``max_time``, or more than 10,000 columns, "sparse" without them). For
        other variants and the first call of `partial_fit` it is "standard".
    reconstruction_weight : float, default=0.01
        Weight of the model of x, for ``variant="gen"`` and ``"con"``.
    n_members : int, default=1
        Number of networks that are trained side by side and averaged. They differ in initial weights and dropout.
    n_trees : int, default=0
        Number of extremely randomised trees whose votes are averaged with the networks. A leaf votes with the labels of
        its training rows. On small tables networks and trees together are often better than either.
    n_samples : int, default=1
        Relaxed samples for each row and iteration, for ``likelihood="monte_carlo"``.
    kl_warmup : float, default=0.3
        First fraction of the run over which the weight of the KL rises from 0 to 1.
    max_iter : int or "auto", default="auto"
        Number of iterations, each of one batch. ``"auto"`` is 500; with ``max_time``, only the time limits the fit.
    max_time : float or None, default=None
        Seconds of wall time for training, beside ``max_iter``. Weight of the KL and learning rate follow the share of
        it that is used. The five folds of ``threshold="cv"`` and the final fit get a sixth each. Trees come on top.
    batch_size : int, default=200
        Rows in a batch.
    learning_rate : float, default=3e-3
        Learning rate of AdamW.
    lr_decay : float, default=1.0
        Last fraction of the run over which the learning rate falls linearly to zero.
    early_stopping : bool, default=False
        Stop when held-out rows no longer improve: when log q(y | x) has not risen for ``n_iter_no_change`` points of
        the training curves (there are fifty in a run, at least five iterations apart), once the KL is warmed up. The
        model keeps the parameters that were best. ``max_iter`` and ``max_time`` stay as limits.
    validation_fraction : float, default=0.1
        Share of the rows that are held out, for ``early_stopping``.
    n_iter_no_change : int, default=10
        Points of the training curves without improvement until training stops, for ``early_stopping``.
    checkpoint_dir : path or None, default=None
        Folder for a checkpoint, written every ``checkpoint_every`` iterations and on SIGINT or SIGTERM; the folds for
        ``threshold="cv"`` have folders of their own in it. It belongs to one run; leave it out in a parameter search.
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
    classes_ : ndarray of shape (n_labels,)
        The labels: column names of Y, members of the label sets, or column numbers.
    max_active_ : int
        The budget in use.
    single_label_ : bool
        Whether y was one class for each row.
    decision_ : str
        How labels are decided on: "f1", "mode", "count" or "threshold".
    inputs_ : str
        What the networks see of a row: "standard", "ranks" or "sparse".
    threshold_ : float or ndarray of shape (n_labels,)
        The threshold, for ``decision="threshold"``.
    n_iter_ : int
        Number of iterations done.
    interrupted_ : bool
        Whether Ctrl-C ended the last `fit` early. The model has what was learned until then. With ``checkpoint_dir``,
        Ctrl-C writes a checkpoint and raises KeyboardInterrupt instead.
    history_ : list of Record
        Training curves; ``discrete`` is the mean log q(y | x).
    module_ : MultiLabelModule
        The fitted torch module.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sdlgm import SDLGMClassifier
    >>> X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)
    >>> model = SDLGMClassifier(max_iter=100, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape, bool(model.score(X, Y) > 0.7)
    ((200, 4), True)

    """

    _parameter_constraints: dict[str, list[Any]] = {
        **SUPERVISED_CONSTRAINTS,
        "variant": [StrOptions({"dis", "gen", "con"})],
        "likelihood": [StrOptions(set(LABEL_FORMS))],
        "n_latent": [Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "decision": [StrOptions({"auto", *DECISIONS})],
        "threshold": [Interval(Real, 0, 1, closed="both"), StrOptions(_CV_THRESHOLDS), None],
        "input_dropout": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "inputs": [StrOptions({"auto", *INPUTS})],
        "reconstruction_weight": [Interval(Real, 0, None, closed="left")],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "n_trees": [Interval(Integral, 0, None, closed="left")],
        "n_samples": [Interval(Integral, 1, LARGEST_N_SAMPLES, closed="both")],
        "kl_warmup": [Interval(Real, 0, 1, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    }

    _default_max_iter = 500
    _sizes = ("variant", "likelihood", "n_latent", "hidden", "n_members")

    def __init__(
        self,
        *,
        variant: Literal["dis", "gen", "con"] = "dis",
        max_active: int | None = None,
        likelihood: Literal["subset", "closed_form", "multinomial", "monte_carlo"] = "subset",
        n_latent: int = 20,
        temperature: float = 1.0,
        decision: Literal["auto", "f1", "mode", "count", "threshold"] = "auto",
        threshold: float | Literal["cv", "cv_per_label"] | None = None,
        hidden: tuple[int, ...] = (256,),
        activation: Literal["silu", "relu"] = "silu",
        dropout: float = 0.5,
        input_dropout: float = 0.3,
        weight_decay: float | Literal["auto"] = "auto",
        inputs: Literal["auto", "standard", "ranks", "sparse"] = "auto",
        reconstruction_weight: float = 0.01,
        n_members: int = 1,
        n_trees: int = 0,
        n_samples: int = 1,
        kl_warmup: float = 0.3,
        max_iter: int | Literal["auto"] = "auto",
        max_time: float | None = None,
        batch_size: int = 200,
        learning_rate: float = 3e-3,
        lr_decay: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 1000,
        resume: bool = False,
        random_state: RandomState = None,
        device: str = "cpu",
        verbose: int = 0,
    ):
        self.variant: Variant = variant
        self.max_active = max_active
        self.likelihood: LabelForm = likelihood
        self.n_latent = n_latent
        self.temperature = temperature
        self.decision: Decision | Literal["auto"] = decision
        self.threshold = threshold
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.weight_decay = weight_decay
        self.inputs: Inputs | Literal["auto"] = inputs
        self.reconstruction_weight = reconstruction_weight
        self.n_members = n_members
        self.n_trees = n_trees
        self.n_samples = n_samples
        self.kl_warmup = kl_warmup
        self.max_iter = max_iter
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.lr_decay = lr_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, unlabelled=None) -> Self:
        """Fit the classifier to rows and their labels.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)
        y : indicator matrix (dense, sparse or a data frame), list of label sets, or array of classes
            A row without labels says that none applies. With one class per row this is multiclass classification.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows in the loss, in the scaling, in the choice of a threshold, in the trees and in the
            training curves. A row of weight 2 counts, in expectation, as two such rows; one of weight 0 as none. Only
            their ratios matter, except to ``unlabelled`` rows, which have the weight 1.
        unlabelled : array-like or CSR matrix of shape (n_rows, n_features_in) or None, default=None
            Further rows whose labels are unknown, for ``variant="gen"`` and ``"con"``. A Pipeline does not transform
            them; transform them first.

        Returns
        -------
        self : SDLGMClassifier

        """
        self._check_settings()
        with self._all_or_nothing():
            return self._fit(X, y, sample_weight, unlabelled)

    def _fit(self, X, y, sample_weight, unlabelled) -> Self:
        rows, y, weights = weighted_targets(self._validate_rows(X, reset=True), y, sample_weight)
        labels = labels_of(y)
        if rows.shape[0] != labels.indicator.shape[0]:
            raise ValueError(f"X has {rows.shape[0]} rows, and y has {labels.indicator.shape[0]}")
        max_active = self._budget_for(labels.indicator, "labels")
        further = None if unlabelled is None else self._validate_rows(unlabelled, reset=False)
        if further is not None and self.variant == "dis":
            raise ValueError("variant='dis' cannot use rows without labels; use variant='gen' or 'con'")
        seed = self._seed_of(self.random_state)
        inputs = self._choose_inputs(rows, labels.indicator, max_active, seed, weights)
        threshold = 0.5
        if not labels.single:
            threshold = self._choose_threshold(rows, labels.indicator, further, max_active, inputs, weights)
        held_out = None
        if self.early_stopping:
            kept, watched = self._split(rows.shape[0], seed, weights)
            indicator = labels.indicator
            held_out = HeldOut(cast(Rows, rows[watched]), cast(TargetMatrix, indicator[watched]))
            rows, labels = cast(Rows, rows[kept]), replace(labels, indicator=cast(TargetMatrix, indicator[kept]))
            weights = None if weights is None else weights[kept]
        fitted = self._new_model(rows, labels, threshold, max_active, inputs, seed, weights)
        if held_out is not None:
            for _ in fitted.scaled_batches(held_out.rows):  # raise for bad values before training
                pass
        targets = train.Targets.all_known(labels.indicator)
        if further is not None:
            rows, targets = _stack(rows, further), targets.followed_by_unknown(further.shape[0])
            weights = None if weights is None else np.append(weights, np.ones(further.shape[0]))
        return self._train(fitted, rows, targets, seed, weights, held_out)

    def _split(self, n_rows: int, seed: int, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows to train on, and those held out: with weights, in proportion to them."""
        n_held_out = round(float(self.validation_fraction) * n_rows)
        if n_held_out < 1 or n_rows - n_held_out < 2:
            raise ValueError(
                f"early_stopping=True holds out validation_fraction={self.validation_fraction:g} of {n_rows} rows; "
                "give more rows, or set early_stopping=False"
            )
        rng = np.random.default_rng(seed)
        order = rng.permutation(n_rows)
        kept, watched = np.sort(order[n_held_out:]), order[:n_held_out]
        if weights is not None:
            watched = watched[in_proportion(weights[watched], n_held_out, rng)]
        return kept, watched

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None) -> Self:
        """Train on one pass over the rows of X in the order given, at the constant ``learning_rate``.

        A pass that fails leaves the model as it was. The first call fixes the labels, the budget, the scaling and the
        frequencies that training begins at; set ``max_active`` if later rows may have more labels than the first ones.
        The KL is warmed up over the first ``kl_warmup * max_iter`` iterations of all calls together. Settings of the
        training may differ from those of earlier calls, those of the model may not. After `fit`, `sdlgm.load` or
        unpickling the optimiser starts afresh. A threshold that `fit` has chosen stays; ``threshold="cv"`` in the first
        call, and trees, need all rows at once.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)
        y : labels as for `fit`
        classes : array-like of shape (n_labels,) or None, default=None
            All labels, for the first call. It may be left out if y is an indicator matrix, which has a column for each.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows, as in `fit`. Only their ratios within a call matter.

        Returns
        -------
        self : SDLGMClassifier

        """
        self._check_settings()
        with self._all_or_nothing():
            return self._partial_fit(X, y, classes, sample_weight)

    def _partial_fit(self, X, y, classes, sample_weight) -> Self:
        first = not self.__sklearn_is_fitted__()
        if self.n_trees:
            raise ValueError(f"n_trees={self.n_trees} trees need all rows at once; use fit, or set n_trees=0")
        if self.early_stopping:
            raise ValueError("early_stopping=True needs all rows at once; use fit, or set early_stopping=False")
        if first and isinstance(self.threshold, str):
            raise ValueError(f"threshold={self.threshold!r} needs all rows at once; use fit, or give a number")
        rows, y, weights = weighted_targets(self._validate_rows(X, reset=first), y, sample_weight)
        labels = self._first_labels(y, classes) if first else self._later_labels(y, classes)
        if rows.shape[0] != labels.indicator.shape[0]:
            raise ValueError(f"X has {rows.shape[0]} rows, and y has {labels.indicator.shape[0]}")
        seed = self._seed_of(self.random_state)
        if first:
            max_active = self._budget_for(labels.indicator, "labels")
            inputs: Inputs = "standard" if self.inputs == "auto" else self.inputs
            fitted = self._new_model(rows, labels, 0.5, max_active, inputs, seed, weights)
        else:
            fitted = self._fitted
            self._check_same_model(self.max_active_)
            check_budget(labels.indicator, self.max_active_)
            for _ in fitted.scaled_batches(rows):  # raise for bad values before anything changes
                pass
        if not (fitted.single_label or isinstance(self.threshold, str)):
            threshold = fitted.threshold if self.threshold is None else float(self.threshold)
            fitted = replace(fitted, threshold=threshold, decision=self._decision_of_settings())
        return self._train_one_pass(fitted, rows, labels.indicator, seed, weights)

    def _first_labels(self, y, classes) -> Labels:
        if classes is None:
            labels = labels_of(y)
            if labels.in_columns:
                return labels
            raise ValueError(
                "classes must be passed on the first call to partial_fit, since later rows may have other labels than "
                "these"
            )
        names = names_of_classes(classes)
        labels = labels_of(y, names)
        return labels if labels.in_columns else labels_of(y, np.unique(names))

    def _later_labels(self, y, classes) -> Labels:
        if classes is not None and set(names_of_classes(classes).tolist()) != set(self.classes_.tolist()):
            raise ValueError(f"classes={classes!r} is not the same as on the last call, {self.classes_.tolist()}")
        labels = labels_of(y, self.classes_)
        if self.single_label_ and not labels.single:
            raise ValueError("the model was fitted with one class for each row; give y in that form")
        return labels

    def _new_model(
        self,
        rows: Rows,
        labels: Labels,
        threshold: float | np.ndarray,
        max_active: int,
        inputs: Inputs,
        seed: int,
        weights: np.ndarray | None,
    ) -> FittedClassifier:
        """Return the model before its first iteration."""
        columns, indicator, device = Columns.of(rows, weights), labels.indicator, usable_device(self.device)
        scaling = scaling_for(inputs, rows, columns, weights, seed)
        config = self._model_config(n_inputs_of(scaling), indicator.shape[1], max_active, inputs)
        module = train.seeded(lambda: MultiLabelModule(config), seed)
        if weights is None:
            shares = np.asarray(indicator.sum(axis=0)) / indicator.shape[0]
        else:
            shares = weights @ indicator / weights.sum()
        frequencies = torch.tensor(shares, dtype=torch.float32)
        module.adapt_to(frequencies, torch.tensor(columns.varies))
        forest = None
        if self.n_trees:
            with Progress(f"fit {self.n_trees} trees", visible=bool(self.verbose)):
                forest = Forest.fit(
                    scaling.apply(rows), dense(indicator).astype(np.int64), int(self.n_trees), seed, weights
                )
        return FittedClassifier(
            module=module.to(device),
            scaling=scaling,
            device=device,
            n_iter=0,
            history=(),
            classes=labels.names,
            single_label=labels.single,
            threshold=threshold,
            decision=self._decision_of_settings(),
            forest=forest,
        )

    def _publish(self, fitted: FittedClassifier) -> Self:
        super()._publish(fitted)
        self.classes_ = fitted.classes
        self.single_label_ = fitted.single_label
        self.threshold_ = fitted.threshold
        self.decision_: Decision = fitted.decision
        self.inputs_ = inputs_of(fitted.scaling)
        self.module_ = fitted.module
        self.max_active_ = fitted.module.config.n_slots
        return self

    def _choose_threshold(
        self,
        rows: Rows,
        of_rows: TargetMatrix,
        further: Rows | None,
        max_active: int,
        inputs: Inputs,
        weights: np.ndarray | None,
    ) -> float | np.ndarray:
        if not isinstance(self.threshold, str):
            return 0.5 if self.threshold is None else float(self.threshold)
        indicator = dense(of_rows).astype(np.int64, copy=False)
        if len(indicator) < _FOLDS:
            raise ValueError(f"threshold={self.threshold!r} needs at least {_FOLDS} rows; give a number")
        of_fold = cast(Self, clone(self)).set_params(threshold=None, max_active=max_active, inputs=inputs, verbose=0)
        of_fold.set_params(max_time=self._limits()["max_time"])
        numbers = itertools.count()
        progress = Progress("choose the threshold", _FOLDS, unit="folds", visible=bool(self.verbose))

        def fit_predict(fitted: np.ndarray, held_out: np.ndarray) -> np.ndarray:
            if self.checkpoint_dir is not None:
                of_fold.set_params(checkpoint_dir=Path(self.checkpoint_dir) / f"fold-{next(numbers)}")
            own = None if weights is None else weights[fitted]
            of_fold.fit(rows[fitted], indicator[fitted], own, unlabelled=further)
            if of_fold.interrupted_:  # the user means the whole fit, of which there is no model yet
                raise KeyboardInterrupt
            progress.advance()
            return of_fold.predict_proba(rows[held_out])

        with progress:
            probs = out_of_fold(fit_predict, indicator, _FOLDS, self._seed_of(self.random_state))
        choose = best_thresholds if self.threshold == "cv_per_label" else best_threshold
        return choose(indicator, probs, max_active, weights)

    def _choose_inputs(
        self, rows: Rows, indicator: TargetMatrix, max_active: int, seed: int, weights: np.ndarray | None
    ) -> Inputs:
        if self.inputs != "auto":
            return self.inputs
        if self.variant != "dis":
            return "standard"
        tried = cast(Self, clone(self)).set_params(threshold=None, max_active=max_active, n_members=1, n_trees=0)
        tried.set_params(early_stopping=False, checkpoint_dir=None, resume=False, random_state=seed, verbose=0)

        def loss(inputs: Inputs, fitted: np.ndarray, held_out: np.ndarray) -> float:
            own = None if weights is None else weights[fitted]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # that of the fit itself counts
                tried.set_params(inputs=inputs).fit(rows[fitted], indicator[fitted], own)
            if tried.interrupted_:
                raise KeyboardInterrupt
            share = None if weights is None else weights[held_out]
            return log_loss(indicator[held_out], tried.predict_proba(rows[held_out]), share)

        return choose_inputs(rows, loss, seed, may_try=self.max_time is None)

    def _weight_decay(self, n_rows: int | None) -> float:
        if not isinstance(self.weight_decay, str):
            return float(self.weight_decay)
        if n_rows is None or self.variant != "dis":
            return _LEAST_DECAY
        of_rows = _DECAY * min(1.0, _FEW_ROWS / n_rows)
        return max(_LEAST_DECAY, of_rows / float(self.learning_rate))

    def _model_config(self, n_inputs: int, n_labels: int, max_active: int, inputs: Inputs) -> MultiLabelConfig:
        return MultiLabelConfig(
            n_inputs=n_inputs,
            n_labels=n_labels,
            n_slots=max_active,
            variant=self.variant,
            form=self.likelihood,
            n_latent=int(self.n_latent),
            hidden=tuple(int(width) for width in self.hidden),
            activation=str(self.activation),
            dropout=float(self.dropout),
            input_dropout=float(self.input_dropout),
            reconstruction_weight=float(self.reconstruction_weight),
            n_members=int(self.n_members),
            gate_temperature=float(self.temperature),
            feature_temperature=float(self.temperature),
            linear_path=inputs == "sparse",
        )

    def _limits(self) -> Limits:
        """Return the limits of one of the fits, which share the time."""
        limits, n_fits = super()._limits(), _FOLDS + 1 if isinstance(self.threshold, str) else 1
        return {**limits, "max_time": limits["max_time"] and limits["max_time"] / n_fits}

    def _train_config(self, n_rows: int | None = None) -> train.TrainConfig:
        config = replace(
            super()._train_config(n_rows),
            kl_warmup=float(self.kl_warmup),
            n_samples=int(self.n_samples),
            n_iter_no_change=int(self.n_iter_no_change) if self.early_stopping else None,
        )
        if self.likelihood != "monte_carlo":
            return config
        return replace(config, gradient="gumbel_softmax", kl="paper")

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.threshold is not None and self.decision not in ("auto", "threshold"):
            raise ValueError(
                f"decision={self.decision!r} has no threshold, and threshold={self.threshold!r}; leave one of them out"
            )
        if self.inputs in ("ranks", "sparse") and self.variant != "dis":
            raise ValueError(
                f"inputs={self.inputs!r} cannot be scaled back to rows, which variant={self.variant!r} models; "
                "use inputs='standard', or variant='dis'"
            )

    def _decision_of_settings(self) -> Decision:
        if self.decision != "auto":
            return self.decision
        return "f1" if self.threshold is None else "threshold"

    # Prediction

    def predict_proba(self, X) -> np.ndarray:
        """Return the probability of each label: the mean over members and trees.

        If every row has one class, the probabilities of a row add up to one.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)

        Returns
        -------
        probs : ndarray of shape (n_samples, n_labels)

        """
        check_is_fitted(self)
        return np.concatenate([part.presence for part in self._answers(X)])

    def decision_function(self, X) -> np.ndarray:
        """Return the log-odds of each label, log(p / (1 - p)) of `predict_proba`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)

        Returns
        -------
        log_odds : ndarray of shape (n_samples, n_labels) or (n_samples,)
            If every row has one of two classes, those of the second one only, as in scikit-learn.

        """
        probs = self.predict_proba(X)
        if self.single_label_ and probs.shape[1] == 2:
            probs = probs[:, 1]
        probs = probs.clip(np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)
        return np.log(probs) - np.log1p(-probs)

    def predict(
        self, X, *, decision: Decision | None = None, sparse_output: bool | None = None
    ) -> np.ndarray | sp.csr_array:
        """Predict labels, never more than ``max_active_`` of them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)
        decision : {"f1", "mode", "count", "threshold"} or None, default=None
            How labels are decided on; None is ``decision_``. Of labels at or above the threshold, the ``max_active_``
            most probable ones are predicted.
        sparse_output : bool or None, default=None
            Whether the indicator matrix is sparse; None is for models with more than 4,096 labels. Memory then does not
            grow with the number of rows times that of labels.

        Returns
        -------
        labels : ndarray or CSR array of shape (n_samples, n_labels), or ndarray of shape (n_samples,)
            An indicator matrix or, if every row has one class, the most probable class.

        """
        check_is_fitted(self)
        decision = self._checked_decision(decision)
        parts = (part.predicted(decision) for part in self._answers(X))
        if self.single_label_:
            return np.concatenate([self.classes_[part.argmax(axis=1)] for part in parts])
        if sparse_output is None:
            sparse_output = len(self.classes_) > _MOST_DENSE_LABELS
        if not sparse_output:
            return np.concatenate([*parts])
        return sp.csr_array(sp.vstack([sp.csr_array(part, dtype=np.int64) for part in parts]))

    def predict_labels(self, X, *, decision: Decision | None = None) -> list[tuple[Any, ...]]:
        """Predict labels by name.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)
        decision : {"f1", "mode", "count", "threshold"} or None, default=None
            As for `predict`.

        Returns
        -------
        labels : list of tuple
            The labels of each row.

        """
        predicted = self.predict(X, decision=decision, sparse_output=True)
        if isinstance(predicted, np.ndarray):
            return [(label,) for label in predicted.tolist()]
        places = np.split(predicted.indices, predicted.indptr[1:-1])
        return [tuple(self.classes_[np.sort(own)].tolist()) for own in places]

    def predict_sparsity(self, X) -> LabelNumbers:
        """Return the distribution of the number of labels of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)

        Returns
        -------
        numbers : LabelNumbers
            The expected number, and the probability of every number up to the budget.

        """
        check_is_fitted(self)
        probs = np.concatenate([part.numbers for part in self._answers(X)])
        return LabelNumbers(probs @ np.arange(probs.shape[1]), probs)

    def score(self, X, y, sample_weight=None) -> float:
        """Return the micro-averaged F1 of `predict`; if every row has one class, that is the accuracy.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)
        y : labels as for `fit`
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float

        """
        rows, true = self._rows_and_labels(X, y)
        weights = None if sample_weight is None else checked_weights(sample_weight, rows.shape[0])
        hits, total, start = 0.0, 0.0, 0
        for part in answers(self._fitted, rows):
            predicted = part.predicted(self.decision_)
            own = slice(start, start := start + len(predicted))
            known, found = dense(cast(Rows, true[own])), _with_columns(predicted, true.shape[1])
            share = np.ones(len(found)) if weights is None else weights[own]
            hits += float(share @ (known * found).sum(axis=1))
            total += float(share @ (known.sum(axis=1) + found.sum(axis=1)))
        return 2 * hits / (total or 1.0)

    def evaluate(self, X, y, *, decision: Decision | None = None) -> LabelEvaluation:
        """Score `predict` and the probabilities behind it on rows whose labels are known.

        Labels that the model was not fitted with count as missed.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in)
        y : labels as for `fit`
        decision : {"f1", "mode", "count", "threshold"} or None, default=None
            As for `predict`.

        Returns
        -------
        evaluation : LabelEvaluation

        """
        rows, true = self._rows_and_labels(X, y)
        n_rows, n_labels = true.shape
        hits, n_predicted, n_true = (np.zeros(n_labels, np.int64) for _ in range(3))
        n_exact, n_expected, log_loss, start = 0, 0.0, 0.0, 0
        decision = self._checked_decision(decision)
        for part in answers(self._fitted, rows):  # memory does not grow with the rows
            indicator = part.predicted(decision)
            own = slice(start, start := start + len(indicator))
            known = dense(cast(Rows, true[own])) > 0
            predicted, probs = _with_columns(indicator, n_labels) > 0, _with_columns(part.presence, n_labels)
            hits += (known & predicted).sum(axis=0)
            n_predicted += predicted.sum(axis=0)
            n_true += known.sum(axis=0)
            n_exact += int((known == predicted).all(axis=1).sum())
            n_expected += float(part.expected_number.sum())
            log_loss -= float(np.log(np.clip(np.where(known, probs, 1 - probs), 1e-12, 1.0)).sum())
        total = n_predicted + n_true
        of_labels, present = 2 * hits / np.where(total > 0, total, 1), n_true > 0
        return LabelEvaluation(
            n_rows=n_rows,
            max_active=self.max_active_,
            micro_f1=float(2 * hits.sum() / (total.sum() or 1)),
            macro_f1=float(of_labels.mean()),
            macro_f1_present=float(of_labels[present].mean()) if present.any() else 0.0,
            exact_match=n_exact / n_rows,
            hamming_loss=float((total - 2 * hits).sum() / (n_rows * n_labels)),
            log_loss=log_loss / n_rows,
            n_labels_true=float(n_true.sum() / n_rows),
            n_labels_predicted=float(n_predicted.sum() / n_rows),
            n_labels_expected=n_expected / n_rows,
        )

    def to_indicator(self, y) -> TargetMatrix:
        """Return labels as a matrix of 0 and 1, as `predict` does and as the metrics of scikit-learn want them.

        Parameters
        ----------
        y : labels as for `fit`

        Returns
        -------
        Y : ndarray or CSR array of shape (n_samples, n_labels)
            A column for each label of ``classes_``; sparse if y is, or has sets of labels.

        Raises
        ------
        ValueError
            If there are labels that are not among ``classes_``.

        """
        check_is_fitted(self)
        return labels_of(y, self.classes_).indicator.astype(np.int64)

    def _rows_and_labels(self, X, y) -> tuple[Rows, TargetMatrix]:
        """Return rows and their known labels, with further columns for labels that the model lacks."""
        check_is_fitted(self)
        labels = labels_of(y, self.classes_, unseen=True)
        if labels.single and not self.single_label_ and labels.indicator.shape[1] > len(self.classes_):
            raise ValueError(
                "y has one value for each row, and not all of them are labels of the model, which was fitted with sets "
                "of labels; give an indicator matrix or a list of sets"
            )
        rows = self._validate_rows(X, reset=False)
        if rows.shape[0] != labels.indicator.shape[0]:
            raise ValueError(f"X has {rows.shape[0]} rows, and y has {labels.indicator.shape[0]}")
        return rows, labels.indicator

    def sample(self, y, *, random_state: RandomState = None) -> np.ndarray:
        """Draw an observation for each row of labels from p(x given y), for ``variant="gen"`` and ``"con"``.

        Parameters
        ----------
        y : labels as for `fit`
        random_state : int, RandomState or None, default=None
            Seed of the draws; None takes that of the estimator.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_in)

        """
        check_is_fitted(self)
        module, device = self.module_, self._fitted.device
        if module.decoder is None or module.likelihood is None:
            raise ValueError("variant='dis' has no model of x to draw from; fit with variant='gen' or 'con'")
        indicator = dense(labels_of(y, self.classes_).indicator)
        check_budget(indicator, self.max_active_)
        noise = self._noise(random_state)
        with torch.inference_mode():
            codes = torch.tensor(indicator, dtype=torch.float32, device=device)
            if module.prior.unnamed is not None:
                prior = module.prior.unnamed().expand(len(codes))
                # The encoder never draws a feature twice, so the decoder was not trained on one either.
                codes = torch.cat([codes, prior.sample(1, noise)[0].clamp(max=1)], dim=-1)
            n_members = module.config.n_members
            means = module.decoder(for_each_member(codes, n_members)).unflatten(0, (n_members, -1))
            member = torch.randint(n_members, (len(codes),), generator=noise.generator, device=device)
            drawn = module.likelihood.sample(means[member, torch.arange(len(codes), device=device)], noise.generator)
        rows = self._fitted.scaling.undo(drawn.cpu().double().numpy())
        check_finite("x", rows)
        return rows

    def _checked_decision(self, decision: Decision | None) -> Decision:
        """Return the decision that is meant, or raise for one that there is not."""
        if decision is None:
            return self.decision_
        if decision not in DECISIONS:
            raise ValueError(f"decision={decision!r}; it is one of {', '.join(DECISIONS)}, or None")
        return decision

    def _answers(self, X) -> Iterator[Answers]:
        return answers(self._fitted, self._validate_rows(X, reset=False))

    # Files

    def _fitted_params(self) -> dict[str, Any]:
        config = asdict(self.module_.config)
        return {
            "n_trees": 0 if self._fitted.forest is None else len(self._fitted.forest.roots),
            "likelihood": config["form"],
            "temperature": config["gate_temperature"],
            **{name: config[name] for name in _SAVED_AS_FITTED},
        }

    def _fitted_document(self) -> dict[str, Any]:
        threshold = self.threshold_.tolist() if isinstance(self.threshold_, np.ndarray) else self.threshold_
        return {
            "classes": self.classes_.tolist(),
            "single_label": self.single_label_,
            "budget": self.max_active_,
            "threshold": threshold,
            "decision": self.decision_,
            "inputs": self.inputs_,
            "n_inputs": n_inputs_of(self._fitted.scaling),
        }

    def _fitted_tensors(self) -> dict[str, Tensor]:
        forest, of_inputs = self._fitted.forest, tensors_of(self._fitted.scaling)
        of_forest = {} if forest is None else forest.tensors()
        return of_inputs | {f"forest.{name}": tensor for name, tensor in of_forest.items()}

    def _module_factory(self, document: dict[str, Any]) -> Callable[[], MultiLabelModule]:
        budget = checked_budget(document["budget"], self.max_active)
        n_inputs = n_inputs_in(document, self.n_features_in_)
        config = self._model_config(n_inputs, len(document["classes"]), budget, kind_in(document))
        return lambda: MultiLabelModule(config)

    def _restore(self, base: Fitted, document: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        classes, single_label = checked_classes(document["classes"]), document["single_label"]
        if not isinstance(single_label, bool):
            raise ValueError("single_label is neither true nor false")
        of_forest = {
            name.removeprefix("forest."): tensor for name, tensor in tensors.items() if name.startswith("forest.")
        }
        if bool(of_forest) != bool(self.n_trees):
            raise ValueError(f"n_trees={self.n_trees} does not fit the trees in the file")
        forest = None
        if of_forest:
            n_inputs = n_inputs_in(document, self.n_features_in_)
            forest = Forest.from_tensors(of_forest, int(self.n_trees), n_inputs, len(classes))
        decision = document.get("decision", "threshold")  # earlier files have none
        if decision not in DECISIONS:
            raise ValueError(f"decision={decision!r}; it is one of {', '.join(DECISIONS)}")
        return self._publish(
            FittedClassifier(
                **vars(replace(base, scaling=scaling_in(document, tensors, base.scaling))),
                classes=classes,
                single_label=single_label,
                threshold=_checked_threshold(document["threshold"], len(classes)),
                decision=decision,
                forest=forest,
            )
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags


def _checked_threshold(threshold: object, n_labels: int) -> float | np.ndarray:
    values = np.array(threshold, dtype=np.float64)
    if values.shape not in ((), (n_labels,)) or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("the thresholds are not probabilities, one or as many as labels")
    return values if values.ndim else float(values)


def _stack(rows: Rows, further: Rows) -> Rows:
    """Return rows one below the other, sparse only if both are."""
    if sp.issparse(rows) and sp.issparse(further):
        return sp.csr_matrix(sp.vstack([rows, further], format="csr"))
    return np.concatenate([dense(rows), dense(further)])


def _with_columns(values: np.ndarray, n_columns: int) -> np.ndarray:
    """Return values with ``n_columns`` columns, zeros where there were none."""
    return np.pad(values, ((0, 0), (0, n_columns - values.shape[1])))
