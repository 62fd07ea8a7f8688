"""The unsupervised estimator."""

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.model_selection import train_test_split
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import assert_all_finite, check_is_fitted, validate_data
from torch import Tensor

from sdlgm import train
from sdlgm.data.rows import RowFiles, SpooledRows, is_stream, rows_of
from sdlgm.errors import DataError
from sdlgm.estimators import _distributed
from sdlgm.estimators._base import COMMON_CONSTRAINTS, RandomState, TorchEstimator
from sdlgm.estimators._codes import check_codes, sparse_rows, stacked
from sdlgm.estimators._inputs import (
    Columns,
    Scaling,
    Survey,
    check_count,
    check_unit_interval,
    has_compiler,
    in_batches,
    in_parts,
    in_unit_interval,
    usable_device,
)
from sdlgm.estimators._results import Evaluation, PosteriorProbs, PosteriorSetting
from sdlgm.gradients import GRADIENTS
from sdlgm.model import ModelConfig, SDLGMModule, discrete_expectation, relaxed_expectation
from sdlgm.model.chain import ChainDistribution
from sdlgm.model.ordered import OrderedDistribution
from sdlgm.model.posteriors import POSTERIORS
from sdlgm.model.slots import KL
from sdlgm.train.batches import Rows, dense, threshold

# Rows that are encoded or decoded at a time.
_BATCH = 1000
# Rows for which relaxed samples are drawn at a time: each needs max_active x n_components numbers, but on the CPU.
_RELAXED_BATCH = 100
# Rows on which a run without a validation split is watched.
_WATCHED_ROWS = 500
# Rows that are held out of files at the most.
_MOST_HELD_OUT = 10_000

LikelihoodName = Literal["bernoulli", "gaussian"]


@dataclass(frozen=True)
class _Fitting:
    """What a fit makes, before the estimator takes it over."""

    likelihood: LikelihoodName
    scaling: Scaling
    trainer: train.Trainer


def _settings_of(config: ModelConfig) -> dict[str, Any]:
    """What a model was made with but for the data, by the names of the parameters."""
    settings = asdict(config)
    del settings["n_inputs"]
    return {"n_components": settings.pop("n_features"), "max_active": settings.pop("n_slots"), **settings}


