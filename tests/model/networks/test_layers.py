"""Layers that several networks share."""

import pytest
import torch

from sdlgm.model.networks.layers import dropout


def test__dropout__rate__keeps_the_mean_and_uses_the_given_generator_only():
    x = torch.ones(200, 500)
    before = torch.random.get_rng_state()
    kept = dropout(x, 0.3, torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.random.get_rng_state())
    assert kept.mean().item() == pytest.approx(1.0, abs=0.02)
    assert (kept == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert torch.equal(dropout(x, 0.3, None), x)
