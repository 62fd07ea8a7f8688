"""Sets of labels, compared with sums over all sets."""

import itertools

import numpy as np
import pytest
import torch

from sdlgm import _kernels
from sdlgm.model import Noise, SlotDistribution, Temperatures
from sdlgm.model.codes import SubsetDistribution, label_sets
from sdlgm.model.codes.label_sets import LABEL_FORMS
from sdlgm.model.codes.set_distribution import SetDistribution

SIZES = [(4, 2), (5, 3), (6, 4), (4, 6)]


def all_sets(n_labels: int) -> np.ndarray:
    return np.array(list(itertools.product((0, 1), repeat=n_labels)))


def posterior_of(form: str, n_labels: int, n_slots: int) -> SlotDistribution | SubsetDistribution:
    generator = torch.Generator().manual_seed(n_labels)
    logits = 1.5 * torch.randn(1, n_labels, generator=generator, dtype=torch.float64)
    if form == "subset":
        return SubsetDistribution(logits, n_slots)
    return SlotDistribution(torch.tensor([0.8], dtype=torch.float64), logits, n_slots)


def sets_of(form: str, n_labels: int, n_slots: int) -> SetDistribution:
    posterior = posterior_of(form, n_labels, n_slots)
    presence = posterior.presence
    if form == "monte_carlo":
        temperatures = Temperatures(*torch.tensor([1.0, 1.0]))
        presence = label_sets.repeatable_presence(posterior, temperatures, 5, Noise.seeded(0))
    return label_sets.set_distribution(posterior, form, presence)


def probabilities(sets: SetDistribution) -> tuple[np.ndarray, np.ndarray]:
    every = all_sets(sets.logits.shape[1])
    return every, np.array([np.exp(sets.log_prob(one[None])[0]) for one in every])


def expected_f1(predicted: np.ndarray, every: np.ndarray, probs: np.ndarray) -> float:
    hits, sizes = every @ predicted, every.sum(axis=1) + predicted.sum()
    return float(probs @ np.where(sizes > 0, 2 * hits / np.maximum(sizes, 1), 1.0))


@pytest.mark.parametrize(("n_labels", "n_slots"), SIZES)
@pytest.mark.parametrize("form", LABEL_FORMS)
def test__set_distribution__numbers_and_presence__are_sums_over_all_sets(form, n_labels, n_slots):
    sets = sets_of(form, n_labels, n_slots)
    every, probs = probabilities(sets)
    assert probs.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(sets.presence[0], probs @ every, rtol=1e-10)
    sizes = np.bincount(every.sum(axis=1), probs, minlength=n_labels + 1)
    np.testing.assert_allclose(sets.numbers[0], sizes[: sets.budget + 1], atol=1e-12)
    np.testing.assert_array_equal(sets.mode()[0], every[probs.argmax()])


@pytest.mark.parametrize("form", ["subset", "multinomial", "closed_form"])
def test__set_distribution__of_a_posterior__has_its_probabilities_and_numbers(form):
    posterior = posterior_of(form, 5, 3)
    sets = label_sets.set_distribution(posterior, form, posterior.presence)
    every, probs = probabilities(sets)
    within = every.sum(axis=1) <= 3
    own = label_sets.label_log_prob(posterior, form, torch.tensor(every[within], dtype=torch.float64)).exp().numpy()
    if form == "multinomial":  # its probabilities of sets of a size add up to less than that of the size
        sizes = every[within].sum(axis=1)
        numbers = np.bincount(sizes, own)
        own = own / numbers[sizes] * sets.numbers[0][sizes]
    np.testing.assert_allclose(probs[within], own / own.sum(), rtol=1e-9)
    expected = label_sets.number_of_labels(posterior, form, posterior.presence)
    np.testing.assert_allclose(sets.numbers, expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize(("n_labels", "n_slots"), SIZES)
@pytest.mark.parametrize("form", LABEL_FORMS)
def test__best_sets__all_sets__none_has_a_larger_expected_f1(form, n_labels, n_slots):
    sets = sets_of(form, n_labels, n_slots)
    every, probs = probabilities(sets)
    labels, bounds = np.arange(n_labels), np.array([0, n_labels])
    joint = np.zeros((n_labels, sets.budget))
    sets.add_joint(1.0, labels, bounds, joint)
    for size in range(1, sets.budget + 1):
        of_size = every.sum(axis=1) == size
        np.testing.assert_allclose(joint[:, size - 1], probs[of_size] @ every[of_size], atol=1e-12)
    found = _kernels.best_sets(joint, sets.numbers[:, 0].copy(), bounds)
    scores = [expected_f1(one, every, probs) for one in every if one.sum() <= n_slots]
    assert expected_f1(found.astype(int), every, probs) == pytest.approx(max(scores), abs=1e-12)


def test__best_sets__nothing_likely__is_the_empty_set():
    sets = SetDistribution.absorbing(np.full((1, 4), -5.0), 2)
    joint = np.zeros((4, 2))
    sets.add_joint(1.0, np.arange(4), np.array([0, 4]), joint)
    assert not _kernels.best_sets(joint, sets.numbers[:, 0].copy(), np.array([0, 4])).any()


def test__given_numbers__labels_that_are_sure_beyond_the_budget__keep_the_likeliest():
    logits = np.array([[900.0, 700.0, 800.0, 750.0] + [600.0] * 400])
    sets = SetDistribution.given_numbers(logits, 2)
    assert np.flatnonzero(sets.mode()[0]).tolist() == [0, 2]
    np.testing.assert_allclose(sets.numbers.sum(axis=1), 1.0)
