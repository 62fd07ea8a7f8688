"""Signs in the training curves that a fit did not work, and curves that show none."""

import numpy as np
import pytest

from sdlgm.train import Gain, Record, convergence_problem
from sdlgm.train.convergence import (
    MIN_DRAWS_PER_FEATURE,
    MIN_FALL,
    MIN_KL,
    MIN_RELATIVE_FALL,
    MIN_SHARE_USED,
    frequency_log_prob,
)

N_FEATURES = 40
N_WATCHED = 500


def record(iteration: int = 100, **changes) -> Record:
    """Return a point of a fit without problems."""
    values = {
        "discrete": -100.0,
        "relaxed": -95.0,
        "kl": 20.0,
        "n_active": 4.0,
        "kl_weight": 1.0,
        "learning_rate": 1e-3,
        "gate_temperature": 1.0,
        "feature_temperature": 1.0,
        "features_used": N_FEATURES,
        "training": -100.0,
    }
    return Record(iteration=iteration, **{**values, **changes})


def problem(*history: Record, held_out: bool = False) -> str | None:
    return convergence_problem(history, n_features=N_FEATURES, n_watched=N_WATCHED, held_out=held_out)


def curve(*points: tuple[float, float]) -> list[Record]:
    """Return a curve from pairs of a watched bound and a training bound."""
    return [record(10 * (n + 1), discrete=discrete, training=training) for n, (discrete, training) in enumerate(points)]


def test__convergence_problem__no_curve__is_none():
    assert problem() is None


def test__convergence_problem__good_fit__is_none():
    assert problem(record()) is None
    assert problem(*curve((-120, -121), (-105, -104), (-100, -95)), held_out=True) is None


# Codes without information


@pytest.mark.parametrize("kl", [0.0, 0.99 * MIN_KL])
def test__convergence_problem__kl_near_zero__says_that_codes_carry_no_information(kl):
    found = problem(record(kl=20.0), record(kl=kl))
    assert found is not None
    assert "no information about the data" in found
    assert f"{kl:.2g} nats" in found


def test__convergence_problem__kl_near_zero_before_the_end__is_none():
    assert problem(record(kl=0.0), record(kl=MIN_KL)) is None


def test__convergence_problem__still_in_the_warm_up__is_none():
    assert problem(record(kl=0.0, features_used=1, kl_weight=0.9)) is None


@pytest.mark.parametrize(("rate", "found"), [(1.0, True), (0.1, False)])
def test__convergence_problem__rate__judges_the_weighted_bound(rate, found):
    """The bound falls by 10 nats of KL and rises by 5 nats of likelihood."""
    history = [record(10, kl_weight=rate, discrete=-60.0), record(20, kl=30.0, kl_weight=rate, discrete=-65.0)]
    message = convergence_problem(history, uninformed=-63.0, rate=rate)
    assert (message is not None) is found


def test__convergence_problem__rate__is_named_and_weighs_the_warm_up():
    falling = [record(10, kl_weight=2.0, discrete=-60.0), record(20, kl_weight=2.0, discrete=-90.0)]
    message = convergence_problem(falling, rate=2.0)
    assert message is not None
    assert "from -80 nats" in message
    assert "rate=2" in message
    assert convergence_problem([record(kl=0.0, kl_weight=1.0)], rate=2.0) is None


def test__convergence_problem__predictions_like_frequencies__are_found():
    found = convergence_problem([record(kl=0.0, discrete=-2.0, features_used=None)], baseline=-2.0)
    assert found is not None
    assert "do not depend on the data" in found


@pytest.mark.parametrize(("discrete", "baseline"), [(-0.001, -0.2), (-0.03, -0.03), (0.0, 0.0)])
def test__convergence_problem__rare_or_constant_targets__are_quiet(discrete, baseline):
    """A perfect model of rare labels has a small KL, and constant targets leave nothing to learn."""
    assert convergence_problem([record(kl=0.002, discrete=discrete, features_used=None)], baseline=baseline) is None


def test__frequency_log_prob__labels_and_counts__is_that_of_independent_columns():
    targets = np.array([[0, 2], [0, 1], [1, 1], [0, 0]])
    expected = np.log(3 / 4) + np.log(1 / 4), np.log(3 / 4) + np.log(1 / 2)
    assert frequency_log_prob(targets, targets[:2]) == pytest.approx(np.mean(expected))


# Worse than a model without information


def test__convergence_problem__worse_than_the_means__says_so_and_names_the_learning_rate():
    bad = record(discrete=-100.0, relaxed=-99.0, features_used=1)  # dead features are the lesser problem
    found = convergence_problem([bad], n_features=N_FEATURES, n_watched=N_WATCHED, uninformed=-60.0)
    assert found is not None
    assert "-100 nats" in found
    assert "-60" in found
    assert "lower learning_rate" in found


def test__convergence_problem__information_in_the_relaxation__names_the_gradient():
    found = convergence_problem([record(discrete=-1308.0, relaxed=-104.0)], uninformed=-206.0)
    assert found is not None
    assert "in the relaxation" in found
    assert "reinmax" in found


