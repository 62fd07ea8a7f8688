"""Columns of several kinds, and missing values."""

import json

import pytest
import torch

from kinds import LAYOUT, LIKELIHOODS, N_OUTPUTS, ROWS, statistics, without
from sdlgm.model.likelihoods import LIKELIHOODS as KINDS
from sdlgm.model.likelihoods import Layout, Mixed, likelihood_of


@pytest.fixture
def mixed() -> Mixed:
    likelihood = likelihood_of("mixed", 7, LAYOUT)
    assert isinstance(likelihood, Mixed)
    likelihood.start(statistics())
    return likelihood.double()


@pytest.fixture
def output(generator) -> torch.Tensor:
    return torch.randn(4, 3, N_OUTPUTS, generator=generator, dtype=torch.float64)


def test__mixed__log_prob__is_the_sum_of_the_parts(mixed, output):
    expected, start = torch.zeros(4, 3, dtype=torch.float64), 0
    for name, columns in LAYOUT.groups.items():
        part = mixed.parts[name]
        own = output[..., start : start + part.n_outputs]
        expected = expected + part.log_prob(ROWS[:, columns], own)
        torch.testing.assert_close(mixed.log_probs(ROWS, output)[..., columns], part.log_probs(ROWS[:, columns], own))
        torch.testing.assert_close(mixed.mean(output)[..., columns], part.mean(own))
        start += part.n_outputs
    assert start == mixed.n_outputs == N_OUTPUTS
    torch.testing.assert_close(mixed.log_prob(ROWS, output), expected)


def test__mixed__sample__has_each_kind_in_its_column(mixed, output, generator):
    drawn = mixed.sample(output, generator).detach()
    assert drawn.shape == (4, 3, 7)
    for column, name in enumerate(LIKELIHOODS):
        values = drawn[..., column]
        if KINDS[name].support != "real":
            assert bool((values == values.floor()).all())
            assert float(values.min()) >= 0
        if column in LAYOUT.levels_of:
            assert float(values.max()) < LAYOUT.levels_of[column]


@pytest.mark.parametrize("column", range(7))
def test__log_prob__missing_entry__leaves_its_column_out(mixed, output, column):
    rows = without(ROWS, column)
    entries = mixed.log_probs(ROWS, output)
    expected = entries.sum(-1)
    expected[:, 0] -= entries[:, 0, column]
    torch.testing.assert_close(mixed.log_prob(rows, output), expected)


def test__log_prob__missing_entries__have_no_gradient_and_no_nan(mixed, output):
    rows = ROWS.clone()
    rows[0] = torch.nan
    rows[1, ::2] = torch.nan
    output.requires_grad_()
    value = mixed.log_prob(rows, output)
    assert bool((value[:, 0] == 0).all())
    value.sum().backward()
    assert output.grad is not None
    assert bool((output.grad[:, 0] == 0).all())
    for gradient in (output.grad, *(parameter.grad for parameter in mixed.parameters())):
        assert gradient is not None
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"categorical"}))
def test__log_prob__every_likelihood__masks_missing_entries(name, generator):
    likelihood, output = KINDS[name](2), torch.randn(1, 2, generator=generator, requires_grad=True)
    value = likelihood.log_prob(torch.tensor([[1.0, torch.nan]]), output)
    torch.testing.assert_close(value, likelihood.log_probs(torch.tensor([[1.0, 0.0]]), output)[..., 0])
    value.sum().backward()
    assert output.grad is not None
    assert output.grad[0, 1] == 0
    assert output.grad[0, 0] != 0


def test__layout__json__is_the_same_layout():
    content = json.loads(json.dumps(LAYOUT.as_json()))
    assert Layout.from_json(content, 7, KINDS) == LAYOUT
    assert (LAYOUT.name, Layout(("poisson",) * 3).name) == ("mixed", "poisson")
    assert LAYOUT.levels_of == {2: 3, 5: 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"likelihoods": [["gaussian", 6]]}, "not those of 7 columns"),
        ({"likelihoods": [["magic", 7]]}, "'magic' of a column is not known"),
        ({"likelihoods": [["gaussian", 10**12]]}, "from 1 to 7"),
        ({"likelihoods": "gaussian"}, "not a list of names"),
        ({"likelihoods": 3}, "not a list of names"),
        ({"n_levels": [3]}, "numbers of levels"),
        ({"n_levels": [3, True]}, "levels of a column"),
        ({"n_levels": [3, -1]}, "levels of a column"),
        ({"with_missing": [7]}, "missing values: 7"),
        ({"with_missing": [2, 0]}, "not in order"),
        ({"with_missing": None}, "not a list"),
    ],
)
def test__layout__nonsense_in_a_file__is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Layout.from_json(LAYOUT.as_json() | change, 7, KINDS)
