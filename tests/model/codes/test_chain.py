"""Subsets whose features depend on each other: probabilities, and the cost of drawn codes."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from enumeration import L0, K
from oracles import distribution
from sdlgm.model import Noise, SlotDistribution, arrays
from sdlgm.model.codes.chain import ChainDistribution
from sdlgm.model.codes.coupling import DenseCoupling


def test__chain_log_prob__by_hand__is_the_product_of_the_conditionals():
    posterior = distribution("chain")
    logits, coupling = posterior.logits[0].tolist(), posterior.coupling.matrix.tolist()
    for code in itertools.product((0, 1), repeat=K):
        expected = 1.0
        for k, present in enumerate(code):
            logit = logits[k] + sum(coupling[j][k] * code[j] for j in range(k))
            share = 0.0 if sum(code[:k]) == L0 else 1 / (1 + math.exp(-logit))
            expected *= share if present else 1 - share
        log_prob = posterior.log_prob(torch.tensor([[code]], dtype=torch.float64)).item()
        assert math.exp(log_prob) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test__chain_cost__value_and_gradients__equal_the_plain_version(dtype, monkeypatch):
    """Compare the kernels, which have derivatives of their own, with torch's operations and autograd."""
    generator = torch.Generator().manual_seed(0)
    n_features, n_slots = 6, 3
    shapes = ((5, n_features), (n_features, n_features), (), (n_features,))
    inputs = [torch.randn(shape, generator=generator, dtype=dtype).mul(3).requires_grad_() for shape in shapes]
    logits, coupling, gate_logit, feature_logits = inputs
    posterior = ChainDistribution(logits, DenseCoupling(torch.triu(coupling, 1)), n_slots)
    counts = posterior.sample(40, Noise(generator)).requires_grad_()
    assert bool((counts.sum(-1) == n_slots).any())
    weights = torch.randn(40, 5, generator=generator, dtype=dtype)

    def cost() -> tuple[Tensor, ...]:
        value = posterior.cost(counts, SlotDistribution(gate_logit, feature_logits, n_slots))
        return value, *torch.autograd.grad((weights * value).sum(), [*inputs, counts], retain_graph=True)

    compiled = cost()
    monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
    torch.testing.assert_close(compiled, cost())
