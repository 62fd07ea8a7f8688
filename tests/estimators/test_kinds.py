"""Models of columns of every kind, and of tables with missing values."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from sdlgm import SDLGM, DataError, ModelFileError, load
from sdlgm.estimators._preparation import Columns, Scaling
from sdlgm.model.likelihoods import LIKELIHOODS

PLANTED = {"n_components": 6, "max_active": 4, "hidden": (32,), "max_iter": 250, "learning_rate": 0.01}
NAMES = ["size", "visits", "colour", "sold", "change"]


def planted(name: str, n_rows: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of twelve columns, and the three features that they come from, with four columns each."""
    rng = np.random.default_rng(0)
    features = (rng.random((n_rows, 3)) < 0.4).astype(float)
    on = np.repeat(features, 4, axis=1) > 0
    noise = rng.random(on.shape) < 0.1
    rows = {
        "poisson": rng.poisson(np.where(on, 6.0, 0.5)),
        "negative_binomial": rng.poisson(rng.gamma(3, np.where(on, 12.0, 0.5) / 3)),
        "categorical": np.where(noise, rng.integers(0, 3, on.shape), np.where(on, 2, 0)),
        "student_t": 5 * on + rng.standard_t(1.8, on.shape),
        "mixed": np.where(
            np.arange(12) % 4 == 0,
            5 * on + rng.standard_t(1.8, on.shape),
            np.where(np.arange(12) % 4 == 1, rng.poisson(np.where(on, 6.0, 0.5)), on ^ noise),
        ),
    }
    return rows[name].astype(float), features


def table(n_rows: int = 300, *, missing: float = 0.0) -> np.ndarray:
    """Return rows with a column of every kind, which depend on three features."""
    rng = np.random.default_rng(1)
    features = rng.integers(0, 2, (n_rows, 3))
    X = np.column_stack(
        [
            100 + 10 * features @ [1, 2, 0] + rng.normal(size=n_rows),
            rng.poisson(np.where(features[:, 0], 9, 1)),
            np.where(rng.random(n_rows) < 0.1, 2, features[:, 1]),
            features[:, 2],
            6 * features[:, 0] + rng.standard_t(1.8, n_rows),
        ]
    ).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


CHOSEN = {2: "categorical"}
KINDS = ["gaussian", "negative_binomial", "categorical", "bernoulli", "student_t"]


@pytest.fixture(scope="module")
def whole(small) -> SDLGM:
    return SDLGM(**small, likelihood=CHOSEN, random_state=0).fit(table())


@pytest.fixture(scope="module")
def holes() -> np.ndarray:
    X = table(missing=0.2)
    X[7] = np.nan
    X.flags.writeable = False
    return X


@pytest.fixture(scope="module")
def with_holes(holes) -> SDLGM:
    return SDLGM(**PLANTED, batch_size=50, likelihood=CHOSEN, random_state=0).fit(holes)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "categorical", "student_t", "mixed"])
def test__fit__planted_features__are_recovered(name):
    X, features = planted(name)
    likelihood = "auto" if name == "mixed" else name
    model = SDLGM(**PLANTED, likelihood=likelihood, random_state=0).fit(X)
    assert model.likelihood_ == name
    codes = model.transform(X).toarray()
    used = codes[:, codes.std(axis=0) > 0]
    agreement = np.abs(np.corrcoef(used.T, features.T)[: used.shape[1], used.shape[1] :])
    found = agreement[linear_sum_assignment(-agreement)]
    assert len(found) == 3
    assert found.min() > 0.8


def test__likelihoods__mixed_table__are_aligned_with_the_columns(whole):
    assert whole.likelihood_ == "mixed"
    assert whole.likelihoods_.tolist() == KINDS


def test__decoded_and_sampled_rows__are_in_the_values_of_their_columns(whole):
    X = table()
    for rows in (whole.inverse_transform(whole.transform(X)), whole.sample(200, random_state=0)):
        assert np.isfinite(rows).all()
        assert set(np.unique(rows[:, 2])) <= {0.0, 1.0, 2.0}
        assert rows[:, 1].min() >= 0
        assert abs(np.median(rows[:, 0]) - np.median(X[:, 0])) < 2 * X[:, 0].std()
    drawn = whole.sample(200, random_state=0)
    assert set(np.unique(drawn[:, 3])) <= {0.0, 1.0}
    assert (drawn[:, 1] == np.floor(drawn[:, 1])).all()


