"""The layer that reads only the weights of present features equals a dense layer."""

import pytest
import torch
import torch.nn.functional as F

from sdlgm.model import arrays
from sdlgm.model.networks.code_layer import CodeLayer

N_ROWS, N_FEATURES, N_OUTPUTS = 7, 50, 4


@pytest.fixture
def layer() -> CodeLayer:
    torch.manual_seed(0)
    return CodeLayer(N_FEATURES, N_OUTPUTS).double()


def codes(share: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    present = torch.rand(N_ROWS, N_FEATURES, generator=generator) < share
    values = present * torch.randint(1, 4, present.shape, generator=generator)
    values[2] = 0  # an empty code
    return values.double().requires_grad_()


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test__code_layer__value_and_gradients__equal_those_of_a_dense_layer(share, layer):
    x, weight, bias = codes(share), layer.weight, layer.bias
    outer = torch.randn(N_ROWS, N_OUTPUTS, generator=torch.Generator().manual_seed(2)).double()

    def results(value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return value, *torch.autograd.grad((outer * value).sum(), [x, weight, bias])

    torch.testing.assert_close(results(layer(x)), results(F.linear(x, weight, bias)))


@pytest.mark.parametrize("shape", [(N_FEATURES,), (2, 3, N_FEATURES), (0, N_FEATURES)])
def test__code_layer__any_batch_shape__is_kept(shape, layer):
    x = torch.zeros(shape, dtype=torch.float64)
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


def test__code_layer__fractions_among_zeros__are_not_rounded(layer):
    x = torch.zeros(1, N_FEATURES, dtype=torch.float64)
    x[0, 3] = 0.25
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


def test__code_layer__sparse_codes__make_no_dense_product(layer, monkeypatch):
    monkeypatch.setattr(F, "linear", None)
    layer(codes(0.05))


def test__code_layer__without_kernels__is_a_dense_layer(layer, monkeypatch):
    x = codes(0.05)
    expected = layer(x)
    monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("assign", [False, True])
def test__code_layer__loaded__keeps_its_weights_by_feature(layer, assign):
    other = CodeLayer(N_FEATURES, N_OUTPUTS).double()
    state = {name: tensor.contiguous() for name, tensor in layer.state_dict().items()}
    other.load_state_dict(state, assign=assign)
    torch.testing.assert_close(other.weight, layer.weight)
    assert other.weight.T.is_contiguous()
