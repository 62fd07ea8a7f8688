"""Properties of all estimators: sparse rows stay sparse, and a fit that did not work warns."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning

from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter, train
from sdlgm.errors import TrainingDivergedError
from sdlgm.estimators._fitted import BATCH

FEW = {"hidden": (8,), "max_iter": 12, "batch_size": 50, "random_state": 0}


# Sparse rows


@pytest.fixture
def largest_dense(monkeypatch) -> list[int]:
    """The numbers of rows of all CSR matrices that are made dense."""
    n_rows: list[int] = []

    def recorded(kind, method):
        original = getattr(kind, method)

        def call(self, *args, **kwargs):
            n_rows.append(self.shape[0])
            return original(self, *args, **kwargs)

        monkeypatch.setattr(kind, method, call)

    for kind in (sp.csr_matrix, sp.csr_array):
        recorded(kind, "toarray")
        recorded(kind, "todense")
    return n_rows


@pytest.fixture(scope="module")
def sparse_rows() -> tuple[sp.csr_matrix, np.ndarray]:
    """3,000 sparse rows, more than any batch, and their labels."""
    rng = np.random.default_rng(0)
    X = sp.random(3000, 40, density=0.05, format="csr", random_state=0)
    return sp.csr_matrix(X), rng.integers(0, 2, (3000, 3))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize(
    "settings",
    [{"variant": "dis"}, {"variant": "con", "n_latent": 3}, {"threshold": "cv"}, {"likelihood": "monte_carlo"}],
)
def test__classifier__sparse_rows__are_never_all_dense(sparse_rows, largest_dense, kind, settings):
    X, Y = kind(sparse_rows[0]), sparse_rows[1]
    model = SDLGMClassifier(**FEW, **settings)
    if settings.get("variant") == "con":
        model.fit(X[:2500], Y[:2500], unlabelled=X[2500:])
    else:
        model.fit(X, Y)
    # Batches, the rows that are watched, and those of folds and of the trial of inputs, of 600 rows.
    assert 50 <= max(largest_dense) <= 600
    model.predict(X)
    model.evaluate(X, Y)
    assert max(largest_dense) == BATCH < len(Y)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test__counter__sparse_rows__are_never_all_dense(sparse_rows, largest_dense, kind):
    X, counts = kind(sparse_rows[0]), 2 * sparse_rows[1]
    model = SDLGMCounter(**FEW).fit(X, counts)
    assert 50 <= max(largest_dense) <= 100
    model.predict(X)
    model.evaluate(X, counts)
    assert max(largest_dense) == BATCH < len(counts)


@pytest.mark.parametrize("settings", [{}, {"early_stopping": True, "validation_fraction": 0.5}])
def test__sdlgm__sparse_rows__are_never_all_dense(sparse_rows, largest_dense, settings):
    X = sparse_rows[0]
    model = SDLGM(**FEW, n_components=6, max_active=3, **settings).fit(X)
    assert max(largest_dense) <= 500
    model.partial_fit(X)
    model.evaluate(X)
    assert max(largest_dense) == BATCH < X.shape[0]


@pytest.fixture(scope="module")
def many_rows() -> sp.csr_matrix:
    """200,000 x 2,000 with five non-zeros a row: 3.2 GB if they were dense."""
    rng = np.random.default_rng(0)
    n_rows, n_columns, n_nonzero = 200_000, 2_000, 5
    columns = rng.integers(0, n_columns // n_nonzero, (n_rows, n_nonzero)) * n_nonzero + np.arange(n_nonzero)
    ends = np.arange(n_rows + 1) * n_nonzero
    return sp.csr_matrix((np.ones(columns.size), columns.ravel(), ends), shape=(n_rows, n_columns))


@pytest.mark.parametrize("estimator", [SDLGMClassifier, SDLGMCounter])
def test__memory__many_sparse_rows__does_not_grow_with_their_columns(many_rows, estimator):
    targets = np.asarray(many_rows[:, :3].todense()).astype(int)
    model = estimator(**{**FEW, "max_iter": 2})
    tracemalloc.start()
    try:
        model.fit(many_rows, targets)
        assert len(model.predict(many_rows[:5000])) == 5000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 400e6, f"{peak / 1e6:.0f} MB"


# A fit that did not work


def test__convergence__codes_without_information__is_a_warning_at_the_line_of_the_fit(small):
    noise = np.random.default_rng(0).random((200, 8))
    settings = {**small, "posterior": "shared", "max_iter": 300, "kl_warmup": 0.0, "random_state": 0}
    settings["likelihood"] = "bernoulli"
    with pytest.warns(
        ConvergenceWarning, match=r"the KL is 0\.\d+ nats.*no information.*no two columns depend"
    ) as record:
        model = SDLGM(**settings).fit(noise)
    assert record[0].filename == __file__
    assert model.history_[-1].kl < 0.05
    assert model.transform(noise).shape == (200, 16)  # the model is there


@pytest.mark.parametrize("posterior", ["chain", "subset", "ordered", "shared"])
def test__convergence__rows_that_are_all_the_same__is_a_warning(small, posterior):
    """Also where the KL cannot come near zero, since codes are sets and the prior is over counts."""
    same = np.tile([0.0, 1.0, 1.0, 0.0], (100, 1))
    with pytest.warns(ConvergenceWarning, match="no information about the data"):
        model = SDLGM(**small, posterior=posterior, random_state=0).fit(same)
    assert model.history_[-1].row_divergence == pytest.approx(0, abs=1e-5)


def test__convergence__labels_that_x_says_nothing_about__is_a_warning_at_the_line_of_the_fit():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(500, 2)), rng.integers(0, 2, (500, 3))
    for estimator in (SDLGMClassifier, SDLGMCounter):
        with pytest.warns(ConvergenceWarning, match="do not depend on the data") as record:
            estimator(hidden=(8,), max_iter=100, random_state=0).fit(X, Y)
        assert record[0].filename == __file__


def history_of(monkeypatch, change) -> None:
    """Let runs end with other curves."""
    fit = train.fit

    def changed(trainer, batches, monitor, progress, **options):
        fit(trainer, batches, monitor, progress, **options)
        progress.history[:] = change(progress.history)

    monkeypatch.setattr(train, "fit", changed)


def test__convergence__most_features_dead__is_a_warning(digits, small, monkeypatch):
    history_of(monkeypatch, lambda history: [*history[:-1], replace(history[-1], features_used=7, discrete=-20.0)])
    with pytest.warns(ConvergenceWarning, match="use 7 of 16 features.*lower n_components"):
        SDLGM(**small, likelihood="bernoulli", random_state=0).fit(digits)


def test__convergence__bound_falls__is_not_stable_without_early_stopping_only(digits, small, monkeypatch):
    def falling(history):
        best = replace(history[-1], discrete=-15.0, training=-14.0)
        return [*history, best, replace(best, iteration=best.iteration + 5, discrete=-25.0, training=-10.0)]

    history_of(monkeypatch, falling)
    model = SDLGM(**small, likelihood="bernoulli", early_stopping=True, random_state=0).fit(digits)
    assert (model.problem_, model.validation_bound_) == (None, -15.0)
    with pytest.warns(ConvergenceWarning, match="fell from -15 nats at iteration 60 to -25 at 65.*not stable"):
        SDLGM(**small, likelihood="bernoulli", random_state=0).fit(digits)


@pytest.mark.parametrize("posterior", ["chain", "subset", "ordered", "shared"])
def test__convergence__digits_and_enough_iterations__is_quiet(digits, small, posterior):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SDLGM(**{**small, "max_iter": 300}, posterior=posterior, random_state=0).fit(digits)


def test__convergence__labels_that_x_explains__is_quiet():
    X, Y = make_multilabel_classification(n_samples=200, n_features=12, n_classes=5, n_labels=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for variant in ("dis", "gen", "con"):
            SDLGMClassifier(hidden=(16,), max_iter=100, variant=variant, random_state=0).fit(X, Y)
        SDLGMCounter(hidden=(16,), max_iter=100, random_state=0).fit(X, Y)


NOISE = np.random.default_rng(0)
GARBAGE = [
    (SDLGM(n_components=32, max_active=8, hidden=(64,)), load_iris().data, None),
    (SDLGM(n_components=32, max_active=8, hidden=(64,)), load_wine().data, None),
    (SDLGM(n_components=32, max_active=8, hidden=(64,)), NOISE.normal(size=(400, 10)), None),
    (SDLGMCounter(), load_digits().data, np.eye(10, dtype=int)[load_digits().target]),
    (SDLGMCounter(), NOISE.normal(size=(400, 10)), (NOISE.random((400, 4)) < 0.02).astype(int)),
]


@pytest.mark.parametrize(("estimator", "X", "y"), GARBAGE, ids=["iris", "wine", "noise", "digits", "rare"])
def test__convergence__learning_rate_far_too_large__is_a_warning_that_says_so(estimator, X, y):
    rate = 100 if isinstance(estimator, SDLGMCounter) else 10
    model = clone(estimator).set_params(learning_rate=rate, max_iter=200, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    if any("lower learning_rate" in str(warning.message) for warning in caught):
        return
    # Such runs are chaotic: rounding, which differs between processors, decides whether one recovers.
    assert y is not None
    assert model.history_[-1].discrete > train.frequency_log_prob(y, y) - 1


@pytest.mark.parametrize("learning_rate", [10, 100])
def test__convergence__classifier_with_a_learning_rate_far_too_large__warns_raises_or_learns(learning_rate):
    X, Y = make_multilabel_classification(n_samples=500, n_classes=6, random_state=0)
    for variant in ("dis", "con"):
        model = SDLGMClassifier(variant=variant, learning_rate=learning_rate, max_iter=100, random_state=0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model.fit(X, Y)
        except (ConvergenceWarning, TrainingDivergedError):
            continue
        frequencies = SDLGMClassifier(variant=variant, learning_rate=1e-9, max_iter=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert model.evaluate(X, Y).log_loss < frequencies.fit(X, Y).evaluate(X, Y).log_loss


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test__convergence__ordinary_data__is_quiet(load):
    X, target = load(return_X_y=True)
    Y = np.eye(target.max() + 1, dtype=int)[target]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SDLGM(n_components=32, max_active=8, hidden=(64,), max_iter=200, random_state=0).fit(X)
        SDLGMClassifier(max_iter=100, random_state=0).fit(X, Y)
        SDLGMCounter(max_iter=100, random_state=0).fit(X, Y)
