import sys

import numpy as np
import pytest

from commands import run, text
from sdlgm import SDLGM


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


def test__encode__ray_where_it_cannot_be__is_refused(files, monkeypatch):
    common = ["encode", files / "model.sdlgm", files / "rows", "--engine"]
    assert "folder" in run(*common, "ray", "--out", files / "codes.npz", code=2).stderr
    assert "'local', 'ray'" in text(run(*common, "spark", "--out", files / "codes", code=2).stderr)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "sdlgm[ray]" in run(*common, "ray", "--out", files / "codes", code=2).stderr
