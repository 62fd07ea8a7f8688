"""Bytes of earlier releases are read as the codes that they were made of, and are made again."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import sdlgm

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(GOLDEN.glob("*.*.*/*.wire"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test__golden__bytes_of_a_release__are_the_same_codes(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    coder = sdlgm.load(GOLDEN / stored["model"]).codec_
    codes = sp.csr_matrix([np.bincount(features, minlength=coder.n_features) for features in stored["features"]])
    messages, checked = ([bytes.fromhex(text) for text in stored[name]] for name in ("messages", "with_checksum"))
    content = bytes.fromhex(stored["file"])
    for found in (
        coder.from_messages(messages),
        coder.from_messages(checked, checksum=True),
        coder.from_bytes(content),
    ):
        assert (found != codes).nnz == 0
    assert coder.to_messages(codes) == messages
    assert coder.to_messages(codes, checksum=True) == checked
    assert coder.to_bytes(codes) == content


def test__golden__this_version__has_every_kind_of_prior():
    assert len([path for path in FILES if path.parent.name == sdlgm.__version__]) >= 7
