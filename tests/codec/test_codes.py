"""Codes as messages and blocks: read back exactly, as short as the prior says, and never beyond the ceiling."""

import hashlib
import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.priors import KINDS, codec, codec_of_prior, drawn, prior_of, random_codes
from sdlgm import BudgetError, DataError
from sdlgm.codec import _tables
from sdlgm.codec._codes import Codec
from sdlgm.codec._ranks import CodeNumbers

K, L0 = 200, 40
every_kind = pytest.mark.parametrize("kind", KINDS)


def same(left: sp.csr_matrix, right: sp.csr_matrix) -> bool:
    return left.shape == right.shape and (left != right).nnz == 0


def read_blocks(coder: Codec, codes: sp.csr_matrix) -> sp.csr_matrix:
    parts = [coder.from_block(block, n_rows) for n_rows, block in coder.to_blocks(codes)]
    return sp.csr_matrix(sp.vstack(parts, format="csr"))


@every_kind
def test__blocks__of_drawn_codes__are_read_back_and_within_one_percent_of_the_ideal(kind):
    prior = prior_of(kind, K, L0)
    coder, (codes, bits) = codec_of_prior(prior, kind, K, L0), drawn(prior, kind, 1500)
    blocks = list(coder.to_blocks(codes))
    assert [n_rows for n_rows, _ in blocks] == [1024, 476]
    assert same(read_blocks(coder, codes), codes)
    assert 8 * sum(len(block) for _, block in blocks) < 1.01 * bits.sum()


@every_kind
def test__messages__of_drawn_codes__are_read_back_and_a_byte_above_the_ideal(kind):
    prior = prior_of(kind, K, L0)
    coder, (codes, bits) = codec_of_prior(prior, kind, K, L0), drawn(prior, kind, 1100)
    messages = coder.to_messages(codes)
    assert same(coder.from_messages(iter(messages)), codes)
    assert np.mean([len(message) for message in messages]) < bits.mean() / 8 + 1


@every_kind
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test__messages__all_codes_of_a_tiny_model__are_different_and_within_the_ceiling(kind, spread):
    coder = codec(kind, 6, 3, spread=spread)
    most = 1 if coder.sets else 3
    codes = np.array([c for c in itertools.product(range(most + 1), repeat=6) if sum(c) <= 3], np.int32)
    assert len(codes) == coder.numbers.n_codes
    messages = coder.to_messages(sp.csr_matrix(codes))
    assert len(set(messages)) == len(codes)
    assert max(len(message) for message in messages) <= coder.max_bytes == 1
    assert same(coder.from_messages(messages), sp.csr_matrix(codes))
    assert same(read_blocks(coder, sp.csr_matrix(codes)), sp.csr_matrix(codes))


def test__ceiling__of_the_papers_sizes__is_142_bits():
    coder = codec("linear", K, L0)
    n_codes = sum(math.comb(K, n) for n in range(L0 + 1))
    assert 1 + coder.numbers.n_bits == 1 + math.ceil(math.log2(n_codes)) == 142
    assert coder.max_bytes == 18
    assert codec("slot counts", K, L0).numbers.n_codes == math.comb(K + L0, L0)


