"""The unsupervised estimator: its parameters and its public methods."""

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sdlgm import train
from sdlgm._progress import Progress
from sdlgm.data import RowFiles, SpooledRows, is_stream, rows_of
from sdlgm.errors import DataError
from sdlgm.estimators import _diagnosis, _evaluation, _refinement, _scores
from sdlgm.estimators._base import COMMON_CONSTRAINTS, Limits, RandomState, TorchEstimator, check_widths
from sdlgm.estimators._checks import check_count, check_positive, has_compiler, usable_device, without_names_warning
from sdlgm.estimators._codes import check_codes, sparse_rows, stack_rows
from sdlgm.estimators._columns import Choice, choose, given
from sdlgm.estimators._compat import Interval, Registered, StrOptions, fit_context
from sdlgm.estimators._compression import CompressionMixin
from sdlgm.estimators._containers import in_container
from sdlgm.estimators._distributed import fit_distributed
from sdlgm.estimators._fitted import Fitted, FittedSDLGM, code_values
from sdlgm.estimators._limits import LARGEST_BUDGET, LARGEST_N_SAMPLES, MOST_VALUES
from sdlgm.estimators._modelfile import loadable
from sdlgm.estimators._preparation import (
    WATCHED_ROWS,
    Columns,
    Scaling,
    Survey,
    TrainingData,
    check_unit_interval,
    in_parts,
    missing_shares,
    prepare_training,
    statistics_of,
)
from sdlgm.estimators._profile import Profile, in_proportion
from sdlgm.estimators._results import Evaluation, PosteriorProbs
from sdlgm.estimators._tables import decoded_table, validate_rows
from sdlgm.estimators._weights import checked_weights, weighted_rows
from sdlgm.estimators._widths import prior_width_for, widths_for
from sdlgm.gradients import GRADIENTS
from sdlgm.model.codes import KL
from sdlgm.model.codes.under_chain import ChainUnderChain
from sdlgm.model.likelihoods import LIKELIHOODS, Layout
from sdlgm.model.modules.base import Batch
from sdlgm.model.modules.search import MOST_STEPS
from sdlgm.model.modules.unsupervised import ModelConfig, SDLGMModule
from sdlgm.model.networks.posteriors import POSTERIORS, PosteriorNetwork
from sdlgm.model.noise import Noise
from sdlgm.train import clock
from sdlgm.train.batches import Binarize, Rows

LikelihoodName = Literal["auto", "bernoulli", "gaussian", "student_t", "poisson", "negative_binomial", "categorical"]
GradientName = Literal[
    "reinmax",
    "straight_through",
    "darn",
    "annealed_straight_through",
    "score_function",
    "leave_one_out",
    "gumbel_softmax",
    "straight_through_gumbel",
    "muprop",
    "gumbel_rao",
    "disarm",
]

FEW_FEATURES = 512
"""Largest number of features for which posteriors have full rank by default."""
RANK = 32
"""Rank of couplings, if none is given."""
BATCH, LARGE_BATCH = 100, 500
"""Rows of a batch by default: the large one for a fit that the time limits."""
RATE, RATE_OF_LARGE_BATCH = 3e-3, 6e-3
"""Learning rate by default, for batches smaller than the large one and for others."""
BOUNDS = ("training_bound", "validation_bound")
"""What is known of the bounds of a fit."""
FEW_ROWS, FEWEST_HELD_OUT = 5000, 20
"""With fewer rows in all, and as many to hold out, fits stop early by default."""
PRIOR_ROWS = 16
"""Rows of draws behind the marginals of a chain prior, with up to 16 draws each."""


@dataclass(frozen=True)
class Uninformed:
    """Bounds of a model that is the same for all rows: what training starts from."""

    watched: float
    trained: float
    """Of rows to train on that the watched ones are compared with."""


