"""The header of model files, as commands read it before they import torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sdlgm import _tensorfile
from sdlgm._fileheader import MODEL, peek
from sdlgm.errors import ModelFileError

GOLDEN = sorted((Path(__file__).parent / "golden").rglob("*.sdlgm"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test__peek__golden_file__is_the_document_of_the_reader(path):
    assert peek(path, MODEL) == _tensorfile.read(path, MODEL).document


def test__peek__changed_bytes__are_a_document_or_an_error(tmp_path):
    content, path = GOLDEN[0].read_bytes(), tmp_path / "changed.sdlgm"
    rng, n_refused = np.random.default_rng(0), 0
    for _ in range(300):
        changed = bytearray(content[: rng.integers(0, len(content))] if rng.random() < 0.3 else content)
        for place in rng.integers(0, max(1, min(len(changed), 2000)), 3):
            changed[place : place + 1] = bytes([rng.integers(256)])
        path.write_bytes(changed)
        try:
            assert isinstance(peek(path, MODEL), dict)
        except ModelFileError:
            n_refused += 1
    assert n_refused > 100


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([], "damaged"),
        ({"__metadata__": []}, "damaged"),
        ({}, "another program"),
        ({"__metadata__": {"sdlgm": "{"}}, "settings cannot be read"),
        ({"__metadata__": {"sdlgm": json.dumps({"format": "x", "version": 1, "document": {}})}}, "found a x file"),
        ({"__metadata__": {"sdlgm": json.dumps({"format": MODEL, "version": 9, "document": {}})}}, "version 9 is not"),
    ],
)
def test__peek__other_headers__are_refused(tmp_path, header, message):
    text = json.dumps(header).encode()
    (tmp_path / "model").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(ModelFileError, match=message):
        peek(tmp_path / "model", MODEL)


def test__peek__folder_missing_file_and_short_file__are_refused(tmp_path):
    for path, message in ((tmp_path, "is a folder"), (tmp_path / "no", "no such file")):
        with pytest.raises(ModelFileError, match=message):
            peek(path, MODEL)
    (tmp_path / "short").write_bytes(b"1234")
    with pytest.raises(ModelFileError, match="damaged"):
        peek(tmp_path / "short", MODEL)


def test__import__fileheader__leaves_torch_alone():
    code = "import sys, sdlgm._fileheader, sdlgm._progress; print({'torch', 'numpy', 'rich'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