def adversarial(coder: Codec) -> sp.csr_matrix:
    """Return codes that a prior does not expect: the first, the last and all equal features, full and empty."""
    codes = np.zeros((6, coder.n_features), np.int32)
    codes[1, : coder.budget] = codes[2, -coder.budget :] = 1
    codes[3, :: coder.n_features // coder.budget][: coder.budget] = 1
    codes[4, 0] = codes[5, -1] = 1 if coder.sets else coder.budget
    return sp.csr_matrix(codes)


@every_kind
@pytest.mark.parametrize("spread", [1.0, 10.0])
def test__ceiling__random_and_adversarial_codes__holds(kind, spread):
    coder = codec(kind, K, L0, spread=spread)
    codes = sp.vstack([adversarial(coder), random_codes(2000, K, L0, sets=coder.sets)], format="csr")
    messages = coder.to_messages(codes)
    lengths = [len(message) for message in messages]
    assert max(lengths) <= coder.max_bytes
    assert any(message[0] >= 128 for message in messages), "no code was written as its number"
    assert same(coder.from_messages(messages), codes)
    assert same(read_blocks(coder, codes), codes)
    assert sum(len(block) for _, block in coder.to_blocks(codes)) <= coder.max_bytes * codes.shape[0]


@pytest.mark.slow
@every_kind
def test__ceiling__a_million_codes__holds(kind):
    coder = codec(kind, K, L0, spread=3.0)
    for seed in range(25):
        codes = random_codes(10_000, K, L0, sets=coder.sets, seed=seed)
        messages = coder.to_messages(codes)
        assert max(len(message) for message in messages) <= coder.max_bytes
        assert same(coder.from_messages(messages), codes)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test__messages__of_any_code_of_any_size__are_read_back_within_the_ceiling(data):
    n_features, budget = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 12))
    kind, spread = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from([0.1, 1.0, 100.0]))
    budget = min(budget, n_features) if kind != "slot counts" else budget
    coder = codec(kind, n_features, budget, spread=spread)
    features = data.draw(st.lists(st.integers(0, n_features - 1), max_size=budget, unique=coder.sets))
    codes = sp.csr_matrix(np.bincount(features, minlength=n_features)[None].astype(np.int32))
    (message,) = coder.to_messages(codes)
    assert 1 <= len(message) <= coder.max_bytes
    assert same(coder.from_messages([message]), codes)
    assert same(read_blocks(coder, codes), codes)


@every_kind
@settings(max_examples=150, deadline=None)
@given(message=st.binary(max_size=8))
def test__messages__of_any_bytes__are_refused_or_what_their_code_is_written_as(kind, message):
    coder = codec(kind, 30, 6)
    try:
        codes = coder.from_messages([message])
    except DataError as error:
        assert str(error).startswith("message 0: ")  # noqa: PT017 - most bytes are refused, a few are not
    else:
        assert codes.sum() <= 6
        assert coder.to_messages(codes) == [message]


@every_kind
def test__messages__with_checksum__refuse_every_flipped_bit_and_other_models(kind):
    coder = codec(kind, 30, 6)
    codes = random_codes(8, 30, 6, sets=coder.sets)
    messages = coder.to_messages(codes, checksum=True)
    assert same(coder.from_messages(messages, checksum=True), codes)
    assert max(len(message) for message in messages) <= coder.max_bytes + 2
    for message in messages:
        for place, bit in itertools.product(range(len(message)), range(8)):
            flipped = bytearray(message)
            flipped[place] ^= 1 << bit
            with pytest.raises(DataError, match="message 1: is damaged, or of another model"):
                coder.from_messages([messages[0], bytes(flipped)], checksum=True)
    other = Codec(coder.prior, 30, 6, coder.sets, b"another.")
    with pytest.raises(DataError, match="message 0: is damaged, or of another model"):
        other.from_messages(messages, checksum=True)


@pytest.mark.parametrize(
    ("codes", "kind", "error", "words"),
    [
        ([[1, 1, 1, 1, 0]], "linear", BudgetError, "row 0 has 4 active slots; the budget is 3"),
        ([[2, 0, 0, 0, 0]], "linear", ValueError, "a feature twice"),
        ([[0.5, 0, 0, 0, 0]], "slot counts", ValueError, "not counts"),
        ([[-1, 0, 0, 0, 0]], "slot counts", ValueError, "not counts"),
        ([[1, 0]], "linear", ValueError, "have 2 columns, and those of the model 5"),
    ],
)
def test__codes__that_are_not_of_the_model__are_refused(codes, kind, error, words):
    coder = codec(kind, 5, 3)
    with pytest.raises(error, match=words):
        coder.to_messages(sp.csr_matrix(codes))
    with pytest.raises(error, match=words):
        list(coder.to_blocks(sp.csr_matrix(codes)))


def test__messages__none__are_no_codes():
    assert codec("linear", 5, 3).from_messages([]).shape == (0, 5)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-3, 1e3, 1e30])