def test__elbo__mixed_table__is_a_density_in_the_units_of_the_continuous_columns(whole):
    """With the decoder at its start, log p(x) is that of independent columns, scored here by torch and scaled back."""
    X = table()
    fitted, module = whole._fitted, whole.module_
    scaled = torch.tensor(fitted.scaling.apply(X))
    code = torch.zeros(1, len(X), whole.n_components)
    with torch.no_grad():
        output = module.generative(code[0])
        own = module.log_likelihood(scaled, code)[0].double() + fitted.scaling.log_jacobian
        gaussian, counts = module.likelihood.parts["gaussian"], module.likelihood.parts["negative_binomial"]
        heavy, scale = module.likelihood.parts["student_t"], torch.tensor(fitted.scaling.scale)
        location = torch.tensor(fitted.scaling.location)
        groups = list(module.likelihood.parts)
        places = dict(
            zip(groups, np.cumsum([0, *(part.n_outputs for part in module.likelihood.likelihoods)]), strict=False)
        )
        beta = {name: output[:, place].double() for name, place in places.items()}
        levels = output[:, places["categorical"] : places["categorical"] + 3].double()
        x = torch.tensor(X)
        expected = (
            torch.distributions.Normal(
                beta["gaussian"] * scale[0] + location[0], gaussian.deviation.double() * scale[0]
            ).log_prob(x[:, 0])
            + torch.distributions.NegativeBinomial(
                counts.size.double(), logits=beta["negative_binomial"] - counts.size.double().log()
            ).log_prob(x[:, 1])
            + torch.distributions.Categorical(logits=levels).log_prob(x[:, 2])
            + torch.distributions.Bernoulli(logits=beta["bernoulli"]).log_prob(x[:, 3])
            + torch.distributions.StudentT(
                heavy.degrees.double(), beta["student_t"] * scale[4] + location[4], heavy.scale.double() * scale[4]
            ).log_prob(x[:, 4])
        )
    torch.testing.assert_close(own, expected, atol=2e-4, rtol=1e-5)


def test__elbo__missing_value__is_the_bound_of_the_other_columns(with_holes, holes):
    """The Jacobian of a column counts for the rows that have it."""
    scaling = with_holes._fitted.scaling
    missing = np.isnan(holes)
    expected = -(np.where(missing, 0.0, 1.0) * np.log(scaling.scale)).sum(axis=1)
    np.testing.assert_allclose(scaling.log_jacobians(missing), expected)
    bounds = with_holes.elbo(holes, random_state=0)
    assert np.isfinite(bounds).all()
    assert -1.0 < bounds[7] <= 0.1  # nothing is known of this row: log p = 0, minus what its code costs
    assert with_holes.score(holes) == pytest.approx(bounds.mean(), abs=0.3)
    assert with_holes.history_[-1].discrete == pytest.approx(bounds.mean(), abs=0.6)
    assert with_holes.history_[-1].training == pytest.approx(bounds.mean(), abs=1.5)


def test__gaussian__missing_values__bound_is_in_the_units_of_the_data(measurements, small):
    X = measurements.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    near, far = (SDLGM(**small, random_state=0).fit(rows) for rows in (X, X * 1000))
    n_known = (~np.isnan(X)).sum(axis=1)
    difference = near.elbo(X, random_state=0) - far.elbo(X * 1000, random_state=0)
    np.testing.assert_allclose(difference, n_known * np.log(1000), atol=0.05)
    assert near.history_[-1].training - far.history_[-1].training == pytest.approx(
        n_known.mean() * np.log(1000), abs=0.05
    )


def test__inverse_transform__table_with_holes__fills_them(with_holes, holes):
    filled = with_holes.inverse_transform(with_holes.transform(holes))
    assert np.isfinite(filled).all()
    truth, missing = table(), np.isnan(holes)
    assert set(np.unique(filled[:, 2])) <= {0.0, 1.0, 2.0}
    column = missing[:, 0]
    column[7] = False
    error = np.square(filled[column, 0] - truth[column, 0]).mean()
    assert error < 0.8 * np.square(np.nanmean(holes[:, 0]) - truth[column, 0]).mean()


def test__transform__missing_value__is_the_mean_for_a_model_without_any(fitted_gaussian, measurements):
    rows, filled = measurements[:20].copy(), measurements[:20].copy()
    rows[:, 2], filled[:, 2] = np.nan, measurements[:, 2].mean()
    assert (fitted_gaussian.transform(rows) != fitted_gaussian.transform(filled)).nnz == 0
    assert np.isfinite(fitted_gaussian.evaluate(rows).discrete)


@pytest.mark.parametrize("binarize", ["dynamic", "threshold", "probability"])
def test__bernoulli__missing_values__stay_missing(digits, small, binarize):
    X = digits.astype(np.float64)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    model = SDLGM(**{**small, "max_iter": 20}, likelihood="bernoulli", binarize=binarize, random_state=0).fit(X)
    assert model.likelihood_ == "bernoulli"
    empty = np.full((2, X.shape[1]), np.nan)
    assert (model.elbo(empty, random_state=0) < 1e-4).all()
    assert (model.elbo(empty, random_state=0) > -10).all()
    assert np.isfinite(model.evaluate(X).reconstruction_error)


def test__evaluate__reconstruction_error__leaves_missing_out_and_counts_wrong_levels(with_holes, holes):
    decoded = with_holes.inverse_transform(with_holes.transform(holes))
    errors = np.square(decoded - holes)
    errors[:, 2] = np.where(np.isnan(holes[:, 2]), np.nan, decoded[:, 2] != holes[:, 2])
    assert with_holes.evaluate(holes).reconstruction_error == pytest.approx(np.nanmean(errors), rel=1e-4)


def test__save_and_load__mixed_with_missing__give_the_same_answers(with_holes, holes, tmp_path):
    with_holes.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.likelihoods_.tolist() == with_holes.likelihoods_.tolist()
    assert loaded.likelihood == {"2": "categorical"}
    np.testing.assert_array_equal(loaded.elbo(holes, random_state=0), with_holes.elbo(holes, random_state=0))
    np.testing.assert_array_equal(loaded.sample(5, random_state=0), with_holes.sample(5, random_state=0))
    again = clone(loaded).set_params(max_iter=5, random_state=0).fit(holes)
    assert again.likelihoods_.tolist() == with_holes.likelihoods_.tolist()


def test__save__plain_model__has_no_fields_of_tables(fitted, fitted_gaussian):
    for model in (fitted, fitted_gaussian):
        assert set(model._fitted_document()) == {"likelihood", "training_bound"}
        assert not [name for name in model.module_.state_dict() if name.startswith("inputs")]


def test__partial_fit__mixed_table__keeps_its_likelihoods(holes, small):
    model = SDLGM(**small, likelihood=CHOSEN, random_state=0).partial_fit(holes).partial_fit(holes[:100])
    assert model.likelihoods_[2] == "categorical"
    with pytest.raises(ValueError, match="likelihood='categorical' for column 2, which partial_fit cannot change"):
        model.set_params(likelihood={2: "poisson"}).partial_fit(holes)
    impossible = table()
    impossible[3, 2] = 7
    with pytest.raises(DataError, match=r"the value 7 in row 3, column 2; it has to be a level"):
        model.set_params(likelihood="auto").partial_fit(impossible)


def test__fit__checkpoint__resumes_a_mixed_model(holes, small, tmp_path):
    settings = {**small, "likelihood": CHOSEN, "random_state": 0}
    whole = SDLGM(**settings).fit(holes)

    def stop(_, iteration):
        if iteration == 30:
            raise InterruptedError

    checkpointed = {**settings, "checkpoint_dir": tmp_path, "checkpoint_every": 20}
    with pytest.raises(InterruptedError):
        SDLGM(**checkpointed).fit(holes, callback=stop)
    resumed = SDLGM(**checkpointed, resume=True).fit(holes)
    np.testing.assert_array_equal(resumed.elbo(holes, random_state=0), whole.elbo(holes, random_state=0))


def test__fit__files_and_memory__agree(small, tmp_path):
    X = table()
    np.save(tmp_path / "rows.npy", X)
    in_memory, streamed = (SDLGM(**small, random_state=0).fit(rows) for rows in (X, tmp_path / "rows.npy"))
    assert in_memory.likelihoods_.tolist() == streamed.likelihoods_.tolist()
    np.testing.assert_allclose(streamed._fitted.scaling.scale, in_memory._fitted.scaling.scale, rtol=1e-9)
    np.testing.assert_array_equal(streamed.module_.inputs.location, in_memory.module_.inputs.location)


def test__fit__sparse_counts__are_those_of_dense_ones(small):
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.3, 1.0, (200, 30))).astype(float)
    dense, sparse = (SDLGM(**small, random_state=0).fit(rows) for rows in (X, sp.csr_matrix(X)))
    assert sparse.likelihood_ == "negative_binomial"
    np.testing.assert_array_equal(sparse.elbo(X, random_state=0), dense.elbo(sp.csr_matrix(X), random_state=0))
    wrong = sp.csr_matrix(X + 0.5 * (X > 0))
    with pytest.raises(DataError, match="whole number"):
        sparse.transform(wrong)
    nan = sp.csr_matrix(X)
    nan.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        sparse.transform(nan)
    with pytest.raises(ValueError, match="NaN"):
        SDLGM(**small).fit(nan)


def test__fit__early_stopping__knows_levels_of_held_out_rows(holes, small):
    for seed in range(3):
        settings = {**small, "max_iter": 10, "early_stopping": True, "kl_warmup": 0.0}
        SDLGM(**settings, likelihood=CHOSEN, validation_fraction=0.5, random_state=seed).fit(holes)


def test__fit__data_frame__takes_columns_by_name(small):
    frame = pd.DataFrame(table(missing=0.1), columns=NAMES)
    settings = {**small, "max_iter": 5}
    model = SDLGM(**settings, likelihood={"colour": "categorical", "size": "student_t"}).fit(frame)
    assert model.likelihoods_.tolist() == ["student_t", *KINDS[1:]]
    with pytest.raises(ValueError, match="likelihood of column 'colour' is 'magic'; it has to be one of auto"):
        SDLGM(**settings, likelihood={"colour": "magic"}).fit(frame)
    with pytest.raises(ValueError, match="names the column 'price'"):
        SDLGM(**settings, likelihood={"price": "poisson"}).fit(frame)


def test__values__impossible__are_refused_by_place(whole):
    rows = table()
    rows[4, 2] = 3
    for method in (whole.transform, whole.elbo, whole.evaluate):
        with pytest.raises(DataError, match="the value 3 in row 4, column 2; it has to be a level .* or NaN"):
            method(rows)
    rows[4, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        whole.transform(rows)


def test__values__impossible_in_a_table__are_refused_by_the_name_of_the_column(small, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"load": rng.normal(size=60), "visits": rng.poisson(2, 60)})
    SDLGM(**small, random_state=0).fit(frame).save(tmp_path / "model")
    model = load(tmp_path / "model")
    for column, value, message in (
        ("visits", -1.0, "^the value -1 in row 4, column 'visits'; it has to be a whole"),
        ("load", 1e30, "^the value in row 4, column 'load' is too large compared with the training data"),
    ):
        wrong = frame.astype(float)
        wrong.loc[4, column] = value
        for batches in (wrong, iter([wrong])):
            with pytest.raises(DataError, match=message):
                model.transform(batches)
    with pytest.raises(DataError, match=r"^in the batch that begins with row 60: the value in row 4, column 'load' is"):
        model.transform(iter([frame, wrong]))


def test__column_without_any_value__decodes_to_a_number(small):
    X = table()
    X[:, 0] = np.nan
    model = SDLGM(**{**small, "max_iter": 5}, random_state=0).fit(X)
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()
    assert np.isfinite(model.score(X))


def test__student_t__drift__costs_tens_of_nats(small):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((500, 4)) < 0.6, 0.0, rng.random((500, 4)) ** 4)
    model = SDLGM(**small, random_state=0).fit(X)
    assert set(model.likelihoods_) == {"student_t"}
    drifted = X + 1e6
    assert model.elbo(drifted).min() > -1000
    assert model.transform(drifted).sum(axis=1).max() <= model.max_active


def test__scaling__quartiles__do_not_depend_on_the_tails(small):
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(400, 2))
    wild = X.copy()
    wild[0] = 1e12
    settings = {**small, "max_iter": 1, "likelihood": "student_t"}
    usual, other = (SDLGM(**settings).fit(rows)._fitted.scaling for rows in (X, wild))
    np.testing.assert_allclose(other.scale, usual.scale, rtol=0.05)
    np.testing.assert_allclose(other.location, usual.location, atol=0.02)
    normal = SDLGM(**settings).fit(rng.normal(3, 2, (5000, 1)))._fitted.scaling
    np.testing.assert_allclose([normal.location[0], normal.scale[0]], [3, 2], rtol=0.05)


def test__scaling__pixels__share_one_scale(digits, small):
    scaling = SDLGM(**{**small, "max_iter": 1}).fit(digits)._fitted.scaling
    columns = Columns.of(digits)
    varied = scaling.scale > 0
    np.testing.assert_array_equal(varied, columns.varies)
    np.testing.assert_allclose(scaling.scale[varied], np.sqrt(np.mean(columns.deviation[varied] ** 2)))
    named = SDLGM(**{**small, "max_iter": 1}, likelihood="gaussian").fit(digits)._fitted.scaling
    np.testing.assert_array_equal(named.scale, Scaling.standardizing(columns).scale)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["columns"].update(n_levels=[10**8]), "outputs of the columns"),
        (lambda d: d["columns"].update(likelihoods=[["gaussian", 5]], n_levels=[]), "the columns have 'gaussian'"),
        (lambda d: d["columns"].update(likelihoods=[["gaussian", 10**15]]), "from 1 to 5"),
        (lambda d: d["columns"].update(with_missing=[]), "posterior.encoder.location"),
        (lambda d: d.update(likelihood="poisson"), "likelihood='poisson', and the columns have 'mixed'"),
        (lambda d: d.pop("columns"), "mixed"),
        (lambda d: d.update(n_features_in=10**9), "tensors are not those of 1000000000 columns"),
        (lambda d: d["params"].update(likelihood={"0": "magic"}), "'magic'"),
        (lambda d: d["params"].update(likelihood=[]), "likelihood"),
    ],
)
def test__load__nonsense_about_columns__is_a_named_error(with_holes, tmp_path, change, message):
    from sdlgm import _tensorfile
    from sdlgm._fileheader import MODEL

    with_holes.save(tmp_path / "model")
    content = _tensorfile.read(tmp_path / "model", MODEL)
    change(content.document)
    _tensorfile.write(tmp_path / "model", MODEL, content.document, content.tensors)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model")


def test__load__likelihood_that_needs_columns__is_refused_without_them(fitted, tmp_path):
    from sdlgm import _tensorfile
    from sdlgm._fileheader import MODEL

    fitted.save(tmp_path / "model")
    content = _tensorfile.read(tmp_path / "model", MODEL)
    for name in sorted(set(LIKELIHOODS) - {"bernoulli", "gaussian"}):
        content.document["likelihood"] = name
        _tensorfile.write(tmp_path / "model", MODEL, content.document, content.tensors)
        with pytest.raises(ModelFileError, match="needs what each column is"):
            load(tmp_path / "model")


def test__fit__sparse_with_nan__says_what_to_do(small):
    X = sp.csr_matrix(np.array([[1.0, np.nan], [0.0, 2.0], [3.0, 0.0]]))
    with pytest.raises(ValueError, match=r"sparse matrix cannot have missing values; give X.toarray\(\)"):
        SDLGM(**small).fit(X)
