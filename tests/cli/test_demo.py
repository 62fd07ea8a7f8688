import sys

from commands import run


def test__demo__few_iterations__does_the_whole_job(tmp_path):
    result = run("demo", "--out", tmp_path / "demo", "--max-iter", 20)
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "report.html",
        "model.sdlgm",
        "codes.npz",
        "decoded.npy",
    }
    for words in ("nats", "bits", "active slots, mean", "active slots, largest", "features used", "report.html"):
        assert words in result.output


def test__demo__without_matplotlib__names_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'sdlgm[report]'" in run("demo", "--out", tmp_path / "demo", code=2).stderr
    assert not (tmp_path / "demo").exists()
