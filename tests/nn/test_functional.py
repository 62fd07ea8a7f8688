"""Attention as functions: weights, the gradient of members, and masks."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sdlgm.gradients import GRADIENTS
from sdlgm.model.codes.conditional import members_with_gradient, set_moments
from sdlgm.nn import _choice, functional, set_softmax, sparse_attention

N, BUDGET = 4, 2


def inputs(seed: int = 0, n_queries: int = 5, n_keys: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, 3, n_queries, 8), (2, 3, n_keys, 8), (2, 3, n_keys, 6))
    query, key, value = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return query, key, value


def test__set_softmax__double_precision__has_the_gradient_of_the_scores():
    scores = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    members = (torch.rand(4, 6, generator=torch.Generator().manual_seed(1)) < 0.5).double()
    members[0] = 0.0
    assert torch.autograd.gradcheck(lambda x: set_softmax(x, members), (scores,))
    torch.testing.assert_close(set_softmax(scores, members).sum(-1), (members.sum(-1) > 0).double())


def test__set_softmax__all_members__is_softmax():
    scores = torch.randn(3, 6)
    torch.testing.assert_close(set_softmax(scores, torch.ones(3, 6)), scores.softmax(-1))


def test__set_softmax__gradient_of_members__is_the_difference_that_each_makes():
    generator = torch.Generator().manual_seed(0)
    scores, slopes = torch.randn(2, N, generator=generator, dtype=torch.float64)
    for row in product([0.0, 1.0], repeat=N):
        members = torch.tensor(row, dtype=torch.float64, requires_grad=True)
        (set_softmax(scores, members) @ slopes).backward()
        for k in range(N):
            with_k, without = torch.tensor(row).double(), torch.tensor(row).double()
            with_k[k], without[k] = 1.0, 0.0
            difference = (set_softmax(scores, with_k) - set_softmax(scores, without)) @ slopes
            assert members.grad is not None
            torch.testing.assert_close(members.grad[k], difference)


def test__set_softmax__one_member_has_all_the_weight__has_a_bounded_gradient():
    members = torch.tensor([1.0, 1.0, 0.0], requires_grad=True)
    (set_softmax(torch.tensor([80.0, 0.0, 300.0]), members) * torch.tensor([1.0, -1.0, 2.0])).sum().backward()
    assert members.grad is not None
    assert members.grad.abs().max() < 3


@pytest.mark.parametrize(("shift", "tolerance"), [(-4.0, 0.02), (0.0, 0.2)])
def test__gradient__linear_loss__is_near_the_enumerated_one(shift, tolerance):
    """Without a binding budget it is exact; where the budget binds, nearly so."""
    generator = torch.Generator().manual_seed(2)
    scores, slopes = torch.randn(2, N, generator=generator, dtype=torch.float64)
    logits = (torch.randn(1, N, generator=generator, dtype=torch.float64) + shift).requires_grad_()
    sets = torch.tensor([row for row in product([0.0, 1.0], repeat=N) if sum(row) <= BUDGET], dtype=torch.float64)
    probs = (sets @ logits[0]).softmax(0)
    (exact,) = torch.autograd.grad(probs @ (set_softmax(scores.expand_as(sets), sets) @ slopes), logits)
    drawn = members_with_gradient(set_moments(logits, BUDGET)[1], sets.unsqueeze(1), GRADIENTS["reinmax"])[:, 0]
    value = set_softmax(scores.expand_as(sets), drawn) @ slopes
    (found,) = torch.autograd.grad(probs.detach() @ value, logits)
    assert float((found - exact).norm() / exact.norm()) < tolerance


def test__sparse_attention__budget_of_all_keys_and_high_bias__is_dense_attention():
    query, key, value = inputs()
    result = sparse_attention(query, key, value, 7, gate_bias=torch.tensor(100.0))
    torch.testing.assert_close(result.output, F.scaled_dot_product_attention(query, key, value))
    assert (result.n_active == 7).all()
    assert result.kl is None


def test__sparse_attention__evaluation__takes_the_largest_positive_log_odds():
    query, key, value = inputs()
    result = sparse_attention(query, key, value, 3, prior_active=2.0, need_kl=True)
    scores = query @ key.transpose(-2, -1) / 8**0.5
    log_odds = scores + torch.logit(torch.tensor(2 / 7, dtype=torch.float64))
    best = log_odds.topk(3, dim=-1)
    members = torch.zeros_like(scores).scatter(-1, best.indices, (best.values > 0).double())
    torch.testing.assert_close(result.weights, set_softmax(scores, members))
    assert (result.n_active < 3).any()
    assert result.kl is not None
    assert result.kl.shape == (2, 3, 5)


@pytest.mark.parametrize("training", [False, True])
def test__sparse_attention__masks__mean_what_those_of_torch_mean(training):
    query, key, value = inputs()
    allowed = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    numbers = torch.zeros(2, 1, 5, 7, dtype=torch.float64).masked_fill(~allowed, -torch.inf)
    found = [
        sparse_attention(
            query, key, value, 4, mask, training=training, generator=torch.Generator().manual_seed(0), prior_active=3.0
        )
        for mask in (allowed, numbers)
    ]
    torch.testing.assert_close(found[0].output, found[1].output)
    assert not found[0].weights[~allowed.expand(2, 3, 5, 7)].any()
    causal = torch.ones(5, 7, dtype=torch.bool).tril()
    one, other = (
        sparse_attention(query, key, value, 4, prior_active=3.0, **mask)
        for mask in ({"attn_mask": causal}, {"is_causal": True})
    )
    torch.testing.assert_close(one.output, other.output)


def test__sparse_attention__both_masks__is_an_error():
    query, key, value = inputs()
    with pytest.raises(ValueError, match="not both"):
        sparse_attention(query, key, value, 4, torch.ones(5, 7, dtype=torch.bool), is_causal=True)
    with pytest.raises(ValueError, match="bools or floating-point"):
        sparse_attention(query, key, value, 4, torch.ones(5, 7, dtype=torch.long))


def by_torch(monkeypatch) -> None:
    """Take torch's own operations, as on other devices."""
    for module in (functional, _choice):
        monkeypatch.setattr(module, "has_kernels", lambda *_: False)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bias_shape", [None, (), (3, 1, 1), (5, 7), (2, 1, 1, 7)])
