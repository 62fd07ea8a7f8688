"""What the encoder sees."""

import numpy as np
import pytest
import torch

from kinds import LAYOUT, ROWS, statistics, without
from sdlgm.model.likelihoods import Layout
from sdlgm.model.networks.inputs import EncoderInputs, with_mean


@pytest.fixture
def inputs() -> EncoderInputs:
    inputs = EncoderInputs(LAYOUT)
    inputs.adapt_to(statistics())
    return inputs.double()


def test__encoder_inputs__columns__are_seen_by_their_kind(inputs):
    seen = inputs(ROWS)
    assert seen.shape == (3, inputs.n_outputs) == (3, 12)
    row = ROWS[0]
    np.testing.assert_allclose(seen[0, :2], [row[0], row[3] - 0.6], rtol=1e-6)  # gaussian, bernoulli
    np.testing.assert_allclose(seen[0, 2], np.arcsinh(-3), rtol=1e-6)  # student_t
    logs = (np.log1p([3.0, 4.0]) - np.log1p([1.5, 4.0])) / 0.5  # poisson, negative_binomial
    np.testing.assert_allclose(seen[0, 3:5], np.arcsinh(logs), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(seen[0, 5:10], [-0.2, -0.3, 0.5, 0.5, -0.5], rtol=1e-6)  # levels
    np.testing.assert_allclose(seen[0, 10:], [-0.25, -0.1], rtol=1e-6)  # nothing is missing


def test__encoder_inputs__missing_entries__are_at_their_mean_and_marked(inputs):
    nothing = inputs(torch.full((1, 7), torch.nan, dtype=torch.float64))[0]
    assert bool((nothing[:10] == 0).all())
    np.testing.assert_allclose(nothing[10:], [0.75, 0.9], rtol=1e-6)
    whole, part = inputs(ROWS)[0], inputs(without(ROWS, 2))[0]
    assert (whole != part).nonzero().ravel().tolist() == [5, 6, 7, 11]


@pytest.mark.parametrize("column", [1, 4, 6])
def test__encoder_inputs__wild_entry__stays_of_the_size_of_others(inputs, column):
    wild = ROWS.clone()
    wild[0, column] = 1e15
    assert float(inputs(wild).abs().max()) < 40


def test__encoder_inputs__rare_binary_column__is_not_blown_up():
    inputs = EncoderInputs(Layout(("bernoulli", "poisson")))
    rare = statistics()
    columns = {name: value[:2] for name, value in vars(rare).items() if isinstance(value, torch.Tensor)}
    columns |= {
        "mean": torch.tensor([1e-4, 1e-4]),
        "log_deviation": torch.tensor([1e-2, 7e-3]),
        "log_mean": torch.zeros(2),
    }
    inputs.adapt_to(type(rare)(**columns))
    assert float(inputs(torch.tensor([[1.0, 1.0]])).abs().max()) < 6


def test__with_mean__missing_entries__are_filled():
    rows, mean = torch.tensor([[1.0, torch.nan], [torch.nan, 2.0]]), torch.tensor([5.0, 6.0])
    assert with_mean(rows, mean).tolist() == [[1.0, 6.0], [5.0, 2.0]]
    assert with_mean(mean[None], mean) is not None
