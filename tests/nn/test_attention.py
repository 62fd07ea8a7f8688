"""The layer beside `torch.nn.MultiheadAttention`: shapes, masks, weights, budget."""

import copy
import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sdlgm.nn import SparseAttention

E, H, L, S, N = 12, 3, 5, 9, 4


def tensors(*, batch_first: bool, batched: bool = True, widths: tuple[int, int, int] = (E, E, E)) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for length, width in zip((L, S, S), widths, strict=True):
        x = torch.randn(N, length, width, generator=generator)
        x = x if batch_first else x.transpose(0, 1)
        found.append(x if batched else (x[0] if batch_first else x[:, 0]))
    return found


def pair(max_active: int = S, **arguments: object) -> tuple[nn.MultiheadAttention, SparseAttention]:
    """Return a dense layer and a sparse one with the same weights and sets of all keys that the budget allows."""
    torch.manual_seed(0)
    dense = nn.MultiheadAttention(E, H, **arguments)  # pyright: ignore[reportArgumentType]
    sparse = SparseAttention(E, H, max_active, **arguments)  # pyright: ignore[reportArgumentType]
    missing, unexpected = sparse.load_state_dict(dense.state_dict(), strict=False)
    assert missing == ["gate_bias", "gate.prior_logit"]
    assert not unexpected
    nn.init.constant_(sparse.gate_bias, 100.0)
    return dense.eval(), sparse.eval()


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test__attention__budget_of_all_keys__is_dense_attention(batch_first, batched, average):
    dense, sparse = pair(batch_first=batch_first)
    q, k, v = tensors(batch_first=batch_first, batched=batched)
    for need_weights in (True, False):
        expected, found = (
            layer(q, k, v, need_weights=need_weights, average_attn_weights=average) for layer in (dense, sparse)
        )
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1], expected[1])


@pytest.mark.parametrize(
    "arguments",
    [
        {"bias": False},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"kdim": 7, "vdim": 6},
        {"kdim": 7, "vdim": 6, "add_bias_kv": True, "bias": False},
    ],
    ids="-".join,
)
def test__attention__arguments_of_torch__mean_the_same(arguments):
    dense, sparse = pair(S + 2, batch_first=True, **arguments)
    q, k, v = tensors(batch_first=True, widths=(E, arguments.get("kdim", E), arguments.get("vdim", E)))
    padding = torch.zeros(N, S, dtype=torch.bool)
    padding[1, 4:] = True
    for expected, found in zip(dense(q, k, v, padding), sparse(q, k, v, padding), strict=True):
        torch.testing.assert_close(found, expected)