@pytest.mark.parametrize("kind", ["hidden", "linear", "slot sets", "slot counts"])
def test__prior__with_weights_of_any_size__codes_within_the_ceiling(kind, size):
    prior = prior_of(kind, 30, 6)
    for parameter in prior.parameters():
        parameter.data.mul_(size)
    coder = codec_of_prior(prior, kind, 30, 6)
    codes = random_codes(200, 30, 6, sets=coder.sets)
    messages = coder.to_messages(codes)
    assert max(len(message) for message in messages) <= coder.max_bytes
    assert same(coder.from_messages(messages), codes)


def test__block__of_a_wrong_number_of_rows__is_refused():
    coder = codec("linear", K, L0, spread=10.0)
    ((n_rows, block),) = coder.to_blocks(random_codes(10, K, L0, sets=True))
    assert block[0] >= 128  # numbers
    with pytest.raises(DataError, match="cannot have 11 rows"):
        coder.from_block(block, n_rows + 1)


@pytest.mark.parametrize("sets", [True, False])
def test__numbers__of_all_codes__are_all_whole_numbers_below_their_number(sets):
    numbers = CodeNumbers(5, 3, sets)
    found = [numbers.features(rank) for rank in range(numbers.n_codes)]
    assert len({tuple(features) for features in found}) == numbers.n_codes
    assert all(len(features) <= 3 for features in found)
    assert [numbers.rank(features) for features in found] == list(range(numbers.n_codes))


def test__tables__any_machine__are_these():
    """The bytes of every code depend on them."""
    x = np.arange(-14 * 256, 14 * 256 + 1) / 256
    sigmoid, absence = _tables.sigmoid(), _tables.absence()
    np.testing.assert_allclose(sigmoid, np.clip(2.0**20 / (1 + np.exp(-x)), 1, 2**20 - 1), atol=0.51)
    np.testing.assert_allclose(absence, -(2.0**30) * np.expm1(-np.arange(16 * 256 + 1) / 256), atol=0.51)
    assert [hashlib.sha256(table.astype("<i8").tobytes()).hexdigest()[:16] for table in (sigmoid, absence)] == [
        "7347a45d38ee3020",
        "2029b1990b5e28e6",
    ]


SCRIPT = """
import numpy as np, sys
from codec.priors import KINDS, codec, random_codes
import torch
torch.set_num_threads(int(sys.argv[1]))
for kind in KINDS:
    coder = codec(kind, 24, 6)
    codes = random_codes(20, 24, 6, sets=coder.sets)
    blocks = b"".join(block for _, block in coder.to_blocks(codes))
    assert (coder.from_block(blocks, 20) != codes).nnz == 0
    print(blocks.hex(), *(message.hex() for message in coder.to_messages(codes)))
"""


def written(n_threads: int, **environment: str) -> str:
    path = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", SCRIPT, str(n_threads)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    return result.stdout


@pytest.mark.slow
def test__bytes__with_two_threads_and_without_compiled_kernels__are_the_same():
    expected = written(1)
    assert len(expected.split()) == 4 * 21
    assert written(2) == expected
    assert written(1, NUMBA_DISABLE_JIT="1") == expected


def test__bytes__without_compiled_kernels__are_the_same(monkeypatch):
    """The functions themselves, as Python runs them."""
    from sdlgm._kernels import entropy

    codes = random_codes(5, 24, 6, sets=True)
    coders = [codec(kind, 24, 6) for kind in ("hidden", "slot sets")]
    expected = [coder.to_messages(codes) for coder in coders]
    for name, function in vars(entropy).copy().items():
        if hasattr(function, "py_func"):
            monkeypatch.setattr(entropy, name, function.py_func)
    assert not hasattr(entropy._write, "py_func")
    with np.errstate(over="raise"):
        assert [coder.to_messages(codes) for coder in coders] == expected
        assert all(same(coder.from_messages(messages), codes) for coder, messages in zip(coders, expected, strict=True))


@every_kind
def test__integer_prior__in_any_precision_of_torch__is_the_same(kind):
    prior = prior_of(kind, 24, 6)
    before = codec_of_prior(prior, kind, 24, 6)
    after = codec_of_prior(prior.to(torch.float64), kind, 24, 6)
    codes = random_codes(50, 24, 6, sets=before.sets)
    assert before.to_messages(codes) == after.to_messages(codes)
