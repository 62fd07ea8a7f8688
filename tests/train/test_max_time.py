"""Fits that the time limits: they end annealed, resume, and leave runs without a limit as they are."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter, load
from sdlgm.train import Monitor, Trainer, clock, schedules
from training import CONFIG, same_parameters

STEP = 0.25
"""Seconds of an iteration by the clock of these tests."""


@pytest.fixture
def slow_steps(monkeypatch):
    """A clock by which nothing but an iteration takes time."""
    seconds, step = [1000.0], Trainer.step

    def timed(self, batch):
        seconds[0] += STEP
        return step(self, batch)

    monkeypatch.setattr(clock, "now", lambda: seconds[0])
    monkeypatch.setattr(Trainer, "step", timed)
    return seconds


@pytest.fixture
def untimed(small):
    return {name: value for name, value in small.items() if name != "max_iter"} | {
        "early_stopping": False,
        "refine": 0,
        "random_state": 0,
    }


@pytest.mark.parametrize(
    ("limits", "length", "positions"),
    [
        ({"max_iter": 100, "max_time": None}, 100, [0, 30, 30]),
        ({"max_iter": None, "max_time": 20.0}, 20, [0, 5, 12]),
        ({"max_iter": 100, "max_time": 20.0}, 100, [0, 30, 60]),
    ],
)
def test__position__of_limits__is_whichever_is_further(limits, length, positions):
    config = replace(CONFIG, **limits)
    assert config.length == length
    assert [config.position(*point) for point in ((0, 0.0), (30, 5.0), (30, 12.0))] == positions


def test__schedules__limited_by_time__are_those_of_the_share_that_is_used():
    timed = replace(CONFIG, max_iter=None, max_time=40.0)
    for share in (0.0, 0.1, 0.2, 0.6, 0.9, 1.0):
        of_iterations, of_time = 100 * share, timed.position(7, 40.0 * share)
        assert schedules.kl_weight(timed, of_time) == pytest.approx(schedules.kl_weight(CONFIG, of_iterations))
        assert schedules.learning_rate(timed, of_time) == pytest.approx(schedules.learning_rate(CONFIG, of_iterations))
        assert schedules.temperature(1.0, timed, of_time) == pytest.approx(
            schedules.temperature(1.0, CONFIG, of_iterations)
        )


def test__max_time__alone__fits_until_then_and_ends_annealed(digits, untimed, slow_steps):
    rates = []

    def note(module, iteration):
        rates.append(slow_steps[0])

    model = SDLGM(**untimed, max_time=20.0).fit(digits, callback=note)
    assert model.n_iter_ == len(rates) == 20.0 / STEP
    last = model.history_[-1]
    assert (last.iteration, last.kl_weight, last.learning_rate) == (80, 1.0, 0.0)
    weights = [record.kl_weight for record in model.history_]
    assert weights == sorted(weights)
    assert weights[0] < 0.5  # the warm-up is that of the time, and not of 10,000 iterations or none
    assert all(later.iteration - one.iteration >= 5 for one, later in pairwise(model.history_))


def test__max_time__same_pace__is_the_fit_of_as_many_iterations(digits, untimed, slow_steps):
    timed = SDLGM(**untimed, max_time=20.0).fit(digits)
    assert same_parameters(timed, SDLGM(**untimed, max_iter=80).fit(digits))


def test__max_time__with_max_iter__ends_at_the_first_limit(digits, untimed, slow_steps):
    assert SDLGM(**untimed, max_time=1000.0, max_iter=12).fit(digits).n_iter_ == 12
    model = SDLGM(**untimed, max_time=3.0, max_iter=1000).fit(digits)
    assert model.n_iter_ == 12
    assert model.history_[-1].learning_rate == 0.0


def test__max_time__shorter_than_the_preparation__does_one_iteration(digits, untimed):
    model = SDLGM(**untimed, max_time=1e-9).fit(digits)
    assert model.n_iter_ == len(model.history_) == 1


def test__max_time__slow_points_of_the_curve__take_a_tenth_of_it(digits, untimed, slow_steps, monkeypatch):
    call = Monitor.__call__

    def slow(self, trainer):
        slow_steps[0] += 2.0
        return call(self, trainer)

    monkeypatch.setattr(Monitor, "__call__", slow)
    model = SDLGM(**untimed, max_time=100.0).fit(digits)
    assert 2 <= len(model.history_) <= 6
    assert model.n_iter_ >= 350


def test__resume__max_time__counts_what_was_used_before(digits, untimed, slow_steps, tmp_path, monkeypatch):
    settings = {**untimed, "max_time": 20.0, "checkpoint_dir": tmp_path, "checkpoint_every": 10}

    def interrupt(module, iteration):
        if iteration == 35:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SDLGM(**settings).fit(digits, callback=interrupt)
    slow_steps[0] += 500.0  # does not count
    resumed = SDLGM(**settings, resume=True).fit(digits)
    assert resumed.n_iter_ == 80
    assert same_parameters(resumed, SDLGM(**untimed, max_iter=80).fit(digits))
    again = SDLGM(**settings, resume=True).fit(digits)
    assert again.n_iter_ == 80
    assert same_parameters(resumed, again)


@pytest.mark.parametrize("estimator", [SDLGMClassifier, SDLGMCounter])
def test__max_time__with_targets__ends_annealed(digits, slow_steps, estimator):
    y = np.eye(10, dtype=int)[np.arange(len(digits)) % 10]
    model = estimator(hidden=(4,), max_time=5.0, random_state=0)
    model.fit(digits, y)
    assert model.n_iter_ == 20
    assert model.history_[-1].learning_rate == 0.0


def test__max_time__threshold_by_cross_validation__is_shared_by_all_fits(digits, slow_steps):
    y = np.eye(10, dtype=int)[np.arange(len(digits)) % 10]
    y[:, 0] = 1
    start = slow_steps[0]
    model = SDLGMClassifier(hidden=(4,), max_time=30.0, threshold="cv", random_state=0).fit(digits, y)
    assert model.n_iter_ == 20
    assert slow_steps[0] - start == 30.0


@pytest.mark.parametrize(("estimator", "iterations"), [(SDLGM, 10_000), (SDLGMClassifier, 500), (SDLGMCounter, 1000)])
def test__max_iter__auto__is_the_number_of_the_documentation(estimator, iterations):
    model = estimator()
    assert model._limits() == {"max_iter": iterations, "max_time": None}
    assert f'``"auto"`` is {iterations:,};' in estimator.__doc__
    assert model.set_params(max_time=2).set_params(max_iter=7)._limits() == {"max_iter": 7, "max_time": 2.0}


def test__partial_fit__max_time__goes_by_iterations(digits, untimed):
    timed = SDLGM(**untimed, max_time=1e-9).partial_fit(digits)
    assert same_parameters(timed, SDLGM(**untimed, max_iter=10_000).partial_fit(digits))


def test__save__max_time__is_of_the_machine_and_left_out(digits, untimed, tmp_path):
    SDLGM(**untimed, max_time=1e-9).fit(digits[:50]).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.max_time, loaded.max_iter) == (None, "auto")
