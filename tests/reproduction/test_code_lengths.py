"""Lengths of rounded coefficients, and the comparison of codes at the same length."""

import math

import numpy as np
import pytest

from reproduction import code_lengths
from reproduction.figures import COMPARED, PEERS, equal_bits
from reproduction.pages.figures import page


def test__independent_supports__by_hand__are_these():
    known = np.array([[1, 0], [1, 0], [2, 0]])
    shares = np.array([3.5, 0.5]) / 4  # the first is there in all three rows, the second in none
    bits = code_lengths.independent_supports(known)(np.array([[1, 0], [0, 0]]))
    assert bits[0] == pytest.approx(-np.log2([shares[0], 1 - shares[1]]).sum())
    assert bits[1] == pytest.approx(-np.log2([1 - shares[0], 1 - shares[1]]).sum())


def test__pooled_values__by_hand__are_these():
    known = np.array([[1, 0], [1, -1], [0, 1]])
    bits = code_lengths.pooled_values(known)(np.array([[1, -1], [0, 0], [0, 1]]))
    minus, one = 1.5 / 5, 3.5 / 5
    assert bits == pytest.approx(-np.log2([minus * one, 1.0, one]))


def test__feature_values__features_with_other_levels__are_shorter_than_pooled():
    rng = np.random.default_rng(0)
    known = np.stack([rng.integers(1, 3, 2000), rng.integers(3, 5, 2000)], axis=1)
    codes = {"pooled": code_lengths.pooled_values(known), "by feature": code_lengths.feature_values(known)}
    assert codes["by feature"](known).mean() == pytest.approx(2.0, abs=0.05)  # one bit each
    assert codes["pooled"](known).mean() == pytest.approx(4.0, abs=0.05)
    assert code_lengths.shortest(codes, known) == "by feature"


def test__value_codes__all_values__have_probabilities_that_sum_to_one():
    known = np.random.default_rng(0).integers(-2, 4, (50, 3))
    values = np.array([level for level in range(-2, 4) if level != 0])
    for code in (code_lengths.pooled_values(known), code_lengths.feature_values(known)):
        for feature in range(3):
            levels = np.zeros((len(values), 3), dtype=int)
            levels[:, feature] = values
            assert np.exp2(-code(levels)).sum() == pytest.approx(1.0)


def test__chain_supports__features_that_go_together__are_shorter_than_independent():
    rng = np.random.default_rng(0)
    levels = np.repeat(rng.random((3000, 4)) < 0.3, 2, axis=1).astype(int)  # four pairs
    known, held_out, new = levels[:2000], levels[2000:2500], levels[2500:]
    codes = {
        "independent": code_lengths.independent_supports(known),
        "chain": code_lengths.chain_supports(known, held_out, seed=0, epochs=(20,)),
    }
    entropy = -4 * (0.3 * math.log2(0.3) + 0.7 * math.log2(0.7))
    assert codes["independent"](new).mean() == pytest.approx(2 * entropy, rel=0.05)
    assert codes["chain"](new).mean() == pytest.approx(entropy, rel=0.06)
    assert code_lengths.shortest(codes, held_out) == "chain"


def test__chain_supports__all_supports__have_probabilities_that_sum_to_one():
    every = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    code = code_lengths.chain_supports(every[[1, 3, 5, 5]], every[[1, 3]], seed=0, epochs=(2,))
    assert np.exp2(-code(every)).sum() == pytest.approx(1.0, abs=1e-5)


def rows(ours: float = 0.01) -> list[dict]:
    """Return codes whose peers have the error 1 / bits; the second peer is always longer."""
    first, second = PEERS.values()
    points = [("SDLGM", 50.0, ours)]
    points += [(f"{first}, k = {k}", float(k), 1 / k) for k in (25, 100)]
    points += [(f"{second}, k = {k}", float(k), 1 / k) for k in (60, 100)]
    return [{"code": code, "bits": bits, "error": error, "n_active": 1.0} for code, bits, error in points]


def test__equal_bits__power_law__is_interpolated_and_others_are_left_out():
    (found,) = equal_bits(rows())
    assert found["peer"] == "top-k sparse autoencoder"
    assert (found["bits"], found["error"]) == (50.0, 0.01)
    assert found["peer_error"] == pytest.approx(1 / 50)
    assert found["reduction"] == pytest.approx(0.5)


def test__equal_bits__codes_of_candidates__are_compared_too():
    candidates = {**rows()[0], "code": COMPARED[1], "error": 0.005}
    usual, best = equal_bits([*rows(), candidates])
    assert (usual["code"], best["code"]) == COMPARED
    assert best["reduction"] == pytest.approx(0.75)


@pytest.mark.parametrize(("ours", "said"), [(0.01, "50% below"), (0.03, "50% above")])
def test__page__comparison__is_said(ours, said):
    result = {"data": "digits", "iterations": 10, "codes": rows(ours), "protocol": {}}
    result |= {"versions": {}, "command": "", "cores": 1}
    assert said in page(result)