def masks() -> dict[str, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    padding = torch.rand(N, S, generator=generator) < 0.4
    padding[:, 0] = False
    flat, deep = (torch.rand(shape, generator=generator) < 0.4 for shape in ((L, S), (N * H, L, S)))
    flat[:, 0] = deep[..., 0] = False
    as_numbers = [torch.zeros(mask.shape).masked_fill(mask, -torch.inf) for mask in (padding, flat, deep)]
    return {
        "padding": {"key_padding_mask": padding},
        "flat": {"attn_mask": flat},
        "deep": {"attn_mask": deep},
        "both": {"key_padding_mask": padding, "attn_mask": deep},
        "numbers": {"key_padding_mask": as_numbers[0], "attn_mask": as_numbers[1]},
        "deep numbers": {"attn_mask": as_numbers[2]},
        "shifts": {"attn_mask": torch.randn(L, S, generator=generator)},
    }


@pytest.mark.parametrize("name", masks())
def test__attention__masks__mean_what_those_of_torch_mean(name):
    dense, sparse = pair(batch_first=True)
    q, k, v = tensors(batch_first=True)
    for expected, found in zip(dense(q, k, v, **masks()[name]), sparse(q, k, v, **masks()[name]), strict=True):
        torch.testing.assert_close(found, expected)


@settings(max_examples=25, deadline=None)
@given(
    max_active=st.integers(1, 7),
    n_keys=st.integers(1, 20),
    spread=st.sampled_from([0.1, 1.0, 100.0]),
    bias=st.sampled_from([-300.0, 0.0, 5.0, 300.0]),
    training=st.booleans(),
    seed=st.integers(0, 999),
)
def test__attention__any_input_and_mask__keeps_the_budget(max_active, n_keys, spread, bias, training, seed):
    torch.manual_seed(seed)
    layer = SparseAttention(8, 2, max_active, batch_first=True, eval_kl=True).train(training)
    nn.init.constant_(layer.gate_bias, bias)
    x, queries = spread * torch.randn(3, n_keys, 8), (spread * torch.randn(3, 4, 8)).requires_grad_()
    padding = torch.rand(3, n_keys) < 0.4
    padding[0] = True  # nothing left
    output, weights = layer(queries, x, x, key_padding_mask=padding, average_attn_weights=False)
    assert weights is not None
    assert layer.kl is not None
    assert layer.n_active is not None
    assert ((weights != 0).sum(-1) <= max_active).all()
    assert ((weights != 0).sum(-1) <= layer.n_active).all()
    assert layer.n_active.max() <= max_active
    assert not weights[padding[:, None, None].expand_as(weights)].any()
    torch.testing.assert_close(output[0], layer.out_proj.bias.expand_as(output[0]))
    (output.sum() + layer.kl.sum()).backward()
    assert torch.isfinite(output).all()
    assert torch.isfinite(layer.kl).all()
    for tensor in (queries, *layer.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


def test__attention__many_keys__each_may_be_chosen_whatever_its_place():
    """The distribution has no order: with the keys in reverse, the weights are in reverse."""
    torch.manual_seed(0)
    layer = SparseAttention(8, 2, 3, batch_first=True, prior_active=2.5).eval()
    q, x = torch.randn(2, 6, 8), torch.randn(2, 50, 8)
    one, other = (layer(q, keys, keys, average_attn_weights=False)[1] for keys in (x, x.flip(1)))
    torch.testing.assert_close(one, other.flip(-1))


def test__attention__in_an_encoder_layer_of_torch__is_called_in_evaluation_too():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(E, H, dim_feedforward=16, batch_first=True, dropout=0.0)
    encoder.self_attn = SparseAttention(E, H, 2, batch_first=True)  # pyright: ignore[reportAttributeAccessIssue]
    x = torch.randn(2, 10, E)
    encoder.eval()
    with torch.no_grad():
        encoder(x)
    assert encoder.self_attn.n_active is not None
    assert encoder.self_attn.n_active.shape == (2, H, 10)
    encoder.train()
    encoder(x).sum().backward()
    assert encoder.self_attn.in_proj_weight.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test__attention__other_precision__stays_in_it(dtype):
    torch.manual_seed(0)
    layer = SparseAttention(E, H, 3, batch_first=True, dtype=dtype)
    q, k, v = (x.to(dtype) for x in tensors(batch_first=True))
    output, weights = layer(q, k, v)
    assert output.dtype == dtype
    assert weights is not None
    assert weights.dtype == dtype
    output.float().square().sum().backward()
    assert layer.in_proj_weight is not None
    assert layer.in_proj_weight.grad is not None
    assert torch.isfinite(layer.in_proj_weight.grad).all()


def test__attention__copies_and_state__answer_alike():
    layer = SparseAttention(E, H, 3, batch_first=True, learn_prior=True)
    q, k, v = tensors(batch_first=True)
    layer(q, k, v)[0].sum().backward()
    copied, loaded = copy.deepcopy(layer), SparseAttention(E, H, 3, batch_first=True, learn_prior=True)
    loaded.load_state_dict(layer.state_dict())
    expected = layer.eval()(q, k, v)[0]
    for other in (copied, loaded):
        torch.testing.assert_close(other.eval()(q, k, v)[0], expected)


def test__attention__dropout__drops_weights_in_training_only():
    torch.manual_seed(0)
    layer = SparseAttention(E, H, S, dropout=0.5, batch_first=True)
    nn.init.constant_(layer.gate_bias, 100.0)
    q, k, v = tensors(batch_first=True)
    training, evaluation = (layer.train(mode)(q, k, v, average_attn_weights=False)[1] for mode in (True, False))
    assert (training == 0).float().mean() == pytest.approx(0.5, abs=0.1)
    assert (evaluation > 0).all()


def test__attention__evaluation__computes_no_divergence_unless_told():
    q, k, v = tensors(batch_first=True)
    layer = SparseAttention(E, H, 3, batch_first=True).eval()
    layer(q, k, v)
    assert layer.kl is None
    layer = SparseAttention(E, H, 3, batch_first=True, eval_kl=True).eval()
    layer(q, k, v)
    assert layer.kl is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"embed_dim": 10, "num_heads": 3}, "multiple"),
        ({"embed_dim": 12, "num_heads": 3, "max_active": 0}, "max_active"),
        ({"embed_dim": 12, "num_heads": 3, "prior_active": 9.0}, "prior_active"),
    ],
)
def test__attention__bad_arguments__are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SparseAttention(**arguments)


