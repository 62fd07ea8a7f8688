"""Schedules: weight of the KL, learning rate, temperature."""

from dataclasses import replace

import pytest

from sdlgm.train import schedules
from training import CONFIG


def test__kl_weight__warm_up__rises_linearly_to_one():
    weights = [schedules.kl_weight(CONFIG, i) for i in (0, 10, 20, 99)]
    assert weights == [0.0, 0.5, 1.0, 1.0]
    assert schedules.kl_weight(replace(CONFIG, kl_warmup=0.0), 0) == 1.0


@pytest.mark.parametrize("rate", [0.3, 2.0])
def test__kl_weight__rate__is_reached_when_the_warm_up_ends(rate):
    config = replace(CONFIG, rate=rate)
    weights = [schedules.kl_weight(config, i) for i in (0, 10, 19, 20, 99)]
    assert weights == pytest.approx([0.0, 0.5 * rate, 0.95 * rate, rate, rate])
    assert [schedules.is_warmed_up(config, i) for i in (0, 10, 19, 20, 99)] == [False, False, False, True, True]


def test__learning_rate__decay__falls_linearly_to_zero():
    rates = [schedules.learning_rate(CONFIG, i) for i in (0, 50, 75, 100, 200)]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.0, 0.0])
    assert schedules.learning_rate(replace(CONFIG, lr_decay=0.0), 1000) == 0.1


def test__temperature__schedule__is_geometric():
    assert schedules.temperature(1.0, CONFIG, 50) == pytest.approx(0.5)
    assert schedules.temperature(1.0, CONFIG, 100) == pytest.approx(0.25)
    assert schedules.temperature(1.0, replace(CONFIG, final_temperature=None), 50) == 1.0
