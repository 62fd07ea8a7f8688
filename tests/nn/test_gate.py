"""The gate: budget, mask, gradient, and what it remembers of its last call."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sdlgm.nn import SubsetGate


@settings(max_examples=40, deadline=None)
@given(
    n_elements=st.integers(1, 40),
    budget=st.integers(1, 12),
    spread=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    seed=st.integers(0, 999),
    training=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test__gate__any_scores_and_masks__keeps_the_budget(n_elements, budget, spread, seed, training, dtype):
    generator = torch.Generator().manual_seed(seed)
    scores = (spread * torch.randn(7, n_elements, generator=generator) + spread).to(dtype).requires_grad_()
    mask = torch.rand(7, n_elements, generator=generator) < 0.7
    mask[0] = False
    gate = SubsetGate(budget, eval_kl=True).train(training)
    members = gate(scores, mask, generator=generator)
    assert members.dtype == dtype
    assert set(members.unique().tolist()) <= {0.0, 1.0}
    assert members.sum(-1).max() <= budget
    assert not members[~mask].any()
    assert gate.kl is not None
    assert torch.isfinite(gate.kl).all()
    assert gate.kl[0] == 0
    assert (gate.n_active == members.sum(-1)).all()
    (gate.kl.sum() + members.sum()).backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert not scores.grad[~mask].any()


def test__gate__scores_of_zero__is_the_prior():
    gate = SubsetGate(8, prior_active=3.0)
    scores = torch.zeros(4000, 50)
    number = gate(scores, generator=torch.Generator().manual_seed(0)).sum(-1).mean()
    assert gate.kl is not None
    torch.testing.assert_close(gate.kl, torch.zeros(4000), atol=1e-4, rtol=0)
    assert number == pytest.approx(3.0, abs=0.15)  # the budget cuts a little off


@pytest.mark.parametrize("gradient", ["reinmax", "straight_through", "darn"])
def test__gate__trained_to_find_elements__finds_as_many_as_there_are(gradient):
    """Each row has some useful elements and a cost for every other one; the budget is larger than needed."""
    torch.manual_seed(0)
    useful = torch.tensor([[1.0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0], [0.0] * 8, [0, 1, 1, 0, 1, 0, 0, 1]])
    scores = torch.zeros(4, 8, requires_grad=True)
    gate = SubsetGate(4, gradient=gradient)
    optimiser = torch.optim.SGD([scores], lr=3.0)
    for _ in range(100):
        optimiser.zero_grad()
        loss = (gate(scores) - useful).square().sum()
        loss.backward()
        optimiser.step()
    gate.eval()
    assert gate(scores).tolist() == useful.tolist()


def test__gate__learned_prior__follows_the_number_that_is_used():
    torch.manual_seed(0)
    gate = SubsetGate(6, prior_active=3.0, learn_prior=True, prior_shape=(2, 1))
    scores = torch.full((2, 30, 20), -20.0)
    scores[0, :, :1] = 20.0  # one element
    scores[1, :, :5] = 20.0  # five
    optimiser = torch.optim.Adam(gate.parameters(), lr=0.15)
    for _ in range(100):
        optimiser.zero_grad()
        gate(scores)
        assert gate.kl is not None
        gate.kl.sum().backward()
        optimiser.step()
    one, five = gate.prior_active.flatten().tolist()
    assert one == pytest.approx(1.0, abs=0.3)
    assert five > 4.5


def test__gate__state__survives_a_round_trip():
    gate = SubsetGate(6, prior_active=1.5, learn_prior=True)
    other = SubsetGate(6, learn_prior=True)
    other.load_state_dict(gate.state_dict())
    assert other.prior_active.item() == pytest.approx(1.5)


def test__gate__deepcopy_after_a_call__works():
    gate = SubsetGate(2, learn_prior=True)
    gate(torch.randn(3, 5, requires_grad=True))
    copied = copy.deepcopy(gate)
    assert copied.kl is None
    assert gate.kl is not None
    assert copied(torch.randn(3, 5)).shape == (3, 5)


def test__gate__scores_of_one_row__need_no_batch():
    gate = SubsetGate(2, prior_active=1.0)
    assert gate(torch.randn(5)).shape == (5,)
    assert gate.kl is not None
    assert gate.kl.shape == ()


def test__gate__evaluation__computes_no_divergence_unless_told():
    gate = SubsetGate(2).eval()
    gate(torch.randn(3, 5))
    assert gate.kl is None


def test__gate__same_generator__draws_the_same():
    gate, scores = SubsetGate(3), torch.randn(20, 9)

    def draw(seed: int) -> Tensor:
        return gate(scores, generator=torch.Generator().manual_seed(seed))

    assert draw(0).equal(draw(0))
    assert not draw(0).equal(draw(1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_active": 0}, "max_active"),
        ({"max_active": 2.5}, "max_active"),
        ({"max_active": 2, "prior_active": 2.0}, "prior_active"),
        ({"max_active": 2, "prior_active": 0.0}, "prior_active"),
        ({"max_active": 2, "gradient": "score_function"}, "gradient must be one of darn, reinmax"),
    ],
)
def test__gate__bad_arguments__are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SubsetGate(**arguments)


def test__gate__no_elements__is_an_error():
    with pytest.raises(ValueError, match="nothing to choose from"):
        SubsetGate(2)(torch.zeros(3, 0))