def test__sparse_attention__kernels_and_torch__agree_in_evaluation(bias_shape, masked, monkeypatch):
    tensors = [x.requires_grad_() for x in inputs()]
    generator = torch.Generator().manual_seed(1)
    if bias_shape is not None:
        tensors.append(torch.randn(bias_shape, generator=generator, dtype=torch.float64).requires_grad_())
    expected = torch.full((3, 1), 2.0, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 1, 5, 7, generator=generator) < 0.6
    mask[0, :, 1] = False  # nothing left

    def results() -> tuple[Tensor, ...]:
        result = sparse_attention(
            *tensors[:3],
            3,
            mask if masked else None,
            prior_active=expected,
            gate_bias=None if bias_shape is None else tensors[3],
            need_kl=True,
        )
        assert result.kl is not None
        total = result.output.square().sum() + result.weights.square().sum() + (result.kl**2).sum()
        gradients = torch.autograd.grad(total, [*tensors, expected])
        return result.output, result.weights, result.kl, result.n_active, *gradients

    found = results()
    by_torch(monkeypatch)
    for one, other in zip(found, results(), strict=True):
        torch.testing.assert_close(one, other)


def test__sparse_attention__kernels_and_torch__have_the_same_mean_and_gradient_in_training(monkeypatch):
    """The draws differ, and their distribution does not: over many rows, nor do the means."""
    query, key, value = inputs(n_queries=1)
    query = query[0, :1].expand(1, 4000, -1)

    def results() -> list[Tensor]:
        scale = torch.ones(4000, dtype=torch.float64, requires_grad=True)
        generator = torch.Generator().manual_seed(0)
        result = sparse_attention(
            query * scale[:, None],
            key[0, :1],
            value[0, :1],
            3,
            training=True,
            prior_active=2.0,
            generator=generator,
        )
        assert result.kl is not None
        (gradient,) = torch.autograd.grad(result.output.sin().sum(), scale)
        return [result.output[0], result.weights[0], gradient[:, None], result.kl[0]]

    *found, kl = results()
    by_torch(monkeypatch)
    *expected, expected_kl = results()
    torch.testing.assert_close(kl, expected_kl)
    for one, other in zip(found, expected, strict=True):
        error = torch.sqrt((one.var(0) + other.var(0)) / len(one))
        assert ((one.mean(0) - other.mean(0)).abs() <= 4.5 * error + 1e-12).all()


def test__sparse_attention__values_of_all_heads_or_dropout_or_large_budget__are_averaged_by_a_product():
    query, key, value = inputs(n_keys=80)
    shared = value[:, :1]
    one, other = (
        sparse_attention(query, key, v, 5, training=True, prior_active=2.0, generator=torch.Generator().manual_seed(0))
        for v in (shared, shared.expand_as(value))
    )
    torch.testing.assert_close(one.output, other.output)
    large = sparse_attention(query, key, value, 70, prior_active=2.0)
    torch.testing.assert_close(large.output, large.weights @ value)
    dropped = sparse_attention(query, key, value, 5, dropout_p=0.5, training=True, prior_active=2.0)
    torch.testing.assert_close(dropped.output, dropped.weights @ value)


def test__sparse_attention__bad_gradient__is_named():
    with pytest.raises(ValueError, match="gradient must be one of"):
        sparse_attention(*inputs(), 4, gradient="gumbel")