def test__attention__causal_without_its_mask__is_an_error():
    with pytest.raises(ValueError, match="attn_mask"):
        SparseAttention(E, H)(*tensors(batch_first=False), is_causal=True)


COMPILED = """
import sys
import torch
from sdlgm.nn import SparseAttention
torch.manual_seed(0)
layer, x = SparseAttention(12, 3, 4, batch_first=True), torch.randn(2, 9, 12)
compiled = torch.compile(layer, backend=sys.argv[1], fullgraph=True)

def results(call, training):
    layer.train(training)
    layer.zero_grad()
    output, _ = call(x, x, x)
    (output.square().sum() + (layer.kl.sum() if training else 0)).backward()
    return output.detach(), layer.in_proj_weight.grad.clone(), layer.n_active

for training in (True, False):
    torch.manual_seed(1)
    found = results(compiled, training)
    torch.manual_seed(1)
    expected = results(layer, training)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)
print("equal")
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test__attention__compiled__answers_alike_in_one_graph(backend):
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler")
    # In a process of its own, since the compiler does not take the checks of shapes that tests install.
    result = subprocess.run([sys.executable, "-c", COMPILED, backend], capture_output=True, text=True)
    assert result.stdout.strip() == "equal", result.stderr[-3000:]


def test__training__marked_tokens__finds_them_and_no_others():
    torch.manual_seed(0)
    attention = SparseAttention(16, num_heads=1, max_active=4, batch_first=True)
    query, read = torch.nn.Parameter(torch.randn(1, 1, 16)), torch.nn.Linear(16, 4)
    optimiser = torch.optim.Adam([*attention.parameters(), query, *read.parameters()], 0.01)

    def batch(n_rows: int):
        """Return tokens, which two of each row are marked, and the mean of what the marked ones say."""
        x = torch.randn(n_rows, 12, 16)
        marked = torch.zeros(n_rows, 12).scatter(1, torch.rand(n_rows, 12).argsort(1)[:, :2], 1.0)
        x[:, :, 0] = 3 * marked
        return x, marked > 0, (x[:, :, 1:5] * marked[..., None]).sum(dim=1) / 2

    for _ in range(200):
        x, _, target = batch(64)
        output, _ = attention(query.expand(len(x), 1, 16), x, x)
        loss = (read(output[:, 0]) - target).square().mean() + 0.003 * attention.kl.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    attention.eval()
    with torch.no_grad():
        x, marked, target = batch(200)
        output, weights = attention(query.expand(len(x), 1, 16), x, x)
        error = (read(output[:, 0]) - target).square().mean()
    assert ((weights[:, 0] > 0) == marked).float().mean() > 0.99
    assert error < 0.05 * target.var()