class SDLGM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TorchEstimator):
    """Sparse discrete codes with a hard budget.

    Every observation is described by at most ``max_active`` out of ``n_components`` features, and the model learns how
    many each one needs. It maximises, with respect to encoder, decoder and (if ``learn_prior``) prior, the bound

        E_q[log p(x | z)] - KL(q(z | x), p(z))

    on log p(x), where z counts how often each feature is present in ``max_active`` slots, or with ``posterior="chain"``
    and ``"subset"`` says whether it is. Under the prior a slot is on with probability ``gate_prior`` and then holds a
    feature drawn from ``feature_prior``.

    Parameters
    ----------
    n_components : int, default=200
        Number of features, K.
    max_active : int, default=40
        Number of slots, L0. No code has more active slots, and so no more non-zeros, than this.
    gate_prior : float, default=0.5
        Prior probability that a slot is on, lambda_0; where it starts if ``learn_prior``.
    learn_prior : bool, default=True
        Learn gate and feature prior from the end of the KL warm-up on. The paper keeps them fixed.
    hidden : tuple of int, default=(512, 384, 256)
        Hidden layers of the encoder; the decoder has the same in reverse.
    gate_hidden : tuple of int, default=(64,)
        Hidden layers of the gate network of the shared posterior. The paper's, which starts from x, has (256, 64).
    activation : {"silu", "relu"}, default="silu"
        Between the layers of all networks. The paper does not name its own.
    share_layers : bool, default=True
        Let the gate network of the shared posterior continue from the encoder's last hidden layer. In the paper it
        starts from x, which takes longer.
    normalize_logits : bool, default=True
        Standardise the feature logits over the batch, with one learned gain. The paper does not.
    likelihood : {"auto", "bernoulli", "gaussian"}, default="auto"
        Distribution of an observation given its code. ``"auto"`` takes Bernoulli if all training data are in [0, 1]
        and Gaussian otherwise. For the Gaussian the data are standardised internally; results are in their own units.
    binarize : {"dynamic", "threshold", "probability"}, default="dynamic"
        What the Bernoulli likelihood makes of values between 0 and 1: a fresh draw every time they are seen, a
        threshold at one half, or the values themselves as probabilities. It changes the bound by tens of nats on grey
        images, and nothing on binary data.
    posterior : {"chain", "subset", "ordered", "shared"}, default="chain"
        Family of q(z given x). All have the same prior over counts, of which the decoder sees the counts, or with
        ``"chain"`` and ``"subset"`` which features are present; `docs/model.md` compares them.

        - ``"chain"``: each feature is present or not, depending on x and on the features before it. The tightest bound.
        - ``"subset"``: the same without looking at other features; all gradients are defined for it.
        - ``"ordered"``: how many features, and one distribution over features for each position; the first features of
          a code are a code of their own (``transform(X, budget=m)``).
        - ``"shared"``: the paper's, one gate probability and one feature distribution for all slots.
    gradient : str, default="reinmax"
        How to differentiate through the discrete draw: ``"reinmax"``, ``"straight_through"``, ``"darn"``,
        ``"annealed_straight_through"``, ``"score_function"`` or ``"leave_one_out"``; for other posteriors than
        ``"chain"`` also ``"gumbel_softmax"``, ``"straight_through_gumbel"`` or ``"muprop"``; for ``"subset"`` and
        ``"ordered"`` also ``"gumbel_rao"``; for ``"subset"`` also ``"disarm"``. See `sdlgm.gradients`.
    kl : {"exact", "paper"}, default="exact"
        The paper also charges closed slots for a feature that nobody sees; the exact divergence is smaller. Of the
        posteriors only ``"shared"`` knows the paper's.
    n_samples : int, default=1
        Monte Carlo samples an observation, S.
    gate_temperature, feature_temperature : float, default=1.0
        Temperatures of the relaxation, tau and tau_z; where they start if learned or on a schedule. Only
        ``posterior="shared"`` has gates of its own; the others relax everything at the temperature of the features.
    learn_temperature : bool, default=False
        Learn both temperatures by gradient, as in the paper.
    final_temperature : float or None, default=None
        Lead both temperatures to this value over the run.
    kl_warmup : float, default=0.3
        First fraction of ``max_iter`` over which the weight of the KL rises from 0 to 1.
    max_iter : int, default=10_000
        Iterations, each of one batch.
    batch_size : int, default=100
    learning_rate : float, default=3e-3
        Of Adam.
    lr_decay : float, default=0.5
        Last fraction of ``max_iter`` over which the learning rate falls linearly to zero.
    early_stopping : bool, default=False
        Set aside ``validation_fraction`` of the rows, stop when their discrete bound has not improved for
        ``n_iter_no_change`` monitorings (there are fifty in ``max_iter``, at least five iterations apart), and keep
        the best parameters.
    validation_fraction : float, default=0.1
        Of rows in files, whole row groups are set aside: as many as come near to it, and at least one.
    n_iter_no_change : int, default=10
    checkpoint_dir : path or None, default=None
        Folder for a checkpoint, written every ``checkpoint_every`` iterations and on SIGINT or SIGTERM.
    checkpoint_every : int, default=1000
    resume : bool, default=False
        Let `fit` continue from the checkpoint, if there is one. Needs an integer ``random_state``.
    random_state : int, RandomState or None, default=None
        An integer makes everything reproducible: the same seed gives the same model, bit for bit, on the CPU.
    device : str, default="cpu"
        Any torch device.
    devices : int, default=1
        Processes on this machine, or on each of several, that `fit` trains the model with; every batch is divided among
        them. They are started by `fit`, unless torchrun or SLURM has started this process as one of them.
    num_nodes : int, default=1
        Number of machines.
    strategy : str, default="auto"
        How processes are started and connected, as Lightning Fabric calls it.
    compile : bool, default=False
        Let `torch.compile` fuse the networks. Needs a C++ compiler and takes up to a minute at the first iteration; the
        results differ by rounding only. On a CPU, where the time goes into matrix products, there is little to gain.
    verbose : int, default=0
        Show a progress bar if not 0.

    Attributes
    ----------
    likelihood_ : {"bernoulli", "gaussian"}
        The distribution in use.
    gate_prior_ : float
        Prior probability that a slot is on.
    feature_prior_ : ndarray of shape (n_components,)
        Prior distribution of the feature in a slot that is on.
    n_iter_ : int
        Iterations done.
    history_ : list of Record
        The training curves, one `sdlgm.train.Record` for each point.
    module_ : SDLGMModule
        The fitted torch module.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.

    References
    ----------
    Z. Xu, D. Onoro Rubio, G. Serra, M. Niepert, "Learning Sparsity of Representations with Discrete Latent Variables",
    IJCNN 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sdlgm import SDLGM
    >>> X = load_digits().data / 16
    >>> model = SDLGM(n_components=32, max_active=8, hidden=(64,), gate_hidden=(16,), max_iter=50, random_state=0)
    >>> codes = model.fit_transform(X)
    >>> codes.shape, int(codes.sum(axis=1).max()) <= 8
    ((1797, 32), True)

    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    likelihood_: LikelihoodName

    _module_class: ClassVar[type[SDLGMModule]] = SDLGMModule
    _processes: train.Processes = train.ALONE

    _parameter_constraints: dict[str, list[Any]] = {
        **COMMON_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_active": [Interval(Integral, 1, None, closed="left")],
        "gate_prior": [Interval(Real, 0, 1, closed="neither")],
        "learn_prior": ["boolean"],
        "gate_hidden": [tuple, list],
        "share_layers": ["boolean"],
        "normalize_logits": ["boolean"],
        "likelihood": [StrOptions({"auto", "bernoulli", "gaussian"})],
        "binarize": [StrOptions({"dynamic", "threshold", "probability"})],
        "posterior": [StrOptions(set(POSTERIORS))],
        "gradient": [StrOptions(set(GRADIENTS))],
        "kl": [StrOptions({"exact", "paper"})],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "gate_temperature": [Interval(Real, 0, None, closed="neither")],
        "feature_temperature": [Interval(Real, 0, None, closed="neither")],
        "learn_temperature": ["boolean"],
        "final_temperature": [Interval(Real, 0, None, closed="neither"), None],
        "kl_warmup": [Interval(Real, 0, 1, closed="both")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "devices": [Interval(Integral, 1, None, closed="left")],
        "num_nodes": [Interval(Integral, 1, None, closed="left")],
        "strategy": [str],
        "compile": ["boolean"],
    }

    def __init__(
        self,
        *,
        n_components: int = 200,
        max_active: int = 40,
        gate_prior: float = 0.5,
        learn_prior: bool = True,
        hidden: tuple[int, ...] = (512, 384, 256),
        gate_hidden: tuple[int, ...] = (64,),
        activation: str = "silu",
        share_layers: bool = True,
        normalize_logits: bool = True,
        likelihood: str = "auto",
        binarize: str = "dynamic",
        posterior: str = "chain",
        gradient: str = "reinmax",
        kl: str = "exact",
        n_samples: int = 1,
        gate_temperature: float = 1.0,
        feature_temperature: float = 1.0,
        learn_temperature: bool = False,
        final_temperature: float | None = None,
        kl_warmup: float = 0.3,
        max_iter: int = 10_000,
        batch_size: int = 100,
        learning_rate: float = 3e-3,
        lr_decay: float = 0.5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 1000,
        resume: bool = False,
        random_state: RandomState = None,
        device: str = "cpu",
        devices: int = 1,
        num_nodes: int = 1,
        strategy: str = "auto",
        compile: bool = False,  # noqa: A002 - what torch calls it
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.max_active = max_active
        self.gate_prior = gate_prior
        self.learn_prior = learn_prior
        self.hidden = hidden
        self.gate_hidden = gate_hidden
        self.activation = activation
        self.share_layers = share_layers
        self.normalize_logits = normalize_logits
        self.likelihood = likelihood
        self.binarize = binarize
        self.posterior = posterior
        self.gradient = gradient
        self.kl = kl
        self.n_samples = n_samples
        self.gate_temperature = gate_temperature
        self.feature_temperature = feature_temperature
        self.learn_temperature = learn_temperature
        self.final_temperature = final_temperature
        self.kl_warmup = kl_warmup
        self.max_iter = max_iter
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
        self.devices = devices
        self.num_nodes = num_nodes
        self.strategy = strategy
        self.compile = compile
        self.verbose = verbose

    # Fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, callback: Callable[[SDLGMModule, int], None] | None = None) -> Self:
        """Fit the model to X of shape (n_samples, n_features_in); y is ignored.

        X may also be the path of a file or of a folder, or an iterator of batches of rows. Rows of ``.parquet`` and
        ``.npy`` files, and of folders of either, are read as they are needed and may be larger than memory; those of an
        iterator are kept in a temporary folder for the time of the fit. All other methods take such an X as well.

        ``callback(module, iteration)``, if given, is called after every iteration; what it draws or changes the mode of
        is its own affair, but it must leave the module as it found it.
        """
        self._check_settings()
        if self.devices * self.num_nodes > 1:
            self._check_several(callback)
            _distributed.fit(self, SpooledRows(X) if is_stream(X) else X)
            return self
        with self._all_or_nothing():
            return self._fit(X, callback)

    def _fit(self, X, callback: Callable[[SDLGMModule, int], None] | None = None) -> Self:
        """Fit, as the only process or as one of several."""
        rows = self._validated(rows_of(X), reset=True, min_rows=2)
        seed = self._seed_of(self.random_state)
        if isinstance(rows, RowFiles):
            return self._fit_files(rows, seed, callback)
        likelihood = self._chosen_likelihood(lambda: in_unit_interval(rows))
        if self.early_stopping:
            split: Any = train_test_split(rows, test_size=self.validation_fraction, random_state=seed)
            rows, watched = split
            if rows.shape[0] < 2:
                raise ValueError("early_stopping=True leaves fewer than 2 rows to train on; give more rows")
        else:
            order = np.random.default_rng(seed).permutation(rows.shape[0])
            watched = rows[order[:_WATCHED_ROWS]]
        self._check_parts_of_batches(rows.shape[0])
        fitting = self._start(Columns.of(rows), likelihood, seed)
        batches = train.ShuffledBatches(rows, self.batch_size, seed, fitting.scaling.apply)
        return self._run(fitting, batches, self._monitor(fitting, watched, seed), seed, callback)

    def _check_several(self, callback: Any) -> None:
        """What several processes cannot do."""
        n = self.devices * self.num_nodes
        if self.batch_size % n or self.batch_size < 2 * n:
            raise ValueError(
                f"batch_size={self.batch_size} cannot be divided among {n} processes; each needs as many rows, and two "
                "or more"
            )
        if not isinstance(self.random_state, Integral):
            raise ValueError("several processes need an integer random_state, to begin with the same parameters")
        if callback is not None:
            raise ValueError("a callback cannot be sent to other processes; fit with devices=1")
        if not GRADIENTS[str(self.gradient)].shareable:
            raise ValueError(f"gradient={self.gradient!r} cannot be shared by several processes; use 'reinmax'")

    def _check_parts_of_batches(self, n_rows: int) -> None:
        """Several processes share whole batches only; one alone makes do with fewer rows."""
        if self.devices * self.num_nodes > 1 and n_rows < self.batch_size:
            raise ValueError(
                f"batch_size={self.batch_size}, and there are {n_rows} rows to train on; set a smaller one"
            )

    def _fit_files(self, rows: RowFiles, seed: int, callback: Callable[[SDLGMModule, int], None] | None) -> Self:
        """Fit to rows that need not fit into memory: one pass to see what they are like, then batches from parts."""
        rng = np.random.default_rng(seed)
        watched, chosen = None, list(range(len(rows.parts)))
        if self.early_stopping:
            watched, chosen = self._held_out(rows, rng)
        survey, likelihood = self._surveyed(rows, chosen)
        if watched is None:
            places = np.sort(rng.choice(len(rows), min(_WATCHED_ROWS, len(rows)), replace=False))
            # Copies: a row that is a view would keep all rows of its part.
            watched = np.concatenate([rows[place : place + 1].copy() for place in places.tolist()])
        fitting = self._start(survey.columns, likelihood, seed)
        batches = train.StreamedBatches(rows, chosen, self.batch_size, seed, survey.fingerprint, fitting.scaling.apply)
        self._check_parts_of_batches(batches.n_rows)
        try:
            return self._run(fitting, batches, self._monitor(fitting, watched, seed), seed, callback)
        finally:
            batches.close()

    def _surveyed(self, rows: RowFiles, chosen: Collection[int]) -> tuple[Survey, LikelihoodName]:
        """What rows in files are like (the columns: those of the chosen parts), and the likelihood, checked."""
        survey = Survey.of(rows, chosen)
        likelihood = self._chosen_likelihood(lambda: survey.in_unit_interval)
        if likelihood == "bernoulli":
            check_unit_interval(survey.in_unit_interval)
        return survey, likelihood

    def _held_out(self, rows: RowFiles, rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
        """Rows of whole parts to watch, no more than fit into memory, and the parts that are left to train on.

        As many parts as come near to the fraction, and at least the smallest.
        """
        sizes = [part.n_rows for part in rows.parts]
        wanted, most = self.validation_fraction * len(rows), len(rows) - 2
        held_out: list[int] = []
        n_rows = 0
        for number in rng.permutation(len(sizes)).tolist():
            n_more = n_rows + sizes[number]
            if abs(n_more - wanted) < abs(n_rows - wanted) and n_more <= most:
                held_out.append(number)
                n_rows = n_more
        if not held_out and len(sizes) > 1 and min(sizes) <= most:
            held_out = [int(np.argmin(sizes))]
        if not held_out:
            raise ValueError(
                "early_stopping=True sets whole row groups aside, and these are too few; write the rows in several"
            )
        kept = sorted(set(range(len(sizes))) - set(held_out))
        size = -(-_MOST_HELD_OUT // len(held_out))
        watched = np.concatenate([rows.read(rows.parts[number])[:size].copy() for number in held_out])
        return watched, kept

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None) -> Self:
        """One pass over the rows of X in the order given, at the constant ``learning_rate``; all of it or nothing.

        The first call fixes the likelihood and, for continuous data, the scaling and which columns are constant. The KL
        is warmed up over the first ``kl_warmup * max_iter`` iterations, whichever calls they come from. Settings of the
        training may differ from those of earlier calls, those of the model may not. y is ignored.
        """
        self._check_settings()
        first = not hasattr(self, "module_")
        rows = self._validated(rows_of(X), reset=first, min_rows=2)
        seed = self._seed_of(self.random_state)
        if first:
            if isinstance(rows, RowFiles):
                survey, likelihood = self._surveyed(rows, range(len(rows.parts)))
                columns = survey.columns
            else:
                columns, likelihood = Columns.of(rows), self._chosen_likelihood(lambda: in_unit_interval(rows))
            fitting, history = self._start(columns, likelihood, seed), []
        else:
            fitting, history = self._fitting, self.history_
            self._check_same_model()
            if GRADIENTS[str(self.gradient)].steepens != self.module_.steep:
                raise ValueError(
                    "gradient='annealed_straight_through' makes the posterior itself steeper, so a model stays with it "
                    "or without it; use fit for the other one"
                )
            for _ in self._batches(rows):  # refuse bad values before anything changes
                pass
        trainer = fitting.trainer
        before = trainer.snapshot()
        parts = max(1, rows.shape[0] // self.batch_size)
        try:
            trainer.configure(replace(self._train_config(fitting.likelihood), lr_decay=0.0))
            for batch in in_parts(rows, parts):
                trainer.step(train.to_tensor(fitting.scaling.apply(batch), trainer.device))
            trainer.check_finite()
            record = self._monitor(fitting, rows[:_WATCHED_ROWS], seed)(trainer)
            record.check_finite()
        except BaseException:  # divergence, or Ctrl-C: half a pass is no pass
            trainer.go_back(before)
            trainer.module.eval()
            raise
        return self._publish(fitting, [*history, record])

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.learn_temperature and self.final_temperature is not None:
            raise ValueError("learn_temperature=True and final_temperature exclude each other; set one of them")
        if self.compile and not has_compiler(self.device):
            raise ValueError("compile=True needs a C++ compiler (such as g++), and there is none; set compile=False")
        if self.kl_warmup == 1 and (self.learn_prior or self.early_stopping):
            raise ValueError("learn_prior and early_stopping begin after the KL warm-up; set kl_warmup below 1")
        gradient, family = GRADIENTS[str(self.gradient)], self._module_class.posteriors[str(vars(self)["posterior"])]
        if self.kl == "paper" and family is not POSTERIORS["shared"]:
            raise ValueError("kl='paper' is that of posterior='shared'; set that posterior, or kl='exact'")
        if family.kind not in gradient.defined_for:
            possible = [name for name, estimator in GRADIENTS.items() if family.kind in estimator.defined_for]
            raise ValueError(
                f"gradient={self.gradient!r} is not defined for posterior={vars(self)['posterior']!r}; "
                f"use one of {', '.join(possible)}"
            )

    def _check_same_model(self) -> None:
        """Settings of the model, and not of its training, stay what they were."""
        there = _settings_of(self.module_.config)
        there["learn_temperature"] = self._fitting.trainer.config.learn_temperature
        likelihood = self._chosen_likelihood(lambda: self.likelihood_ == "bernoulli")
        wanted = _settings_of(self._model_config(self.n_features_in_, likelihood))
        wanted["learn_temperature"] = bool(self.learn_temperature)
        for name, value in there.items():
            if wanted[name] != value:
                raise ValueError(f"the model has {name}={value!r}, and goes on with that; use fit for another one")

    def _start(self, columns: Columns, likelihood: LikelihoodName, seed: int) -> _Fitting:
        """Everything that has to exist before the first iteration."""
        n_inputs = len(columns.mean)
        gaussian = likelihood == "gaussian"
        scaling = Scaling.standardizing(columns) if gaussian else Scaling.identity(n_inputs)
        data_mean = np.zeros_like(columns.mean) if gaussian else columns.mean
        device = usable_device(self.device)
        config = self._model_config(n_inputs, likelihood)
        module = train.seeded(lambda: self._module_class(config), seed)
        module.adapt_to(torch.tensor(data_mean, dtype=torch.float32), torch.tensor(columns.varies))
        if self.compile:
            module.compile_networks()
        trainer = train.Trainer(module.to(device), self._train_config(likelihood), seed, self._processes)
        return _Fitting(likelihood, scaling, trainer)

    def _publish(self, fitting: _Fitting, history: list[train.Record]) -> Self:
        """Make what was fitted the estimator's own, all at once."""
        self._fitting = fitting
        self.likelihood_ = fitting.likelihood
        self.module_ = fitting.trainer.module.eval()
        self.n_iter_ = fitting.trainer.iteration
        self.history_ = history
        with torch.no_grad():
            prior = self.module_.prior()
            self.gate_prior_ = float(prior.gate_prob)
            self.feature_prior_ = prior.feature_probs.cpu().numpy()
        return self

    def _chosen_likelihood(self, all_in_unit_interval: Callable[[], bool]) -> LikelihoodName:
        """The one that was set, or that of the values, which then have to be looked at."""
        if self.likelihood == "auto":
            return "bernoulli" if all_in_unit_interval() else "gaussian"
        return cast(LikelihoodName, self.likelihood)

    def _model_config(self, n_inputs: int, likelihood: LikelihoodName) -> ModelConfig:
        return ModelConfig(
            n_inputs=n_inputs,
            n_features=int(self.n_components),
            n_slots=int(self.max_active),
            gate_prior=float(self.gate_prior),
            learn_prior=bool(self.learn_prior),
            hidden=tuple(int(width) for width in self.hidden),
            gate_hidden=tuple(int(width) for width in self.gate_hidden),
            activation=str(self.activation),
            share_layers=bool(self.share_layers),
            normalize_logits=bool(self.normalize_logits),
            posterior=str(vars(self)["posterior"]),
            likelihood=likelihood,
            gate_temperature=float(self.gate_temperature),
            feature_temperature=float(self.feature_temperature),
        )

    def _train_config(self, likelihood: LikelihoodName) -> train.TrainConfig:
        return train.TrainConfig(
            max_iter=int(self.max_iter),
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            lr_decay=float(self.lr_decay),
            kl_warmup=float(self.kl_warmup),
            final_temperature=None if self.final_temperature is None else float(self.final_temperature),
            learn_temperature=bool(self.learn_temperature),
            gradient=str(self.gradient),
            n_samples=int(self.n_samples),
            kl=cast(KL, str(self.kl)),
            binarize=str(self.binarize) if likelihood == "bernoulli" else None,
            n_iter_no_change=int(self.n_iter_no_change) if self.early_stopping else None,
        )

    def _monitor(self, fitting: _Fitting, rows: Rows, seed: int) -> train.Monitor:
        return train.Monitor(rows, seed, prepare=fitting.scaling.apply, log_jacobian=fitting.scaling.log_jacobian)

    # Codes

    def fit_transform(self, X, y=None, **fit_params) -> sp.csr_matrix:
        """`fit`, then `transform` of the same rows; those of an iterator are kept for both."""
        rows = rows_of(X)
        return self.fit(rows, y, **fit_params).transform(rows)

    def transform(self, X, *, n_candidates: int = 0, budget: int | None = None) -> sp.csr_matrix:
        """Code each row by the most probable code under q(z given x).

        With ``posterior="ordered"`` that is the most probable length and the most probable feature at each position;
        with ``"chain"`` the code is found feature after feature, each time the more probable choice.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in)
        n_candidates : int, default=0
            Draw this many further codes from q(z given x), with a fixed seed, and keep for each row the one with the
            largest p(x, z) of all. The draws of a row depend on its place in X.
        budget : int or None, default=None
            Keep only the first so many features of each code, which are a coarser code of their own. Only with
            ``posterior="ordered"``, whose features come with the most important one first.

        Returns
        -------
        codes : CSR matrix of int of shape (n_samples, n_components)
            Counts. Each row adds up to at most ``max_active``, so it has at most that many non-zeros.

        """
        check_is_fitted(self)
        return self._encode(X, self._coding(n_candidates, budget))

    def transform_batches(
        self, batches: Iterable[Any], *, n_candidates: int = 0, budget: int | None = None
    ) -> Iterator[sp.csr_matrix]:
        """Code one batch of rows after the other, for data that are larger than memory or still on their way.

        Each batch is something that `transform` takes and comes out as its codes; nothing of it is kept. Errors say
        with which row of all batches the one at fault begins.
        """
        check_is_fitted(self)
        return self._encode_batches(batches, self._coding(n_candidates, budget))

    def _encode_batches(self, batches: Iterable[Any], code: Callable[[Tensor], Tensor]) -> Iterator[sp.csr_matrix]:
        first_row = 0
        for X in batches:
            try:
                codes = self._encode(X, code)
            except ValueError as error:
                kind = DataError if isinstance(error, DataError) else ValueError
                raise kind(f"in the batch that begins with row {first_row}: {error}") from error
            yield codes
            first_row += codes.shape[0]

    def _coding(self, n_candidates: int, budget: int | None) -> Callable[[Tensor], Tensor]:
        check_count("n_candidates", n_candidates, 0)
        if budget is not None:
            return self._coarse_coding(n_candidates, budget)
        generator = self._generator(0)
        return lambda x: self._best_codes(x, n_candidates, generator)

    def _coarse_coding(self, n_candidates: int, budget: int) -> Callable[[Tensor], Tensor]:
        check_count("budget", budget, 0)
        family = self.module_.config.posterior
        if family != "ordered":
            raise ValueError(
                f"budget={budget} needs posterior='ordered', whose features have an order; "
                f"this model has posterior={family!r}"
            )
        if n_candidates:
            raise ValueError("budget and n_candidates exclude each other; set one of them")

        def code(x: Tensor) -> Tensor:
            return cast(OrderedDistribution, self.module_.inference(x)).mode(budget).cpu()

        return code

    def sample_codes(self, X, *, random_state: RandomState = None) -> sp.csr_matrix:
        """Draw a code for each row from q(z given x); the budget holds as for `transform`."""
        check_is_fitted(self)
        generator = self._generator(random_state)
        return self._encode(X, lambda x: self.module_.inference(x).sample(1, generator)[0])

    def _encode(self, X, code: Callable[[Tensor], Tensor]) -> sp.csr_matrix:
        if is_stream(X):
            parts = list(self._encode_batches(X, code))
            if not parts:
                raise ValueError("the batches have no rows")
            return sp.csr_matrix(sp.vstack(parts, format="csr"))
        rows = self._fitted_rows(X)
        with torch.inference_mode():
            return stacked([sparse_rows(code(x)) for x in self._batches(rows)], self._n_features_out)

    def _best_codes(self, x: Tensor, n_candidates: int, generator: torch.Generator) -> Tensor:
        posterior = self.module_.inference(x)
        mode = posterior.mode()
        if n_candidates == 0:
            return mode
        best = mode = mode.to(x)
        best_score = self.module_.log_prior(mode) + self.module_.log_likelihood(x, mode[None])[0]
        for _ in range(n_candidates):
            counts = posterior.sample(1, generator)[0]
            score = self.module_.log_prior(counts) + self.module_.log_likelihood(x, counts[None])[0]
            best = torch.where((score > best_score)[:, None], counts, best)
            best_score = torch.maximum(score, best_score)
        return best

    def inverse_transform(self, codes) -> np.ndarray:
        """Decode: the mean of p(x given z) for each row of ``codes``, dense, of shape (n_samples, n_features_in).

        With ``posterior="chain"`` and ``"subset"``, whose codes are sets, a feature that is there twice counts once.
        """
        check_is_fitted(self)
        codes = check_codes(codes, self.module_.config.n_features, self.module_.config.n_slots)
        return self._decode(codes, self.module_.likelihood.mean)

    def sample(self, n_samples: int = 1, *, random_state: RandomState = None) -> np.ndarray:
        """Draw new observations: codes from the prior, then x from p(x given z).

        With ``posterior="chain"`` and ``"subset"``, whose codes are sets, a feature that is drawn twice counts once.
        """
        check_is_fitted(self)
        check_count("n_samples", n_samples, 1)
        generator = self._generator(random_state)
        with torch.inference_mode():
            counts = self.module_.prior().expand(n_samples).sample(1, generator)[0]
            codes = sp.csr_matrix(counts.cpu().numpy())
        return self._decode(codes, lambda output: self.module_.likelihood.sample(output, generator))

    def _decode(self, codes: Rows, observation: Callable[[Tensor], Tensor]) -> np.ndarray:
        device = self._fitting.trainer.device
        parts = []
        with torch.inference_mode():
            for batch in in_batches(codes, _BATCH):
                counts = self.module_.seen(train.to_tensor(batch, device))
                x = observation(self.module_.generative(counts))
                parts.append(self._fitting.scaling.undo(x.cpu().numpy()))
        return np.concatenate(parts) if parts else np.empty((0, self.n_features_in_))

    @property
    def posterior(self) -> PosteriorSetting:
        """The posterior family, by name; called with X it gives the parameters of q(z given x).

        ``model.posterior(X)`` has ``gate_prob`` (n,) and ``feature_probs`` (n, n_components); for ``"chain"`` they are
        estimated by draws, the same for every row.
        """
        return PosteriorSetting(vars(self)["posterior"], self._posterior_probs)

    @posterior.setter
    def posterior(self, value: str) -> None:
        vars(self)["posterior"] = str(value) if isinstance(value, PosteriorSetting) else value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name; `posterior` as the plain name that was given."""
        return super().get_params(deep) | {"posterior": vars(self)["posterior"]}

    def _posterior_probs(self, X) -> PosteriorProbs:
        rows = self._fitted_rows(X)
        gate_prob, feature_probs = [], []
        with torch.inference_mode():
            for x in self._batches(rows):
                posterior = self.module_.inference(x)
                if isinstance(posterior, ChainDistribution):
                    posterior = replace(posterior, common_noise=True)
                gate_prob.append(posterior.gate_prob.cpu().numpy())
                feature_probs.append(posterior.feature_probs.cpu().numpy())
        return PosteriorProbs(np.concatenate(gate_prob), np.concatenate(feature_probs))

    # Bounds

    def elbo(
        self,
        X,
        *,
        bound: Literal["discrete", "relaxed"] = "discrete",
        n_importance: int = 1,
        random_state: RandomState = None,
    ) -> np.ndarray:
        """The bound on log p(x) for each row, in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in)
        bound : {"discrete", "relaxed"}, default="discrete"
            ``"discrete"`` is a bound, from the codes themselves. ``"relaxed"`` is the paper's criterion, which is none.
            What is bounded depends on ``binarize`` for values between 0 and 1: log p of one binary draw
            (``"dynamic"``), of the thresholded values, or the mean log p of all binary draws (``"probability"``).
        n_importance : int, default=1
            With M > 1, the tighter M-sample importance-weighted discrete bound.
        random_state : int, RandomState or None, default=None
            For the samples; None takes the estimator's own.

        Returns
        -------
        values : ndarray of shape (n_samples,)

        """
        rows = self._fitted_rows(X)
        if bound not in ("discrete", "relaxed"):
            raise ValueError(f"bound={bound!r}; it is 'discrete' or 'relaxed'")
        check_count("n_importance", n_importance, 1)
        if n_importance > 1 and bound == "relaxed":
            raise ValueError("n_importance is above 1 only with bound='discrete'")
        generator = self._generator(random_state)
        n_samples = self._fitting.trainer.config.n_samples

        def values(x: Tensor) -> Tensor:
            if n_importance > 1:
                return self.module_.importance_weighted_bound(x, n_importance, generator)
            if bound == "relaxed":
                expectation = relaxed_expectation(n_samples, self.module_.temperatures, generator)
            else:
                expectation = discrete_expectation(n_samples, generator)
            return self.module_.elbo(x, expectation, self._kl).value

        size = _RELAXED_BATCH if bound == "relaxed" else _BATCH
        parts = []
        with torch.inference_mode():
            for batch in self._batches(rows, size):
                x = train.binarize(batch, self._fitting.trainer.config.binarize, generator)
                parts.append(values(x).cpu().numpy().astype(np.float64))
        return np.concatenate(parts) + self._fitting.scaling.log_jacobian

    def score(self, X, y=None) -> float:
        """Mean discrete bound on log p(x), in nats; y is ignored."""
        return float(self.elbo(X).mean())

    def evaluate(self, X, *, random_state: RandomState = None) -> Evaluation:
        """Both bounds, what codes carry and cost, how sparse they are and how well they decode."""
        X = rows_of(X)
        rows = self._fitted_rows(X)
        codes = self.transform(X)
        n_active = np.asarray(codes.sum(axis=1)).ravel()
        generator = self._generator(random_state)
        totals = np.zeros(4)
        presence = np.zeros(codes.shape[1])
        with torch.inference_mode():
            prior = self.module_.prior()
            for batch in self._batches(rows):
                x = train.binarize(batch, self._fitting.trainer.config.binarize, generator)
                posterior = self.module_.inference(x)
                terms = posterior.prior_terms(prior, self._kl)
                parts = terms.kl, terms.kl_gates, terms.kl_features, self.module_.config.n_slots * posterior.gate_prob
                totals += [float(part.cpu().double().sum()) for part in parts]
                presence += posterior.presence.cpu().double().sum(0).numpy()
        kl, kl_gates, kl_features, n_active_expected = (totals / codes.shape[0]).tolist()
        return Evaluation(
            n_rows=codes.shape[0],
            max_active=int(self.module_.config.n_slots),
            n_components=codes.shape[1],
            discrete=float(self.elbo(X, random_state=random_state).mean()),
            relaxed=float(self.elbo(X, bound="relaxed", random_state=random_state).mean()),
            kl=kl,
            kl_gates=kl_gates,
            kl_features=kl_features,
            n_active_expected=n_active_expected,
            n_active_mean=float(n_active.mean()),
            n_active_max=int(n_active.max()),
            code_bits=self._code_bits(codes),
            features_used=int(np.count_nonzero(np.asarray(codes.sum(axis=0)))),
            features_alive=int(np.count_nonzero(presence / codes.shape[0] >= 1e-3)),
            reconstruction_error=self._reconstruction_error(rows, codes),
        )

    def _code_bits(self, codes: sp.csr_matrix) -> float:
        device, total = self._fitting.trainer.device, 0.0
        with torch.inference_mode():
            for code in in_batches(codes, _BATCH):
                counts = train.to_tensor(code, device)
                total -= float(self.module_.log_prior(counts).cpu().double().sum())
        return total / codes.shape[0] / math.log(2)

    def _reconstruction_error(self, rows: Rows, codes: sp.csr_matrix) -> float:
        total = 0.0
        for batch, code in zip(in_batches(rows, _BATCH), in_batches(codes, _BATCH), strict=True):
            decoded = self._decode(code, self.module_.likelihood.mean)
            total += float(np.square(decoded - dense(batch), dtype=np.float64).sum())
        return total / (rows.shape[0] * rows.shape[1])

    # Files

    def _fitted_params(self) -> dict[str, Any]:
        settings = _settings_of(self.module_.config)
        del settings["likelihood"]  # since it may be "auto", apart in the document
        training = self._fitting.trainer.config
        return {
            **settings,
            "kl": training.kl,
            "n_samples": training.n_samples,
            "gradient": training.gradient,
            "binarize": training.binarize or self.binarize,
        }

    def _fitted_document(self) -> dict[str, Any]:
        return {"likelihood": self.likelihood_}

    def _module_of(self, document: dict[str, Any]) -> Callable[[], SDLGMModule]:
        config = self._model_config(self.n_features_in_, document["likelihood"])
        return lambda: self._module_class(config)

    def _restored(self, document, tensors, module, scaling, n_iter, seed, history) -> Self:
        likelihood = document["likelihood"]
        trainer = train.Trainer(module, self._train_config(likelihood), seed)
        trainer.iteration = n_iter
        return self._publish(_Fitting(likelihood, scaling, trainer), history)

    # Shared by the above

    def _validated(self, X, *, reset: bool, min_rows: int = 1, check_finite: bool = True) -> Any:
        if isinstance(X, RowFiles):  # the first row tells the columns; values are checked as they are read
            if len(X) < min_rows:
                raise ValueError(f"{X.name}: has {len(X)} rows, and {min_rows} are needed")
            validate_data(self, X.head, reset=reset, dtype=[np.float64, np.float32])
            return X
        rows: Any = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=min_rows,
            ensure_all_finite=check_finite,
        )
        if reset and self.likelihood == "bernoulli":
            check_unit_interval(in_unit_interval(rows))
        return rows

    def _fitted_rows(self, X) -> Rows:
        check_is_fitted(self)
        return self._validated(rows_of(X), reset=False, check_finite=False)  # `_batches` does that

    def _batches(self, rows: Rows, size: int = _BATCH) -> Iterator[Tensor]:
        """Rows as the encoder sees them when nothing is drawn: scaled, or thresholded, or as they are.

        Values that the likelihood cannot have are refused here, while the batch is in the processor's cache.
        """
        trainer = self._fitting.trainer
        for number, batch in enumerate(in_batches(rows, size)):
            bernoulli = self.likelihood_ == "bernoulli"
            if not (bernoulli and in_unit_interval(batch)):
                assert_all_finite(batch, estimator_name=type(self).__name__, input_name="X")
                if bernoulli:
                    check_unit_interval(in_unit_interval(batch))
            values = self._fitting.scaling.apply_checked(batch, first_row=number * size)
            x = train.to_tensor(values, trainer.device)
            yield threshold(x) if trainer.config.binarize == "threshold" else x

    @property
    def _kl(self) -> KL:
        return self._fitting.trainer.config.kl

    def _generator(self, random_state: RandomState) -> torch.Generator:
        return self._generator_on(self._fitting.trainer.device, random_state)

    @property
    def _n_features_out(self) -> int:
        return self.module_.config.n_features

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags
