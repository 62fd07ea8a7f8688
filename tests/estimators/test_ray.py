import pickle
import sys

import numpy as np
import pytest

from commands import run, text
from sdlgm import SDLGM
from sdlgm.cli.compress import PartWriting, Writing
from sdlgm.data import CompressedParts, open_rows
from sdlgm.estimators._ray import PartEncoder


@pytest.fixture
def files(tmp_path, digits, small):
    """A model, and rows in several files."""
    SDLGM(**small, random_state=0).fit(digits).save(tmp_path / "model.sdlgm")
    (tmp_path / "rows").mkdir()
    for number, part in enumerate(np.array_split(digits, 5)):
        np.save(tmp_path / "rows" / f"{number}.npy", part)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test__encode__two_workers_of_ray__write_what_one_process_does(files, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(files)
    run("encode", "model.sdlgm", "rows", "--out", "local")
    run("encode", "model.sdlgm", "rows", "--out", "cluster", "--engine", "ray", "--workers", 2)
    local, cluster = (
        {path.name: path.read_bytes() for path in (files / name).iterdir()} for name in ("local", "cluster")
    )
    assert local == cluster
    assert len(local) == 6
    (files / "cluster" / "part-000002.parquet").unlink()
    run("encode", "model.sdlgm", "rows", "--out", "cluster", "--engine", "ray", "--workers", 2)
    assert {path.name: path.read_bytes() for path in (files / "cluster").iterdir()} == local


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test__compress__two_workers_of_ray__write_what_one_process_does(files, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(files)
    run("compress", "rows", "--model", "model.sdlgm", "--out", "local")
    run("compress", "rows", "--model", "model.sdlgm", "--out", "cluster", "--engine", "ray", "--workers", 2)
    local, cluster = (
        {path.name: path.read_bytes() for path in (files / name).iterdir()} for name in ("local", "cluster")
    )
    assert local == cluster
    assert len(local) == 6


def test__part_encoder__work_that_was_sent__makes_what_one_process_does(files):
    rows = open_rows(str(files / "rows"))
    assert rows is not None
    parts = CompressedParts(files / "here", rows, 32, {})
    assert parts.prepare() == [0, 1, 2, 3, 4]
    encoder = PartEncoder(
        str(files / "model.sdlgm"), parts, pickle.loads(pickle.dumps(PartWriting(Writing(False, None))))
    )
    assert encoder({"part": 3}) == {"part": 3, "rows": rows.parts[3].n_rows}
    run("compress", files / "rows", "--model", files / "model.sdlgm", "--out", files / "local")
    name = "part-000003.sdl"
    assert (files / "here" / name).read_bytes() == (files / "local" / name).read_bytes()


def test__encode__ray_where_it_cannot_be__is_refused(files, monkeypatch):
    common = ["encode", files / "model.sdlgm", files / "rows", "--engine"]
    assert "folder" in run(*common, "ray", "--out", files / "codes.npz", code=2).stderr
    assert "'local', 'ray'" in text(run(*common, "spark", "--out", files / "codes", code=2).stderr)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "sdlgm[ray]" in run(*common, "ray", "--out", files / "codes", code=2).stderr
