"""The optimiser is that of torch, bit for bit, and does not import torch's compiler."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from sdlgm.train.adam import Adam


def parameters(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((7, 5), (5,), (), (3, 4, 2))
    made = [nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]
    made.append(nn.Parameter(torch.randn(6, 4, generator=generator).to(dtype).T))  # not contiguous
    return made


def set_gradients(parameters: list[nn.Parameter], iteration: int) -> None:
    """Give all parameters but one, which takes turns, a gradient. The last one never has any."""
    generator = torch.Generator().manual_seed(iteration)
    for number, parameter in enumerate(parameters):
        gradient = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        has_one = number != iteration % len(parameters) and number != len(parameters) - 2
        parameter.grad = gradient if has_one else None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test__step__changing_learning_rate_and_missing_gradients__is_that_of_torch(weight_decay, dtype):
    own, theirs = parameters(dtype), parameters(dtype)
    kind = torch.optim.AdamW if weight_decay else torch.optim.Adam
    optimizer = Adam(own, 0.01, weight_decay)
    reference = kind(theirs, lr=0.01, weight_decay=weight_decay, fused=True)
    for iteration in range(12):
        optimizer.learning_rate = reference.param_groups[0]["lr"] = 0.01 / (1 + iteration)
        set_gradients(own, iteration)
        set_gradients(theirs, iteration)
        optimizer.step()
        reference.step()
    assert all(torch.equal(a, b) for a, b in zip(own, theirs, strict=True))
    expected = reference.state_dict()["state"]
    moments = optimizer.moments()
    assert moments.keys() == expected.keys() == {0, 1, 2, 4}
    for number, of_parameter in moments.items():
        assert all(torch.equal(tensor, expected[number][name]) for name, tensor in of_parameter.items())


def test__moments__loaded_by_another_optimiser__continue_as_if_nothing_had_been():
    first, second = parameters(), parameters()
    optimizer, other = Adam(first, 0.01), Adam(second[:2], 0.01)
    other.groups.append(second[2:])
    for iteration in range(4):
        set_gradients(first, iteration)
        optimizer.step()
    for own, continued in zip(first, second, strict=True):
        continued.data.copy_(own.data)
    saved = optimizer.moments()
    other.load_moments(saved)
    for iteration in range(4, 8):
        for step, of in ((optimizer.step, first), (other.step, second)):
            set_gradients(of, iteration)
            step()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert float(saved[0]["step"]) == 3  # a copy: later steps have not changed it


def test__zero_grad__after_gradients__leaves_none():
    own = parameters()
    set_gradients(own, 0)
    optimizer = Adam(own, 0.01)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in own)
    optimizer.step()  # nothing to do
    assert optimizer.moments() == {}


FIT = """
import sys, warnings
import numpy as np
from sdlgm import SDLGM
warnings.simplefilter("ignore")
X = np.random.default_rng(0).random((60, 6))
model = SDLGM(n_components=6, max_active=3, hidden=(8,), max_iter=3, batch_size=20, random_state=0).fit(X)
model.inverse_transform(model.transform(X)), model.evaluate(X), model.sample(2)
print(*{"torch._dynamo", "sympy", "matplotlib"} & set(sys.modules))
"""


def test__fit_and_evaluation__import_neither_compiler_nor_algebra():
    """They took three quarters of the time of the first fit."""
    result = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