@pytest.mark.parametrize(("uninformed", "least"), [(-10.0, MIN_FALL), (-1000.0, MIN_RELATIVE_FALL * 1000)])
def test__convergence_problem__as_good_as_the_means__is_none(uninformed, least):
    """Nothing can be learned from noise, and posteriors over sets cannot equal the prior."""
    for share, expected in ((0.9, False), (1.1, True)):
        found = convergence_problem([record(discrete=uninformed - share * least)], uninformed=uninformed)
        assert (found is not None) == expected


def test__convergence_problem__held_out__compares_the_parameters_that_are_kept():
    good, bad = record(discrete=-50.0, training=-50.0), record(110, discrete=-90.0, training=-90.0)
    assert convergence_problem([good, bad], uninformed=-60.0, held_out=True) is None
    assert convergence_problem([good, bad], uninformed=-60.0) is not None


# Curves that fall


def test__convergence_problem__ends_far_below_its_best__says_where_it_was_best():
    found = problem(*curve((-100, -98), (-50, -50), (-80, -80)))
    assert found is not None
    assert "from -50 nats at iteration 20 to -80 at 30" in found
    assert "lower learning_rate" in found


def test__convergence_problem__fall_from_the_warm_up_or_within_the_noise__is_none():
    assert problem(record(10, discrete=-20.0, kl_weight=0.5), record(20, discrete=-30.0)) is None
    assert problem(*curve((-50, -50), (-50.5, -50))) is None


# Dead features


def test__convergence_problem__few_features_used__says_how_many():
    used = int(MIN_SHARE_USED * N_FEATURES) - 1
    found = problem(record(features_used=used))
    assert found is not None
    assert f"use {used} of {N_FEATURES} features" in found
    assert "n_components" in found


def test__convergence_problem__half_of_the_features_used__is_none():
    assert problem(record(features_used=int(MIN_SHARE_USED * N_FEATURES))) is None


def test__convergence_problem__too_few_codes_to_contain_all_features__is_none():
    """With few rows and short codes, features are missing by chance."""
    dead = record(features_used=1)
    enough = int(MIN_DRAWS_PER_FEATURE * N_FEATURES / dead.n_active)
    assert convergence_problem([dead], n_features=N_FEATURES, n_watched=enough) is not None
    assert convergence_problem([dead], n_features=N_FEATURES, n_watched=enough - 1) is None


def test__convergence_problem__features_not_counted__is_none():
    assert problem(record(features_used=None)) is None
    assert convergence_problem([record(features_used=1)], n_watched=N_WATCHED) is None


# Overfitting


TRAINED = Gain(bound=-60.0, uninformed=-120.0)


def gap(discrete: float, trained: Gain | None) -> str | None:
    history = [record(10, discrete=discrete), record(20, discrete=discrete - 1.0)]
    return convergence_problem(history, held_out=True, uninformed=-118.0, trained=trained)


def test__convergence_problem__held_out_rows_gain_much_less__is_overfitting():
    found = gap(-90.0, TRAINED)
    assert found is not None
    assert "overfits" in found
    assert "gain 60 nats" in found
    assert "held-out rows 28" in found
    assert "smaller networks (hidden)" in found


@pytest.mark.parametrize(
    ("discrete", "trained"),
    [
        (-87.0, TRAINED),  # 31 of 60 nats
        (-117.8, Gain(bound=-119.2, uninformed=-120.0)),  # 0.2 of 0.8 nats: noise
        (-90.0, None),
    ],
)
def test__convergence_problem__held_out_rows_gain_about_as_much__is_none(discrete, trained):
    assert gap(discrete, trained) is None


@pytest.mark.parametrize(("trained", "says"), [(-60.0, "overfits"), (-119.5, "not in the codes")])
def test__convergence_problem__held_out_rows_worse_than_uninformed__is_overfitting_if_others_gain(trained, says):
    found = gap(-125.0, Gain(bound=trained, uninformed=-120.0))
    assert found is not None
    assert says in found


def test__convergence_problem__watched_rows_not_held_out__is_no_overfitting():
    found = problem(record(10, discrete=-100.0), record(20, discrete=-110.0))
    assert found is not None
    assert "overfits" not in found


@pytest.mark.parametrize(("best", "least"), [(-10.0, MIN_FALL), (-1000.0, MIN_RELATIVE_FALL * 1000)])
def test__convergence_problem__fall_within_the_noise__is_none(best, least):
    assert problem(*curve((best, -98), (best - 0.9 * least, -90))) is None
    assert problem(*curve((best, -98), (best - 1.1 * least, -90))) is not None


def test__convergence_problem__best_point_in_the_warm_up__does_not_count():
    """While the KL is phased in, the objective is another one."""
    warming = record(10, discrete=-50.0, training=-120.0, kl_weight=0.5)
    assert problem(warming, *curve((-101, -98), (-100, -90))) is None


def test__convergence_problem__empty_codes__say_so():
    found = problem(record(features_used=0, n_active=0.01, kl=0.5))
    assert found is not None
    assert "codes are empty" in found
    assert "likelihood" in found
