"""The ranges that the command line checks are those of the estimators."""

import math

import pytest
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

import sdlgm
from sdlgm.cli._ranges import Range, read_ranges, violation

ESTIMATORS = ["SDLGM", "SDLGMClassifier", "SDLGMCounter"]
VALUES = [-1, 0, 1, 2, 10**4, 10**4 + 1, -0.5, 0.0, 0.5, 1.0, 1.5, math.inf, math.nan]


@pytest.mark.parametrize("name", ESTIMATORS)
def test__ranges__every_parameter__accept_what_the_estimator_accepts(name):
    kind = getattr(sdlgm, name)
    ranges, n_compared = read_ranges(name), 0
    assert ranges.keys() <= set(kind._get_param_names())
    for parameter, intervals in ranges.items():
        whole = all(interval.kind == "Integral" for interval in intervals)
        for value in VALUES:
            if not intervals or (whole and isinstance(value, float)):
                continue  # the option does not parse it
            try:
                kind(**{parameter: value})._validate_params()
                accepted = True
            except InvalidParameterError:
                accepted = False
            assert (violation(intervals, value) is None) is accepted, (parameter, value)
            n_compared += 1
    assert n_compared > 50


@pytest.mark.parametrize("name", ESTIMATORS)
def test__ranges__parameters_with_an_interval__are_all_read(name):
    constraints = getattr(sdlgm, name)._parameter_constraints
    expected = {
        name
        for name, some in constraints.items()
        if any(isinstance(one, Interval) for one in some)
        and all(one is None or isinstance(one, Interval | StrOptions) for one in some)
    }
    assert {name for name, some in read_ranges(name).items() if some} == expected


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Range("Integral", 1, None, "left"), "a whole number, at least 1"),
        (Range("Integral", 1, 10**4, "both"), "a whole number, at least 1 and at most 10000"),
        (Range("Real", 0, 1, "neither"), "a number, above 0 and below 1"),
        (Range("Real", None, None, "neither"), "a number"),
    ],
)
def test__range__text__is_plain(interval, text):
    assert str(interval) == text


def test__violation__text_or_switch__is_none():
    ranges = (Range("Integral", 1, None, "left"),)
    assert [violation(ranges, value) for value in ("auto", None, True, (1, 2))] == [None] * 4
    assert violation((), -1) is None
    assert violation(ranges, 0) == "0 is out of range; it has to be a whole number, at least 1"