@loadable
class SDLGM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CompressionMixin, TorchEstimator[FittedSDLGM]):
    """Sparse discrete codes with a hard budget.

    Every observation is described by at most ``max_active`` out of ``n_components`` features, and the model learns how
    many each one needs. It maximises, with respect to encoder, decoder and (if ``learn_prior``) prior, the bound

        E_q[log p(x | z)] - KL(q(z | x), p(z))

    on log p(x), with the KL multiplied by ``rate``. The code z counts how often each feature is present in
    ``max_active`` slots; with ``posterior="chain"`` and ``"subset"`` it is the set of features that are present. With
    ``prior="slots"`` a slot is on with probability ``gate_prior`` and then holds a feature drawn from
    ``feature_prior``, independently of the other slots; with ``prior="chain"`` each feature depends on the features
    before it.

    Parameters
    ----------
    n_components : int, default=200
        Number of features, K.
    max_active : int, default=40
        Number of slots, L0. No code has more active slots, and so no more non-zeros, than this.
    prior : {"auto", "chain", "slots"}, default="auto"
        Family of p(z).

        - ``"chain"``: each feature depends on the features before it, so that features that go together cost fewer
          bits. Always learned; `fit` keeps the effects small if there are few rows. For ``posterior="chain"`` and
          ``"subset"``.
        - ``"slots"``: the paper's. Features are independent of each other.
        - ``"auto"``: ``"chain"`` where it can be used, otherwise (other posteriors, ``learn_prior=False``)
          ``"slots"``.
    prior_hidden : int, None or "auto", default="auto"
        Number of hidden units through which features act on later ones under ``prior="chain"``. None is no hidden
        layer: their effects add up, with ``prior_rank``. ``"auto"`` is 256 for up to 1,024 features, and for more
        features 262,144 / ``n_components``, but at least 64.
    prior_rank : int or None, default=None
        Rank of the matrix of effects in place of a hidden layer, at most ``n_components``. None takes 32, or
        ``n_components`` if that is less.
    gate_prior : float, default=0.5
        Prior probability that a slot is on, lambda_0; its initial value if ``learn_prior``. With ``prior="chain"``, the
        share of ``max_active`` that the prior expects at first.
    learn_prior : bool, default=True
        Learn the prior from the end of the KL warm-up on. The paper keeps it fixed.
    hidden : tuple of int or "auto", default="auto"
        Widths of the hidden layers of the encoder; the decoder has them in reverse. ``"auto"`` depends on the number of
        training rows, in `partial_fit` on that of the first call: no hidden layers below 1,000 rows, (128,) below
        5,000, and otherwise (512,). The paper has (512, 384, 256).
    gate_hidden : tuple of int, default=(64,)
        Widths of the hidden layers of the gate network of the shared posterior. The paper has (256, 64).
    activation : {"silu", "relu"}, default="silu"
        Activation function of all networks. The paper does not name its own.
    share_layers : bool, default=True
        Let the gate network of the shared posterior continue from the encoder's last hidden layer. In the paper it
        starts from x, which takes longer.
    normalize_logits : bool, default=True
        Standardise the feature logits over the batch, with one learned gain. The paper does not.
    likelihood : str or mapping from columns to str, default="auto"
        Distribution of each column given the code: one name for all, or names by column name or index, with ``"auto"``
        for the columns that are not named. `docs/likelihoods.md` says how to choose. Results are in the units of the
        data.

        - ``"auto"``: by the values of the column. Zeros and ones are Bernoulli, counts are Poisson or negative
          binomial, and everything else, grey values included, is Gaussian, or Student's t where tails are heavy.
        - ``"bernoulli"``: zeros and ones. If it is for all columns, values between are possible too; see ``binarize``.
        - ``"gaussian"``: continuous, standardised internally, with a learned deviation.
        - ``"student_t"``: continuous with heavy tails; values far from all others cost little.
        - ``"poisson"``, ``"negative_binomial"``: whole numbers from 0 on, the latter with a learned dispersion.
        - ``"categorical"``: the index, from 0 on, of one of several levels.
    binarize : {"dynamic", "threshold", "probability"}, default="dynamic"
        How the Bernoulli likelihood treats values between 0 and 1: a fresh draw every time, a threshold at one half, or
        the values themselves as probabilities. The choice changes the bound by tens of nats on grey images, and
        nothing on binary data.
    posterior : {"chain", "subset", "ordered", "shared"}, default="chain"
        Family of q(z given x). All have the same prior over counts. The decoder gets the counts, or with ``"chain"``
        and ``"subset"`` the set of features that are present. `docs/model.md` compares them.

        - ``"chain"``: each feature is present or not, depending on x and on the features before it. The tightest bound.
        - ``"subset"``: the same, independent of other features; all gradients are defined for it.
        - ``"ordered"``: a distribution over the number of features, and one over features for each position. The first
          features of a code are a code of their own (``transform(X, budget=m)``).
        - ``"shared"``: the paper's, one gate probability and one feature distribution for all slots.
    posterior_rank : int, None or "auto", default="auto"
        Rank of the matrix by which ``posterior="chain"`` couples features. None is full rank, which takes
        ``n_components``² numbers and as much time; with a rank, both grow in proportion to ``n_components``.
        ``"auto"`` is full rank, or 32 with more than 512 features.
    gradient : str, default="reinmax"
        Gradient estimator for the discrete draw. For all posteriors: ``"reinmax"``, ``"straight_through"``,
        ``"darn"``, ``"annealed_straight_through"``, ``"score_function"`` and ``"leave_one_out"``. For all but
        ``"chain"`` also ``"gumbel_softmax"``, ``"straight_through_gumbel"`` and ``"muprop"``; for ``"subset"`` and
        ``"ordered"`` also ``"gumbel_rao"``; for ``"subset"`` also ``"disarm"``. See `sdlgm.gradients`.
    kl : {"exact", "paper"}, default="exact"
        Divergence from the prior. The paper's also charges closed slots for a feature; the exact one is smaller. Only
        ``posterior="shared"`` has the paper's.
    rate : float, default=1.0
        Weight of the KL against the log-likelihood in training. Above 1, codes have fewer bits and the reconstruction
        a larger error; below 1, the other way round. The bounds that the model reports have no such weight.
    deviation : float or None, default=None
        Standard deviation of Gaussian columns given the code, in the units of the data and the same for all of them,
        but at least 0.02 of the column's own. Training then lowers the squared error, and 2 ``deviation``² of it weigh
        as much as one nat of the code. For compression, with columns in the same units. None learns a deviation for
        each column, which tells best how probable a row is.
    n_samples : int, default=1
        Monte Carlo samples for each observation, S.
    gate_temperature, feature_temperature : float, default=1.0
        Temperatures of the relaxation, tau and tau_z; their initial values if learned or on a schedule. Only
        ``posterior="shared"`` has separate gates; the others relax everything at the temperature of the features.
    learn_temperature : bool, default=False
        Learn both temperatures by gradient, as in the paper.
    final_temperature : float or None, default=None
        Value that both temperatures reach at the end of the run, if given.
    kl_warmup : float, default=0.3
        First fraction of the run over which the weight of the KL rises from 0 to ``rate``.
    max_iter : int or "auto", default="auto"
        Number of iterations, each of one batch. ``"auto"`` is 10,000; with ``max_time``, only the time limits the fit.
    max_time : float or None, default=None
        Seconds of wall time of `fit`, beside ``max_iter``. Weight of the KL, learning rate and temperatures follow the
        share of it that is used, so that a fit that ends by time ends annealed. The same seed then gives another model
        each time. The time before a resumption counts.
    batch_size : int or "auto", default="auto"
        Rows in a batch. ``"auto"`` is 100; with ``max_time`` it is 500, which learns more in the same time.
    learning_rate : float or "auto", default="auto"
        Learning rate of Adam. ``"auto"`` is 0.003, or 0.006 with batches of 500 rows or more.
    lr_decay : float, default=0.5
        Last fraction of the run over which the learning rate falls linearly to zero.
    refine : float or "auto", default="auto"
        Share of the run, at its end, in which the model learns from the best codes that a local search finds, in place
        of draws. `transform` then searches too: codes have fewer bits and smaller errors, and encoding takes longer.
        Bounds are those of the codes found, log p(x, z), without draws. If they are lower than those before, the fit
        keeps the model before. 0 is no such end. ``"auto"`` is 0.4 if most columns are continuous, the prior is a chain
        and there are at most 4,096 features, and otherwise 0. With ``max_time`` it takes its share of the time even if
        the fit stops early. `partial_fit` has no such end.
    early_stopping : bool or "auto", default="auto"
        Stop when held-out rows no longer improve; by default if rows are few. ``validation_fraction`` of the rows are
        held out. The fit ends when their discrete bound, with the KL multiplied by ``rate``, has not improved for
        ``n_iter_no_change`` points of the training curves (there are fifty in a run, at least five iterations apart),
        and the best parameters are kept. ``"auto"`` does so if ``max_iter`` is ``"auto"`` and if there are fewer than
        5,000 rows in memory, with 20 or more to hold out.
    validation_fraction : float, default=0.1
        Share of the rows to hold out for early stopping. Of rows in files, whole row groups are held out.
    n_iter_no_change : int, default=10
        Points of the training curves without improvement before training stops early.
    checkpoint_dir : path or None, default=None
        Folder for a checkpoint, written every ``checkpoint_every`` iterations and on SIGINT or SIGTERM. It belongs
        to one run; leave it out in a parameter search.
    checkpoint_every : int, default=1000
        Iterations between two checkpoints.
    resume : bool, default=False
        Let `fit` continue from the checkpoint, if there is one. Needs an integer ``random_state``.
    random_state : int, RandomState or None, default=None
        Seed. An integer makes results reproducible: the same seed gives the same model, bit for bit, on the CPU.
    device : str, default="cpu"
        A torch device, such as cpu or cuda.
    devices : int, default=1
        Processes on each machine that share every batch. `fit` starts them, unless torchrun or SLURM has started this
        process as one of them.
    num_nodes : int, default=1
        Number of machines.
    strategy : str, default="auto"
        Strategy of Lightning Fabric for starting and connecting processes.
    compile : bool, default=False
        Let `torch.compile` fuse the networks. It needs a C++ compiler and takes up to a minute at the first iteration.
        Results differ by rounding only. On a CPU there is little to gain.
    verbose : int, default=0
        If not 0, show progress on the standard error once the work has taken a few seconds.

    Attributes
    ----------
    likelihood_ : str
        The likelihood of all columns, or ``"mixed"``.
    likelihoods_ : ndarray of str of shape (n_features_in_,)
        The likelihood of each column.
    gate_prior_ : float
        Prior probability that a slot is on. With ``prior="chain"``, the expected share of ``max_active`` in use,
        estimated from draws.
    feature_prior_ : ndarray of shape (n_components,)
        Prior distribution of the feature in a slot that is on; estimated likewise.
    components_ : ndarray of shape (n_components, n_features_in_)
        What each feature draws: the decoded mean with this feature alone, minus that with no feature.
    n_iter_ : int
        Number of iterations done.
    problem_ : str or None
        What `fit` warned about: codes that say next to nothing, dead features, training that is not stable. None if
        there was nothing, and after `partial_fit`.
    interrupted_ : bool
        Whether Ctrl-C ended the last `fit` early. The model has what was learned until then. With ``checkpoint_dir``,
        Ctrl-C writes a checkpoint and raises KeyboardInterrupt instead.
    training_bound_ : float or None
        Discrete bound on log p(x) of up to 500 rows that the model was trained on, in nats a row; after `partial_fit`,
        of the last rows. None in a model of an earlier version.
    validation_bound_ : float or None
        The same of the rows that were held out for early stopping. None if there were none.
    history_ : list of Record
        The training curves, one `sdlgm.train.Record` for each point.
    module_ : SDLGMModule
        The fitted torch module.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.
    schema_ : sdlgm.data.Schema or None
        What the columns of a table mean. None for arrays, and for tables of numbers without missing values.

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

    _module_class: ClassVar[type[SDLGMModule]] = SDLGMModule
    _default_max_iter = 10_000
    _sizes = (
        "n_components",
        "max_active",
        "prior",
        "prior_hidden",
        "prior_rank",
        "hidden",
        "gate_hidden",
        "share_layers",
        "normalize_logits",
        "posterior",
        "posterior_rank",
    )

    _parameter_constraints: dict[str, list[Any]] = {
        **COMMON_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_active": [Interval(Integral, 1, LARGEST_BUDGET, closed="both")],
        "prior": [StrOptions({"auto", "chain", "slots"})],
        "prior_hidden": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "prior_rank": [Interval(Integral, 1, None, closed="left"), None],
        "gate_prior": [Interval(Real, 0, 1, closed="neither")],
        "learn_prior": ["boolean"],
        "hidden": [tuple, list, StrOptions({"auto"})],
        "gate_hidden": [tuple, list],
        "share_layers": ["boolean"],
        "normalize_logits": ["boolean"],
        "likelihood": [StrOptions({"auto"}), Registered(LIKELIHOODS), Mapping],
        "binarize": [StrOptions({"dynamic", "threshold", "probability"})],
        "posterior": [Registered(POSTERIORS)],
        "posterior_rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "gradient": [Registered(GRADIENTS)],
        "kl": [StrOptions({"exact", "paper"})],
        "rate": [Interval(Real, 0, None, closed="neither")],
        "deviation": [Interval(Real, 0, None, closed="neither"), None],
        "n_samples": [Interval(Integral, 1, LARGEST_N_SAMPLES, closed="both")],
        "gate_temperature": [Interval(Real, 0, None, closed="neither")],
        "feature_temperature": [Interval(Real, 0, None, closed="neither")],
        "learn_temperature": ["boolean"],
        "final_temperature": [Interval(Real, 0, None, closed="neither"), None],
        "kl_warmup": [Interval(Real, 0, 1, closed="both")],
        "batch_size": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "refine": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
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
        prior: Literal["auto", "chain", "slots"] = "auto",
        prior_hidden: int | Literal["auto"] | None = "auto",
        prior_rank: int | None = None,
        gate_prior: float = 0.5,
        learn_prior: bool = True,
        hidden: tuple[int, ...] | Literal["auto"] = "auto",
        gate_hidden: tuple[int, ...] = (64,),
        activation: Literal["silu", "relu"] = "silu",
        share_layers: bool = True,
        normalize_logits: bool = True,
        likelihood: LikelihoodName | Mapping[int | str, str] = "auto",
        binarize: Literal["dynamic", "threshold", "probability"] = "dynamic",
        posterior: Literal["chain", "subset", "ordered", "shared"] = "chain",
        posterior_rank: int | Literal["auto"] | None = "auto",
        gradient: GradientName = "reinmax",
        kl: Literal["exact", "paper"] = "exact",
        rate: float = 1.0,
        deviation: float | None = None,
        n_samples: int = 1,
        gate_temperature: float = 1.0,
        feature_temperature: float = 1.0,
        learn_temperature: bool = False,
        final_temperature: float | None = None,
        kl_warmup: float = 0.3,
        max_iter: int | Literal["auto"] = "auto",
        max_time: float | None = None,
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        lr_decay: float = 0.5,
        refine: float | Literal["auto"] = "auto",
        early_stopping: bool | Literal["auto"] = "auto",
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
        compile: bool = False,  # noqa: A002 - the name in torch
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.max_active = max_active
        self.prior = prior
        self.prior_hidden = prior_hidden
        self.prior_rank = prior_rank
        self.gate_prior = gate_prior
        self.learn_prior = learn_prior
        self.hidden = hidden
        self.gate_hidden = gate_hidden
        self.activation = activation
        self.share_layers = share_layers
        self.normalize_logits = normalize_logits
        self.likelihood = likelihood
        self.binarize: Binarize = binarize
        self.posterior = posterior
        self.posterior_rank = posterior_rank
        self.gradient = gradient
        self.kl: KL = kl
        self.rate = rate
        self.deviation = deviation
        self.n_samples = n_samples
        self.gate_temperature = gate_temperature
        self.feature_temperature = feature_temperature
        self.learn_temperature = learn_temperature
        self.final_temperature = final_temperature
        self.kl_warmup = kl_warmup
        self.max_iter = max_iter
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.lr_decay = lr_decay
        self.refine = refine
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

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, *, callback: Callable[[SDLGMModule, int], None] | None = None) -> Self:
        """Fit the model to X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
            Rows of ``.parquet`` and ``.npy`` files, and of folders of either, are read as they are needed and may be
            larger than memory. Those of an iterator are kept in a temporary folder during the fit.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows in the loss, in the scaling and in the training curves. A row of weight 2 counts, in
            expectation, as two such rows; one of weight 0 as none. Only their ratios matter. For rows in memory.
        callback : callable or None, default=None
            Called as ``callback(module, iteration)`` after every iteration. It has to leave the module as it found it.

        Returns
        -------
        self : SDLGM

        """
        self._check_settings()
        self._warn_of_budget(stacklevel=4)
        if self.devices * self.num_nodes > 1:
            self._check_distributed(callback)
            if sample_weight is not None:
                raise ValueError("sample_weight cannot be shared by several processes; fit with devices=1")
            problem = fit_distributed(self, SpooledRows(X) if is_stream(X) else X)
        else:
            with self._all_or_nothing():
                problem = self._fit(X, callback, sample_weight=sample_weight)
        self._warn(problem, stacklevel=4)
        return self

    def _fit(
        self,
        X,
        callback: Callable[[SDLGMModule, int], None] | None = None,
        processes: train.Processes = train.ALONE,
        sample_weight: Any = None,
    ) -> str | None:
        """Fit, as the only process or as one of several. Return a message if the fit did not work."""
        start = clock.now()
        rows = self._validate_rows(rows_of(X), reset=True, min_rows=2)
        rows, weights = weighted_rows(rows, sample_weight)
        seed = self._seed_of(self.random_state)
        with Progress("read rows", visible=bool(self.verbose) and processes.is_first):
            data = prepare_training(rows, self._validation_fraction(rows), seed, weights)
        if self.devices * self.num_nodes > 1 and data.n_rows < self._batch_size(self.max_time):
            raise ValueError(
                f"batch_size={self._batch_size(self.max_time)}, and there are {data.n_rows} rows to train on; set a "
                "smaller one"
            )
        fitted = self._new_model(data.columns, data.profile, seed, data.n_rows)
        limits = _refinement.limits_before(self._limits(), fitted.refine)
        config = self._train_config(fitted.likelihood, limits, stop_early=data.held_out)
        trainer = train.Trainer(fitted.module, config, seed, processes, n_rows=data.n_rows)
        monitor, of_trained = (
            _monitor(fitted, part, seed, data.columns.share_missing) for part in (data.watched, data.trained)
        )
        log_prob, binarized, device = fitted.module.uninformed_log_prob, fitted.binarize, fitted.device
        uninformed = Uninformed(
            watched=monitor.mean_of(log_prob, binarized, device),
            trained=of_trained.mean_of(log_prob, binarized, device),
        )
        batches = data.batches(config.batch_size, seed, fitted.scaling.apply)
        try:
            self._run(fitted, trainer, batches, monitor, callback, start)
        finally:
            batches.close()
        self._publish_bounds(of_trained(trainer).discrete if data.held_out else None)
        if self.interrupted_:
            return None
        problem = self._problem_of_fit(data, uninformed, config)
        self._fitted = replace(self._fitted, problem=problem)
        self.problem_ = problem
        if fitted.refine:
            self._refine(data, trainer, monitor, of_trained, callback)
        return problem

    def _refine(
        self,
        data: TrainingData,
        before: train.Trainer[SDLGMModule],
        monitor: train.Monitor,
        of_trained: train.Monitor,
        callback: Callable[[SDLGMModule, int], None] | None,
    ) -> None:
        """Continue the fit with codes that a local search finds, unless the bound of the watched rows ends lower."""
        fitted, earlier = self._fitted, train.state_of(before.module)
        module, rate = fitted.module, self._learning_rate(min(before.config.batch_size, _refinement.BATCH))
        config = _refinement.refining(before.config, fitted.refine, before, rate)
        first = train.to_tensor(fitted.scaling.apply(data.watched[: _refinement.FIRST_ROWS]), fitted.device)
        module.begin_search(first, config.rate)
        trainer = train.Trainer(
            module, config, before.seed, before.processes, iteration=before.iteration, n_rows=data.n_rows
        )
        batches = data.batches(config.batch_size, before.seed, fitted.scaling.apply)
        try:
            self._run(fitted, trainer, batches, monitor, callback, phase="refine")
        finally:
            batches.close()
        kept, last = self._kept_record(fitted.history, held_out=data.held_out), self.history_[-1]
        if last.objective(config.rate) < kept.objective(config.rate):
            module.load_state_dict(earlier)
            self._publish_prior(module)
            return
        bounds = {"training_bound": last.discrete}
        if data.held_out:
            bounds = {"training_bound": of_trained(trainer).discrete, "validation_bound": last.discrete}
        self._fitted = replace(self._fitted, **bounds)
        self._set_bounds()

    def _kept_record(self, history: Sequence[train.Record], *, held_out: bool) -> train.Record:
        """Return the point of the curves whose parameters a run has kept."""
        return max(history, key=lambda record: record.objective(float(self.rate))) if held_out else history[-1]

    def _validation_fraction(self, rows: Rows | RowFiles) -> float | None:
        """Return the share of the rows to hold out for early stopping; None to do without."""
        stop_early = self.early_stopping
        if stop_early == "auto":
            few = not isinstance(rows, RowFiles) and self.validation_fraction * rows.shape[0] >= FEWEST_HELD_OUT
            few = few and rows.shape[0] < FEW_ROWS
            stop_early = few and self.max_iter == "auto" and self.kl_warmup < 1
        return float(self.validation_fraction) if stop_early else None

    def _publish_bounds(self, trained: float | None) -> None:
        """Set the bounds of the fit, where ``trained`` is that of rows to train on if others were watched."""
        if trained is None:
            bounds = {"training_bound": self.history_[-1].discrete}
        else:
            kept = self._kept_record(self.history_, held_out=True)
            bounds = {"training_bound": trained, "validation_bound": kept.discrete}
        self._fitted = replace(self._fitted, **bounds)
        self._set_bounds()

    def _set_bounds(self) -> None:
        self.training_bound_, self.validation_bound_ = self._fitted.training_bound, self._fitted.validation_bound

    def _problem_of_fit(self, data: TrainingData, uninformed: Uninformed, config: train.TrainConfig) -> str | None:
        """Return a message with the remedy if the fit did not work."""
        trained = None
        if data.held_out and self.training_bound_ is not None:
            trained = train.Gain(self.training_bound_, uninformed.trained)

        def find(causes: _diagnosis.Causes | None = None) -> str | None:
            return train.convergence_problem(
                self.history_,
                n_features=self._fitted.module.config.n_features,
                n_watched=data.watched.shape[0],
                held_out=data.held_out,
                trained=trained,
                uninformed=uninformed.watched,
                rate=config.rate,
                remedy=causes and causes.remedy,
                urgent_remedy=causes and causes.urgent_remedy,
            )

        problem = find()
        empty = self._empty_codes(data, uninformed.watched, config) if problem is None else None
        if problem is None and empty is None:
            return None
        causes = _diagnosis.Causes.of(self._fitted, data.watched, data.n_rows, config)
        return find(causes) if empty is None else f"{empty}: {causes.remedy}"

    def _empty_codes(self, data: TrainingData, uninformed: float, config: train.TrainConfig) -> str | None:
        """Return a message if the codes of watched rows say next to nothing about them."""
        if self.n_iter_ < _diagnosis.MIN_ITERATIONS or config.kl_warmup == 1:
            return None
        objectives = [record.objective(config.rate) for record in self.history_]
        bound = max(objectives) if data.held_out else objectives[-1]
        watched = data.watched
        return _diagnosis.no_gain(bound, uninformed) or _diagnosis.same_codes(self._codes_of(watched), watched)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None) -> Self:
        """Train on one pass over the rows of X in the order given, at the constant ``learning_rate``.

        A pass that fails leaves the model as it was. The first call fixes the likelihood and, for continuous data, the
        scaling and which columns are constant. The KL is warmed up over the first ``kl_warmup * max_iter`` iterations
        of all calls together, where ``max_iter="auto"`` is 10,000; ``max_time`` does not matter. Settings of the
        training may differ from those of earlier calls, those of the model may not. After `fit`, `sdlgm.load` or
        unpickling the optimiser starts afresh.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows, as in `fit`. Only their ratios within a call matter.

        Returns
        -------
        self : SDLGM

        """
        self._check_settings()
        if not self.__sklearn_is_fitted__():
            self._warn_of_budget(stacklevel=4)
        with self._all_or_nothing():
            return self._partial_fit(X, sample_weight)

    def _partial_fit(self, X, sample_weight: Any = None) -> Self:
        first = not self.__sklearn_is_fitted__()
        rows = self._validate_rows(rows_of(X), reset=first, min_rows=2)
        rows, weights = weighted_rows(rows, sample_weight)
        seed = self._seed_of(self.random_state)
        fitted = self._first_model(rows, seed, weights) if first else self._fitted
        if not first:
            self._check_same_model()
            for _ in _evaluation.prepared_batches(fitted, rows):  # raise for bad values before anything changes
                pass
        config = self._train_config(fitted.likelihood, {"max_iter": self._iterations(), "max_time": None})
        config = replace(config, lr_decay=0.0)
        n_batches = max(1, rows.shape[0] // config.batch_size)

        def batches(trainer: train.Trainer) -> Iterator[Batch]:
            of_parts = in_parts(np.ones(rows.shape[0]) if weights is None else weights, n_batches)
            for part, own in zip(in_parts(rows, n_batches), of_parts, strict=True):
                x = train.to_tensor(fitted.scaling.apply(part), trainer.device)
                yield Batch(x, weight=None if weights is None else train.to_tensor(own, trainer.device))

        watched = rows[:WATCHED_ROWS]
        if weights is not None:
            own = weights[:WATCHED_ROWS]
            watched = watched[in_proportion(own, len(own), np.random.default_rng(seed))]
        monitor = _monitor(fitted, watched, seed, missing_shares(watched))
        trainer, record = self._one_pass(fitted, config, batches, monitor, seed)
        self._publish(
            replace(
                fitted,
                n_iter=trainer.iteration,
                history=(*fitted.history, record),
                problem=None,
                training_bound=record.discrete,
                validation_bound=None,
                binarize=config.binarize,
                kl=config.kl,
                rate=config.rate,
                n_samples=config.n_samples,
                gradient=config.gradient,
            )
        )
        self._trainer = trainer
        return self

    def _first_model(self, rows: Rows | RowFiles, seed: int, weights: np.ndarray | None = None) -> FittedSDLGM:
        """Return the model of a first `partial_fit`."""
        if isinstance(rows, RowFiles):
            survey = Survey.of(rows, range(len(rows.parts)))
            return self._new_model(survey.columns, survey.profile, seed, len(rows), refine=False)
        columns, profile = Columns.of(rows, weights), Profile.of(rows, weights=weights)
        return self._new_model(columns, profile, seed, rows.shape[0], refine=False)

    def _new_model(
        self, columns: Columns, profile: Profile, seed: int, n_rows: int, *, refine: bool = True
    ) -> FittedSDLGM:
        """Return the model before its first iteration, for ``n_rows`` rows."""
        choice = self._choose(profile)
        layout = choice.layout(profile.with_missing)
        likelihood = choice.likelihoods[0] if layout is None else layout.name
        if likelihood == "bernoulli":
            check_unit_interval(profile.in_unit_interval)
        if self.deviation is not None and "gaussian" not in choice.likelihoods:
            raise ValueError(
                f"deviation={self.deviation} is that of Gaussian columns, and there is none; set likelihood='gaussian' "
                "or leave it out"
            )
        scaling = Scaling.of(choice, columns, profile)
        device = usable_device(self.device)
        share = self._refine_share(choice.likelihoods) if refine else 0.0
        config = self._model_config(len(columns.mean), likelihood, layout, self._widths(n_rows), searches=share > 0)
        module = train.seeded(lambda: self._module_class(config), seed)
        module.adapt_to(statistics_of(choice, columns, profile, scaling, self.deviation))
        if self.compile:
            module.compile_networks()
        fitted = self._describe(Fitted(module.to(device), scaling, device, 0, ()), likelihood)
        return replace(fitted, refine=share)

    def _choose(self, profile: Profile) -> Choice:
        """Return the likelihood of each column, by its values and by what a table says of it."""
        names = getattr(self, "feature_names_in_", None)
        if self.schema_ is None:
            return choose(self.likelihood, profile, names=names)
        schema = self.schema_
        return choose(self.likelihood, profile, kinds=schema.kinds, n_levels=schema.n_levels, names=names)

    def _describe(self, base: Fitted[SDLGMModule], likelihood: str) -> FittedSDLGM:
        """Return a model with the settings that its evaluation depends on."""
        config = self._train_config(likelihood, self._limits())
        names = getattr(self, "feature_names_in_", None)
        return FittedSDLGM(
            **vars(base),
            names=None if names is None else tuple(map(str, names)),
            likelihood=likelihood,
            binarize=config.binarize,
            kl=config.kl,
            rate=config.rate,
            n_samples=config.n_samples,
            gradient=config.gradient,
            learn_temperature=config.learn_temperature,
        )

    def _publish(self, fitted: FittedSDLGM) -> Self:
        super()._publish(fitted)
        self.likelihood_ = fitted.likelihood
        self.likelihoods_ = np.array(fitted.likelihoods)
        self.module_ = fitted.module
        self.problem_ = fitted.problem
        self._set_bounds()
        self._publish_prior(fitted.module)
        return self

    @torch.no_grad()
    def _publish_prior(self, module: SDLGMModule) -> None:
        prior = module.prior()
        if isinstance(prior, ChainUnderChain):  # the marginals are estimates
            prior = prior.expand(PRIOR_ROWS)
        self.gate_prior_ = float(prior.gate_prob.mean())
        self.feature_prior_ = prior.feature_probs.view(-1, module.config.n_features).mean(0).cpu().numpy()

    # Settings

    def _check_settings(self) -> None:
        super()._check_settings()
        check_widths("gate_hidden", self.gate_hidden)
        if isinstance(self.likelihood, Mapping):
            for column, name in self.likelihood.items():
                if name != "auto" and name not in LIKELIHOODS:
                    known = ", ".join(("auto", *LIKELIHOODS))
                    raise ValueError(f"likelihood of column {column!r} is {name!r}; it has to be one of {known}")
        if self.learn_temperature and self.final_temperature is not None:
            raise ValueError("learn_temperature=True and final_temperature exclude each other; set one of them")
        if self.compile and not has_compiler(self.device):
            raise ValueError("compile=True needs a C++ compiler (such as g++), and there is none; set compile=False")
        if self.kl_warmup == 1 and (self.learn_prior or self.early_stopping not in (False, "auto")):
            raise ValueError("learn_prior and early_stopping begin after the KL warm-up; set kl_warmup below 1")
        gradient, family = GRADIENTS[self.gradient], self._module_class.posteriors[self.posterior]
        self._check_prior(family)
        if self.kl == "paper" and family is not POSTERIORS["shared"]:
            raise ValueError("kl='paper' is defined for posterior='shared'; set that posterior, or kl='exact'")
        n_values = code_values(family, int(self.n_components), int(self.max_active))
        if self.n_samples * n_values > MOST_VALUES:
            raise ValueError(
                f"n_samples={self.n_samples} codes of a row with n_components={self.n_components} and "
                f"max_active={self.max_active} are {self.n_samples * n_values} numbers, and {MOST_VALUES} are the most "
                f"for posterior={self.posterior!r}; set a smaller one"
            )
        if self.refine not in ("auto", 0) and self._prior_family(family) != "chain":
            raise ValueError(f"refine={self.refine} needs the chain prior (prior='chain'); use that, or refine=0")
        if family.kind not in gradient.defined_for:
            possible = [name for name, estimator in GRADIENTS.items() if family.kind in estimator.defined_for]
            raise ValueError(
                f"gradient={self.gradient!r} is not defined for posterior={self.posterior!r}; "
                f"use one of {', '.join(possible)}"
            )

    def _warn_of_budget(self, stacklevel: int) -> None:
        draws_sets = self._module_class.posteriors[self.posterior].draws_sets
        if draws_sets and self.max_active > self.n_components:
            message = _diagnosis.effective_budget(int(self.max_active), int(self.n_components))
            warnings.warn(message, UserWarning, stacklevel=stacklevel)

    def _check_prior(self, family: type[PosteriorNetwork]) -> None:
        """Raise for settings of the prior and of the coupling that exclude each other."""
        for name in ("prior_rank", "posterior_rank"):
            rank = getattr(self, name)
            if isinstance(rank, Integral) and int(rank) > self.n_components:
                raise ValueError(f"{name}={rank} is above n_components={self.n_components}; set at most that")
        if isinstance(self.posterior_rank, Integral) and self.posterior != "chain":
            raise ValueError(
                f"posterior_rank={self.posterior_rank} needs posterior='chain', which couples features; "
                f"posterior={self.posterior!r} does not"
            )
        if self._prior_family(family) == "slots":
            for name in ("prior_rank", "prior_hidden"):
                if isinstance(getattr(self, name), Integral):
                    raise ValueError(
                        f"{name}={getattr(self, name)} needs prior='chain', and the prior is 'slots'; leave {name} at "
                        "its default, or set prior='chain' (with learn_prior=True and posterior='chain' or 'subset')"
                    )
            return
        if not family.takes_chain_prior:
            possible = [name for name, other in self._module_class.posteriors.items() if other.takes_chain_prior]
            raise ValueError(
                f"posterior={self.posterior!r} cannot have prior='chain'; use prior='slots', or one of the posteriors "
                f"{', '.join(possible)}"
            )
        if self.prior_rank is not None and isinstance(self.prior_hidden, Integral):
            raise ValueError("prior_rank and prior_hidden exclude each other; set one of them")
        if not self.learn_prior:
            raise ValueError("prior='chain' is always learned; set learn_prior=True, or prior='slots'")

    def _prior_family(self, family: type[PosteriorNetwork]) -> Literal["chain", "slots"]:
        """Return the family of the prior, with ``"auto"`` resolved."""
        if self.prior == "auto":
            return "chain" if family.takes_chain_prior and self.learn_prior else "slots"
        return "chain" if self.prior == "chain" else "slots"

    def _check_distributed(self, callback: object) -> None:
        """Raise for settings that several processes cannot have."""
        n, batch_size = self.devices * self.num_nodes, self._batch_size(self.max_time)
        if batch_size % n or batch_size < 2 * n:
            raise ValueError(
                f"batch_size={batch_size} cannot be divided among {n} processes; each needs the same number of "
                "rows, two or more"
            )
        if not isinstance(self.random_state, Integral):
            raise ValueError("several processes need an integer random_state, to begin with the same parameters")
        if callback is not None:
            raise ValueError("a callback cannot be sent to other processes; fit with devices=1")
        if not GRADIENTS[self.gradient].shareable:
            raise ValueError(f"gradient={self.gradient!r} cannot be shared by several processes; use 'reinmax'")

    def _check_same_model(self) -> None:
        """Raise if settings of the model, as opposed to its training, have changed."""
        fitted = self._fitted
        if GRADIENTS[self.gradient].tempers_posterior != fitted.module.config.temper_posterior:
            raise ValueError(
                "gradient='annealed_straight_through' divides the logits of the posterior by the temperature, so a "
                "model stays with it or without it; use fit for the other one"
            )
        config = fitted.module.config
        there = _params_of(config) | {"learn_temperature": fitted.learn_temperature}
        hidden = config.hidden if self.hidden == "auto" else self._widths()
        wanted = _params_of(
            self._model_config(self.n_features_in_, fitted.likelihood, config.layout, hidden, searches=config.searches)
        )
        names = given(self.likelihood, self.n_features_in_, getattr(self, "feature_names_in_", None))
        for column, (own, name) in enumerate(zip(fitted.likelihoods, names, strict=True)):
            if name not in ("auto", own):
                raise ValueError(
                    f"the model has likelihood={own!r} for column {column}, which partial_fit cannot change; use fit"
                )
        wanted["learn_temperature"] = bool(self.learn_temperature)
        for name, value in there.items():
            if wanted[name] != value:
                raise ValueError(f"the model has {name}={value!r}, which partial_fit cannot change; use fit")

    def _refine_share(self, likelihoods: Sequence[str]) -> float:
        """Return the share of a run that searches for codes."""
        if self.refine != "auto":
            return float(self.refine)
        can = self._prior_family(self._module_class.posteriors[self.posterior]) == "chain"
        return _refinement.share_by_default(likelihoods, int(self.n_components)) if can else 0.0

    def _model_config(
        self, n_inputs: int, likelihood: str, layout: Layout | None, hidden: tuple[int, ...], *, searches: bool
    ) -> ModelConfig:
        prior = self._prior_family(self._module_class.posteriors[self.posterior])
        prior_hidden, prior_rank = self._prior_units() if prior == "chain" else (None, None)
        return ModelConfig(
            n_inputs=n_inputs,
            n_features=int(self.n_components),
            n_slots=int(self.max_active),
            prior=prior,
            prior_hidden=prior_hidden,
            prior_rank=prior_rank,
            gate_prior=float(self.gate_prior),
            learn_prior=bool(self.learn_prior),
            hidden=hidden,
            gate_hidden=tuple(int(width) for width in self.gate_hidden),
            activation=str(self.activation),
            share_layers=bool(self.share_layers),
            normalize_logits=bool(self.normalize_logits),
            posterior=str(self.posterior),
            posterior_rank=self._posterior_rank(),
            likelihood=likelihood,
            layout=layout,
            deviation=None if self.deviation is None else float(self.deviation),
            gate_temperature=float(self.gate_temperature),
            feature_temperature=float(self.feature_temperature),
            temper_posterior=GRADIENTS[self.gradient].tempers_posterior,
            searches=searches,
        )

    def _widths(self, n_rows: int | None = None) -> tuple[int, ...]:
        """Return the widths of the hidden layers. A file has no "auto", and no number of rows to resolve it."""
        if isinstance(self.hidden, str):
            if n_rows is None:
                raise ValueError(f"hidden={self.hidden!r} says nothing about the widths of the layers")
            return widths_for(n_rows)
        return tuple(int(width) for width in self.hidden)

    def _prior_units(self) -> tuple[int | None, int | None]:
        """Return the width of the hidden layer of a chain prior, or the rank of its coupling; the other is None."""
        n_features = int(self.n_components)
        if self.prior_rank is not None:
            return None, int(self.prior_rank)
        if self.prior_hidden is None:
            return None, min(RANK, n_features)
        if self.prior_hidden == "auto":
            return prior_width_for(n_features), None
        return int(self.prior_hidden), None

    def _posterior_rank(self) -> int | None:
        """Return the rank of the coupling of the posterior; None for full rank, or without a coupling."""
        if self.posterior_rank == "auto":
            many = self.posterior == "chain" and self.n_components > FEW_FEATURES
            return min(RANK, int(self.n_components)) if many else None
        return None if self.posterior_rank is None else int(self.posterior_rank)

    def _batch_size(self, max_time: float | None) -> int:
        """Return the rows of a batch of a run."""
        if self.batch_size == "auto":
            return BATCH if max_time is None else LARGE_BATCH
        return int(self.batch_size)

    def _learning_rate(self, batch_size: int) -> float:
        """Return the learning rate for batches of this size."""
        if self.learning_rate == "auto":
            return RATE if batch_size < LARGE_BATCH else RATE_OF_LARGE_BATCH
        return float(self.learning_rate)

    def _train_config(self, likelihood: str, limits: Limits, *, stop_early: bool = False) -> train.TrainConfig:
        batch_size = self._batch_size(limits["max_time"])
        return train.TrainConfig(
            **limits,
            batch_size=batch_size,
            learning_rate=self._learning_rate(batch_size),
            lr_decay=float(self.lr_decay),
            kl_warmup=float(self.kl_warmup),
            final_temperature=None if self.final_temperature is None else float(self.final_temperature),
            learn_temperature=bool(self.learn_temperature),
            gradient=str(self.gradient),
            n_samples=int(self.n_samples),
            kl=self.kl,
            binarize=self.binarize if likelihood == "bernoulli" else None,
            n_iter_no_change=int(self.n_iter_no_change) if stop_early else None,
            rate=float(self.rate),
        )

    # Codes

    def fit_transform(self, X, y=None, **fit_params) -> sp.csr_matrix:
        """Fit the model to X and return the codes of its rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        y : None
            Ignored.
        **fit_params : dict
            Further arguments of `fit`.

        Returns
        -------
        codes : CSR matrix of int of shape (n_samples, n_components)

        """
        rows = rows_of(X)  # those of an iterator are kept for both
        return self.fit(rows, y, **fit_params).transform(rows)

    def transform(
        self,
        X,
        *,
        n_candidates: int = 0,
        n_changes: int | None = None,
        rate: float | None = None,
        budget: int | None = None,
    ) -> sp.csr_matrix:
        """Encode each row by the most probable code under q(z given x), or the best code near it.

        With ``posterior="ordered"`` that is the most probable length and the most probable feature at each position.
        With ``"chain"`` the more probable choice is made feature after feature. A model that was fitted with ``refine``
        then changes a feature, or exchanges two, as long as log p(x given z) + rate * log p(z) grows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        n_candidates : int, default=0
            Draw this many further codes from q(z given x), with a fixed seed, and keep for each row the code with the
            largest log p(x given z) + rate * log p(z). The draws of a row depend on its place in X.
        n_changes : int or None, default=None
            Largest number of changes of a code. None is 40 for a model that was fitted with ``refine``, and 0 for
            others, which cannot search.
        rate : float or None, default=None
            Weight of the code's length in the choice among candidates and changes: above 1 for shorter codes, below 1
            for smaller errors. None takes the ``rate`` that the model was fitted with. Needs ``n_candidates`` or
            changes.
        budget : int or None, default=None
            Keep only the first ``budget`` features of each code, which are a coarser code of their own. Only with
            ``posterior="ordered"``, whose features come with the most important one first.

        Returns
        -------
        codes : CSR matrix of int of shape (n_samples, n_components)
            Counts. Each row adds up to at most ``max_active``, so it has at most that many non-zeros. After
            ``set_output(transform="pandas")`` a data frame with sparse columns.

        """
        check_is_fitted(self)
        return in_container(self._encode(X, self._encoder(n_candidates, n_changes, rate, budget)), X, self)

    def transform_batches(
        self,
        batches: Iterable[Any],
        *,
        n_candidates: int = 0,
        n_changes: int | None = None,
        rate: float | None = None,
        budget: int | None = None,
    ) -> Iterator[sp.csr_matrix]:
        """Encode one batch of rows after the other, for data that are larger than memory or still arriving.

        Parameters
        ----------
        batches : iterable of X
            Each batch is an X of `transform`. Errors name the first row of the batch at fault.
        n_candidates : int, default=0
            See `transform`.
        n_changes : int or None, default=None
            See `transform`.
        rate : float or None, default=None
            See `transform`.
        budget : int or None, default=None
            See `transform`.

        Returns
        -------
        codes : iterator of CSR matrices
            The codes of each batch.

        """
        check_is_fitted(self)
        return self._encode_batches(batches, self._encoder(n_candidates, n_changes, rate, budget))

    def sample_codes(self, X, *, random_state: RandomState = None) -> sp.csr_matrix:
        """Draw a code for each row from q(z given x); the budget holds as for `transform`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        random_state : int, RandomState or None, default=None
            Seed of the draws; None takes that of the estimator.

        Returns
        -------
        codes : CSR matrix of int of shape (n_samples, n_components)

        """
        check_is_fitted(self)
        noise = self._noise(random_state)
        return self._encode(X, lambda x: _evaluation.proposal_of(self._fitted.module, x).sample(1, noise)[0])

    def inverse_transform(self, codes, *, encoded: bool = False) -> Any:
        """Decode codes: return the mean of p(x given z).

        With ``posterior="chain"`` and ``"subset"``, whose codes are sets, a feature that is present twice counts once.

        Parameters
        ----------
        codes : array-like or sparse matrix of shape (n_samples, n_components)
            Counts, at most ``max_active`` in each row.
        encoded : bool, default=False
            Return the matrix of a table with categories or booleans, as `schema_` encodes it, and not the table.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_in), DataFrame or pyarrow.Table
            A table if the model was fitted to one with categories or booleans.

        """
        check_is_fitted(self)
        config = self._fitted.module.config
        checked = check_codes(codes, config.n_features, config.n_slots)
        decoded = _evaluation.decode(self._fitted, checked, self._fitted.module.likelihood.mean)
        return decoded if encoded else decoded_table(self.schema_, decoded)

    @property
    def components_(self) -> np.ndarray:
        """Effect of each feature on the decoded row, ndarray of shape (n_components, n_features_in_).

        Row k is the mean of p(x given z) for the code with feature k alone, minus that for the empty code:

            components_[k] = inverse_transform(e_k) - inverse_transform(0),

        in the units of the data. The decoder is not linear, so that what a feature adds to other features may differ.
        Of a category it is the difference of two levels, which says little. Computed at each access, and not stored in
        the model file.
        """
        check_is_fitted(self)
        n_features = self._fitted.module.config.n_features
        places = np.arange(n_features + 1)
        codes = sp.csr_matrix((np.ones(n_features), (places[1:], places[:-1])), shape=(n_features + 1, n_features))
        decoded = self.inverse_transform(codes, encoded=True)  # the first code is empty
        return decoded[1:] - decoded[0]

    def sample(self, n_samples: int = 1, *, random_state: RandomState = None, encoded: bool = False) -> Any:
        """Draw new observations: codes from the prior, then x from p(x given z).

        With ``prior="slots"`` and codes that are sets, a feature that is drawn twice counts once.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
            Seed of the draws; None takes that of the estimator.
        encoded : bool, default=False
            As for `inverse_transform`.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_in), DataFrame or pyarrow.Table
            As for `inverse_transform`.

        """
        check_is_fitted(self)
        noise, likelihood = self._noise(random_state), self._fitted.module.likelihood
        codes = self._prior_codes(n_samples, noise)
        drawn = _evaluation.decode(self._fitted, codes, lambda output: likelihood.sample(output, noise.generator))
        return drawn if encoded else decoded_table(self.schema_, drawn)

    def sample_prior_codes(self, n_samples: int = 1, *, random_state: RandomState = None) -> sp.csr_matrix:
        """Draw codes from the prior.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
            Seed of the draws; None takes that of the estimator.

        Returns
        -------
        codes : CSR matrix of int of shape (n_samples, n_components)

        """
        check_is_fitted(self)
        return self._prior_codes(n_samples, self._noise(random_state))

    def _prior_codes(self, n_samples: int, noise: Noise) -> sp.csr_matrix:
        check_count("n_samples", n_samples, 1)
        module, parts, size = self._fitted.module, [], self._fitted.rows_at_once()
        with torch.inference_mode():
            for start in range(0, n_samples, size):
                counts = module.prior().expand(min(size, n_samples - start)).sample(1, noise)[0]
                parts.append(sparse_rows(module.decoder_input(counts)))
        return stack_rows(parts, module.config.n_features)

    def posterior_probs(self, X) -> PosteriorProbs:
        """Return the parameters of q(z given x).

        For ``posterior="chain"`` they are estimated from draws, with the same noise for every row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches

        Returns
        -------
        probs : PosteriorProbs
            ``gate_prob`` of shape (n_samples,) and ``feature_probs`` of shape (n_samples, n_components).

        """
        rows = self._fitted_rows(X)
        return _evaluation.posterior_probs(self._fitted, rows)

    def _encoder(
        self,
        n_candidates: int = 0,
        n_changes: int | None = None,
        rate: float | None = None,
        budget: int | None = None,
    ) -> _evaluation.Encode:
        """Return the function from a batch to its codes."""
        module = self._fitted.module
        check_count("n_candidates", n_candidates, 0)
        n_steps = self._search_steps(n_changes)
        if rate is not None:
            check_positive("rate", rate)
            if n_candidates == 0 and n_steps == 0:
                raise ValueError(f"rate={rate} chooses among candidates; set n_candidates to at least 1")
        weight = self._fitted.rate if rate is None else float(rate)
        if budget is None:
            noise = self._noise(0)
            return lambda x: _evaluation.best_codes(module, x, n_candidates, noise, weight, n_steps=n_steps)
        check_count("budget", budget, 0)
        if module.config.posterior != "ordered":
            raise ValueError(
                f"budget={budget} needs posterior='ordered', whose features have an order; "
                f"this model has posterior={module.config.posterior!r}"
            )
        if n_candidates:
            raise ValueError("budget and n_candidates exclude each other; set one of them")
        return lambda x: _evaluation.coarse_codes(module, x, budget)

    def _search_steps(self, n_changes: int | None) -> int:
        searches = self._fitted.module.is_searching
        if n_changes is None:
            return MOST_STEPS if searches else 0
        check_count("n_changes", n_changes, 0)
        if n_changes and not searches:
            raise ValueError(f"n_changes={n_changes} needs a model that was fitted with refine above 0")
        return n_changes

    def _codes_of(self, rows: Rows | RowFiles) -> sp.csr_matrix:
        """Return the codes of validated rows as `transform` gives them."""
        return _evaluation.encode(self._fitted, rows, self._encoder())

    def _sparse_codes(self, X: Any) -> sp.csr_matrix:
        return self._encode(X, self._encoder())

    def _encode(self, X, code: Callable[[Tensor], Tensor]) -> sp.csr_matrix:
        if is_stream(X):
            parts = list(self._encode_batches(X, code))
            if not parts:
                raise ValueError("the batches have no rows")
            return sp.csr_matrix(sp.vstack(parts, format="csr"))
        return _evaluation.encode(self._fitted, self._fitted_rows(X), code)

    def _encode_batches(self, batches: Iterable[Any], code: Callable[[Tensor], Tensor]) -> Iterator[sp.csr_matrix]:
        first_row, said = 0, False
        for X in batches:
            try:
                with without_names_warning() if said else nullcontext():
                    codes = self._encode(X, code)
            except ValueError as error:
                if first_row == 0:  # rows are counted from it
                    raise
                kind = DataError if isinstance(error, DataError) else ValueError
                raise kind(f"in the batch that begins with row {first_row}: {error}") from error
            yield codes
            first_row += codes.shape[0]
            said = said or not hasattr(X, "columns")

    # Bounds

    def elbo(
        self,
        X,
        *,
        bound: Literal["discrete", "relaxed"] = "discrete",
        n_importance: int = 1,
        random_state: RandomState = None,
    ) -> np.ndarray:
        """Return the bound on log p(x) for each row, in nats.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        bound : {"discrete", "relaxed"}, default="discrete"
            ``"discrete"`` is a bound, from the codes themselves. ``"relaxed"`` is the paper's criterion, which is not
            a bound. For values between 0 and 1 the bounded quantity depends on ``binarize``: log p of one binary draw
            (``"dynamic"``), of the thresholded values, or the mean log p of all binary draws (``"probability"``).
        n_importance : int, default=1
            With M > 1, return the tighter M-sample importance-weighted discrete bound.
        random_state : int, RandomState or None, default=None
            Seed of the samples; None takes that of the estimator.

        Returns
        -------
        values : ndarray of shape (n_samples,)

        """
        rows = self._fitted_rows(X)
        if bound not in ("discrete", "relaxed"):
            raise ValueError(f"bound={bound!r}; it has to be 'discrete' or 'relaxed'")
        check_count("n_importance", n_importance, 1)
        if n_importance > 1 and bound == "relaxed":
            raise ValueError("n_importance is above 1 only with bound='discrete'")
        return _evaluation.elbo(self._fitted, rows, bound, n_importance, self._noise(random_state))

    def score_samples(self, X) -> np.ndarray:
        """Return the discrete bound on log p(x) of each row, in nats.

        It is that of `elbo`, averaged over several draws whose noise is the same for all rows. The score of a row
        therefore depends on the model and the row alone: not on a seed, and not on the rows beside it. Its mean differs
        from `score` by the error of the draws. A model that searches for codes (``refine``) has no draws.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches

        Returns
        -------
        scores : ndarray of float64 of shape (n_samples,)

        """
        rows = self._fitted_rows(X)
        return _scores.bounds(self._fitted, rows)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Return the mean discrete bound on log p(x), in nats.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows in the mean.

        Returns
        -------
        score : float

        """
        values = self.elbo(X)
        if sample_weight is None:
            return float(values.mean())
        return float(np.average(values, weights=checked_weights(sample_weight, len(values))))

    def evaluate(self, X, *, random_state: RandomState = None) -> Evaluation:
        """Return both bounds, the information and length of codes, their sparsity and their reconstruction error.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        random_state : int, RandomState or None, default=None
            Seed of the samples; None takes that of the estimator.

        Returns
        -------
        evaluation : Evaluation

        """
        rows = self._fitted_rows(X)
        with without_names_warning():  # this was the first time
            discrete = relaxed = float(self.elbo(rows, random_state=random_state).mean())
            if not self._fitted.module.is_searching:  # codes that are found are their own relaxation
                relaxed = float(self.elbo(rows, bound="relaxed", random_state=random_state).mean())
            return _evaluation.evaluate(
                self._fitted,
                rows,
                self._codes_of(rows),
                discrete=discrete,
                relaxed=relaxed,
                noise=self._noise(random_state),
            )

    # Files

    def _fitted_params(self) -> dict[str, Any]:
        fitted = self._fitted
        params = _params_of(fitted.module.config)
        del params["likelihood"]  # it may be "auto"; the one in use is in the document
        return {
            **params,
            "kl": fitted.kl,
            "rate": fitted.rate,
            "refine": fitted.refine,
            "n_samples": fitted.n_samples,
            "gradient": fitted.gradient,
            "binarize": fitted.binarize or self.binarize,
        }

    def _fitted_document(self) -> dict[str, Any]:
        fitted, document = self._fitted, {"likelihood": self._fitted.likelihood}
        if fitted.problem is not None:
            document["problem"] = fitted.problem
        for name in BOUNDS:
            if getattr(fitted, name) is not None:
                document[name] = getattr(fitted, name)
        layout = fitted.module.config.layout
        return document if layout is None else document | {"columns": layout.as_json()}

    def _check_sizes(self, document: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        if "columns" not in document:
            return
        if tensors["inputs.location"].numel() != self.n_features_in_:
            raise ValueError(f"the tensors are not those of {self.n_features_in_} columns")
        layout = self._layout(document)
        assert layout is not None
        n_outputs = self.n_features_in_ - len(layout.n_levels) + sum(layout.n_levels)
        if tensors[f"decoder.{2 * len(self.hidden)}.bias"].numel() != n_outputs:
            raise ValueError(f"the decoder does not have the {n_outputs} outputs of the columns and their levels")

    def _layout(self, document: dict[str, Any]) -> Layout | None:
        """Return the layout of a file, or raise if it and the likelihood contradict each other."""
        name = document["likelihood"]
        if "columns" in document:
            layout = Layout.from_json(document["columns"], self.n_features_in_, LIKELIHOODS)
            if layout.name != name:
                raise ValueError(f"likelihood={name!r}, and the columns have {layout.name!r}")
            return layout
        if LIKELIHOODS[name].view != "plain":
            raise ValueError(f"likelihood={name!r} needs what each column is, which the file does not say")
        return None

    def _module_factory(self, document: dict[str, Any]) -> Callable[[], SDLGMModule]:
        if isinstance(self.refine, str):
            raise ValueError(f"refine={self.refine!r} does not say whether the model searches for codes")
        likelihood, layout = document["likelihood"], self._layout(document)
        config = self._model_config(self.n_features_in_, likelihood, layout, self._widths(), searches=self.refine > 0)
        return lambda: self._module_class(config)

    def _restore(self, base: Fitted, document: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        restored = self._describe(base, document["likelihood"])
        is_free = [not LIKELIHOODS[name].standardized for name in restored.likelihoods]
        if base.scaling.location[is_free].any() or (base.scaling.scale[is_free] != 1.0).any():
            raise ValueError(
                f"the data of a model with likelihood={document['likelihood']!r} are not scaled, but the file has a "
                "scaling"
            )
        problem = document.get("problem")
        if problem is not None and not isinstance(problem, str):
            raise ValueError("the problem of the fit is not a text")
        bounds = {name: document.get(name) for name in BOUNDS}
        if not all(bound is None or (isinstance(bound, float) and math.isfinite(bound)) for bound in bounds.values()):
            raise ValueError("the bounds of the fit are not numbers")
        return self._publish(replace(restored, problem=problem, refine=float(self.refine), **bounds))

    # Rows

    def _validate_rows(self, X: Any, *, reset: bool, min_rows: int = 1, check_finite: bool = True) -> Rows | RowFiles:
        if isinstance(X, RowFiles):  # the first row has the columns; values are checked as they are read
            if len(X) < min_rows:
                raise ValueError(f"{X.name}: has {len(X)} rows, and {min_rows} are needed")
            validate_rows(self, X.head, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
            return X
        if check_finite and isinstance(X, sp.csr_matrix | sp.csr_array) and np.isnan(X.data).any():
            raise ValueError("Input X contains NaN: a sparse matrix cannot have missing values; give X.toarray()")
        rows = validate_rows(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=min_rows,
            # NaN is a missing value, but for sparse matrices.
            ensure_all_finite=check_finite and (True if sp.issparse(X) else "allow-nan"),
        )
        return cast(Rows, rows)

    def _fitted_rows(self, X) -> Rows | RowFiles:
        check_is_fitted(self)
        # Values are checked batch by batch.
        return self._validate_rows(rows_of(X), reset=False, check_finite=False)

    @property
    def _n_features_out(self) -> int:
        return self._fitted.module.config.n_features

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _monitor(fitted: FittedSDLGM, rows: Rows, seed: int, share_missing: np.ndarray) -> train.Monitor:
    """Return the monitor of a run; ``share_missing`` is that of the training rows."""
    scaling = fitted.scaling
    return train.Monitor(
        rows,
        seed,
        prepare=scaling.apply,
        log_jacobian=float(scaling.log_jacobians(missing_shares(rows))),
        training_log_jacobian=float(scaling.log_jacobians(share_missing)),
    )


def _params_of(config: ModelConfig) -> dict[str, Any]:
    """Return the settings of a model by the names of the estimator's parameters."""
    settings = asdict(config)
    del settings["n_inputs"], settings["layout"], settings["temper_posterior"], settings["searches"]
    return {"n_components": settings.pop("n_features"), "max_active": settings.pop("n_slots"), **settings}
