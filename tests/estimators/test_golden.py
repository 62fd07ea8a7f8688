"""Files of earlier releases load and answer as they did when they were written.

Golden files are never rewritten; tests/golden/README.md says how a release adds its own.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import sdlgm
from golden.make import answers
from sdlgm import _tensorfile
from sdlgm._fileheader import MODEL
from sdlgm.estimators._modelfile import LOADABLE
from sdlgm.model.networks.posteriors import POSTERIORS

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(folder.name for folder in GOLDEN.glob("*.*.*") if folder.is_dir())
MODELS = [path.relative_to(GOLDEN) for version in VERSIONS for path in sorted((GOLDEN / version).glob("*.sdlgm"))]
# Answers that have to be equal; the others may differ by rounding from machine to machine.
EXACT = {"codes", "labels", "counts", "classes", "max_active", "n_iter"}


@pytest.mark.parametrize("model", MODELS, ids=str)
def test__golden__model_of_a_release__answers_as_then(model):
    stored = json.loads((GOLDEN / model.with_suffix(".json")).read_text(encoding="utf-8"))
    found = answers(sdlgm.load(GOLDEN / model), stored["rows"])
    assert set(found) == set(stored["answers"])
    for name, expected in stored["answers"].items():
        if name in EXACT:
            assert found[name] == expected, name
        else:
            np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-7, err_msg=name)


def test__golden__files__have_the_checksums_that_were_committed():
    lines = (GOLDEN / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = dict(reversed(line.split("  ", 1)) for line in lines)
    assert len(listed) == len(lines), "a file is listed twice"
    files = {
        path.relative_to(GOLDEN).as_posix(): path
        for pattern in ("*.sdlgm", "*.*.*/*")
        for path in GOLDEN.glob(pattern)
        if path.is_file()
    }
    assert set(listed) == set(files), "SHA256SUMS and the folder do not list the same files; see README.md"
    for name, path in files.items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert digest == listed[name], f"{name} has changed; golden files are never rewritten"


def test__golden__every_release__has_an_answer_for_each_model():
    assert "0.1.0" in VERSIONS
    for version in VERSIONS:
        names = {path.stem for path in (GOLDEN / version).glob("*.sdlgm")}
        assert names
        assert names == {path.stem for path in (GOLDEN / version).glob("*.json")}


def test__golden__this_version__has_every_estimator_and_posterior():
    folder = GOLDEN / sdlgm.__version__
    assert folder.is_dir(), f"there are no golden files of version {sdlgm.__version__}; see tests/golden/README.md"
    contents = [_tensorfile.read(path, MODEL) for path in folder.glob("*.sdlgm")]
    assert {content.written_by for content in contents} == {sdlgm.__version__}
    documents = [content.document for content in contents]
    assert {document["estimator"] for document in documents} == set(LOADABLE)
    assert {document["params"].get("posterior") for document in documents} - {None} == set(POSTERIORS)


def test__golden__bernoulli_model_of_version_1__encodes_and_decodes_as_then():
    model = sdlgm.load(GOLDEN / "bernoulli-1.sdlgm")
    rows = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert model.transform(rows).toarray().tolist() == [[0, 0, 2, 0], [0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 2]]
    expected = [0.994894, 0.994523, 0.994426, 0.99672, 0.996896, 0.996472]
    np.testing.assert_allclose(model.inverse_transform(np.eye(4)[:1]), [expected], rtol=1e-4)
    assert model.max_active == 3
    assert model.likelihood_ == "bernoulli"


def test__golden__gaussian_model_of_version_1__decodes_in_the_units_of_the_data():
    model = sdlgm.load(GOLDEN / "gaussian-1.sdlgm")
    expected = [5.52512, 7.0, 1.7675]
    np.testing.assert_allclose(model.inverse_transform(np.eye(4)[:1]), [expected], rtol=1e-4)
    assert model.gate_prior_ == pytest.approx(0.391861, rel=1e-5)
    assert len(model.history_) == 30
