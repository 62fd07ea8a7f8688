"""Files of codes: read back whole or in part, and no damage is read as codes."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

from codec.priors import KINDS, codec, codec_of_prior, drawn, prior_of, random_codes
from sdlgm import DataError
from sdlgm.codec import Codec, describe

K, L0 = 200, 40


def same(left: sp.csr_matrix, right: sp.csr_matrix) -> bool:
    return left.shape == right.shape and (left != right).nnz == 0


@pytest.mark.parametrize("kind", KINDS)
def test__file__of_a_thousand_rows__is_within_one_percent_of_the_ideal(kind):
    prior = prior_of(kind, K, L0, spread=0.3)
    coder, (codes, bits) = codec_of_prior(prior, kind, K, L0), drawn(prior, kind, 1000)
    content = coder.to_bytes(codes)
    assert same(coder.from_bytes(content), codes)
    assert 8 * len(content) < 1.01 * bits.sum()


def test__file__written_in_parts__is_the_same(tmp_path):
    coder, codes = codec("linear", 30, 6), random_codes(2500, 30, 6, sets=True)
    path = tmp_path / "x.sdl"
    with path.open("wb") as file:
        assert coder.write(file, (codes[i : i + 700] for i in range(0, 2500, 700))) == 2500
    assert path.read_bytes() == coder.to_bytes(codes)
    assert [part.shape[0] for part in coder.read(path)] == [1024, 1024, 452]
    numbers = describe(path)
    assert (numbers["rows"], numbers["blocks"], numbers["content"]) == (2500, 3, "codes")


@pytest.mark.parametrize(("first", "last"), [(0, 1), (1000, 1100), (1024, 2048), (2400, 2500), (5, 5), (2499, 9999)])
def test__rows__any_part__are_read_alone(first, last, tmp_path):
    coder, codes = codec("linear", 30, 6), random_codes(2500, 30, 6, sets=True)
    content = bytearray(coder.to_bytes(codes))
    if first >= 1024:
        content[30] ^= 1  # the first block is not read
    assert same(coder.rows(bytes(content), first, last), codes[first:last])


def test__file__without_rows__is_read():
    coder = codec("linear", 30, 6)
    assert coder.from_bytes(coder.to_bytes(coder.no_codes)).shape == (0, 30)


def test__file__every_flipped_bit__is_found():
    coder, codes = codec("slot sets", 30, 6), random_codes(1100, 30, 6, sets=True)[1000:]
    content = coder.to_bytes(codes)
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        with pytest.raises(DataError):
            coder.from_bytes(bytes(flipped))


def test__file__cut_anywhere__yields_its_whole_blocks_and_raises():
    coder, codes = codec("linear", 30, 6), random_codes(2100, 30, 6, sets=True)
    content = coder.to_bytes(codes)
    for length in [0, 3, 13, 14, 15, 500, len(content) // 2, *range(len(content) - 60, len(content))]:
        parts = [coder.no_codes]
        with pytest.raises(DataError, match=r"copy it again|is not a file"):
            parts.extend(coder.read(content[:length]))
        whole = sp.vstack(parts, format="csr")
        assert whole.shape[0] in (0, 1024, 2048, 2100)
        assert same(whole, codes[: whole.shape[0]])
    assert whole.shape[0] == 2100


def test__file__of_another_model__is_refused():
    coder = codec("linear", 30, 6)
    content = coder.to_bytes(random_codes(5, 30, 6, sets=True))
    other = Codec(coder.prior, 30, 6, True, b"another.")
    with pytest.raises(DataError, match="was made by the model 3132333435363738, and this is the model 616e6f74"):
        other.from_bytes(content)


def test__file__with_lying_sizes__is_refused_before_memory_is_taken():
    from sdlgm.codec import _files

    coder = codec("linear", 30, 6)
    for n_rows in (1025, 2**40):
        file = io.BytesIO()
        writer = _files.Writer(file, _files.CODES, coder.fingerprint)
        writer.append(n_rows, b"12345")
        writer.close()
        with pytest.raises(DataError, match="damaged after 0 rows"):
            coder.from_bytes(file.getvalue())
    content = bytearray(coder.to_bytes(random_codes(5, 30, 6, sets=True)))
    content[15:16] = b"\xff\xff\xff\xff\x7f"  # bytes of the first block
    with pytest.raises(DataError, match="cut short after 0 rows"):
        coder.from_bytes(bytes(content))
    wide = codec("linear", 3000, 6)
    file = io.BytesIO()
    writer = _files.Writer(file, _files.CODES, wide.fingerprint)
    writer.append(1024, b"12345")
    writer.close()
    with pytest.raises(DataError, match="at most 87 rows"):
        wide.from_bytes(file.getvalue())


def test__model__compress__is_its_codes_and_no_more(fitted, digits, tmp_path):
    content = fitted.compress(digits)
    expected = fitted.inverse_transform(fitted.transform(digits))
    np.testing.assert_array_equal(fitted.decompress(content), expected)
    np.testing.assert_array_equal(np.concatenate(list(fitted.decompress_batches(content))), expected)
    path = tmp_path / "x.sdl"
    path.write_bytes(content)
    np.testing.assert_array_equal(fitted.decompress(path), expected)
    bits = fitted.evaluate(digits).code_bits * len(digits)
    assert 8 * len(content) < 1.01 * bits + 8 * 40
    messages = fitted.to_messages(digits, checksum=True)
    np.testing.assert_array_equal(fitted.from_messages(messages, checksum=True), expected)


def test__model__saved_and_loaded__has_the_same_fingerprint(fitted, fitted_gaussian, tmp_path):
    from sdlgm import load

    fitted.save(tmp_path / "model.sdlgm")
    assert load(tmp_path / "model.sdlgm").codec_.fingerprint == fitted.codec_.fingerprint
    assert fitted_gaussian.codec_.fingerprint != fitted.codec_.fingerprint


def test__model__few_bytes_for_many_rows__are_refused(fitted, monkeypatch):
    content = fitted.compress(np.zeros((2000, 64), np.float32))
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "600K")
    with pytest.raises(DataError, match="use decompress_batches"):
        fitted.decompress(content)
