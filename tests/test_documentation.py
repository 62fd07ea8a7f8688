"""The code blocks and commands of README, guide and examples run, and the pages are up to date."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sdlgm
from sdlgm.cli import app

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("page", ["README.md", pytest.param("docs/guide.md", marks=pytest.mark.slow)])
def test__commands__on_a_page__run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line) for block in blocks(page, "bash") for line in block.strip().splitlines()]
    commands = [command for command in commands if command[0] == "sdlgm"]
    assert commands
    for command in commands:
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, f"{command}: {result.output}"


def test__python__in_the_readme__runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for code in blocks("README.md", "python"):
        exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model.sdlgm").exists()
    printed = capsys.readouterr().out
    assert re.search(r"\bEvaluation\(", printed)
    assert "LabelEvaluation(" in printed


@pytest.mark.parametrize("page", ["docs/likelihoods.md", "docs/missing.md"])
def test__python__on_a_page__runs_from_top_to_bottom(page, capsys):
    names: dict[str, object] = {}
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec"), names)
    assert capsys.readouterr().out
    assert "filled" in names or "student_t" in names["model"].likelihoods_  # pyright: ignore


@pytest.mark.filterwarnings("default")  # the commands show them
@pytest.mark.parametrize(
    "page", ["docs/series.md", "docs/tables.md", pytest.param("docs/wire.md", marks=pytest.mark.slow)]
)
def test__python_and_commands__on_a_page__run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec"), names)
    for line in "".join(blocks(page, "bash")).strip().splitlines():
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}: {result.output}"
    assert (tmp_path / "decoded.csv").exists()


def test__python__in_the_page_of_times__runs(capsys):
    for code in blocks("docs/time.md", "python"):
        exec(compile(code, "docs/time.md", "exec"), {})
    assert re.search(r"ms an iteration, \d+\.\d minutes for 10,000 iterations", capsys.readouterr().out)


@pytest.mark.parametrize("page", ["docs/anomalies.md", "docs/empty_codes.md"])
def test__python__on_a_page__runs_and_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec"), {})
    printed = capsys.readouterr().out
    expected = {"docs/anomalies.md": r"\[-1  1  1\]", "docs/empty_codes.md": r"next to nothing.*gaussian[\s\S]*None"}
    assert re.search(expected[page], printed), printed


def test__python__on_the_page_of_attention__runs(capsys):
    names: dict[str, object] = {}
    for code in blocks("docs/attention.md", "python"):
        exec(compile(code, "docs/attention.md", "exec"), names)
    assert re.search(r"torch.Size\(\[8, 100, 64\]\) [0-6]\n", capsys.readouterr().out)


def test__make_targets__in_the_readme__exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M)


def test__docstring_examples__of_estimators_and_layers__are_true():
    from sdlgm.estimators import _classifier, _counter, _detector, _sdlgm
    from sdlgm.nn import attention, gate

    for module in (_sdlgm, _detector, _classifier, _counter, attention, gate):
        result = doctest.testmod(module)
        assert result.failed == 0
        assert result.attempted > 3


def test__generated_pages__are_made_from_the_results_and_links_lead_somewhere():
    command = [sys.executable, "-m", "reproduction", "pages", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("estimator", ["SDLGM", "SDLGMDetector", "SDLGMClassifier", "SDLGMCounter"])
def test__parameters__of_the_estimators__are_all_documented(estimator):
    kind = getattr(sdlgm, estimator)
    documentation = kind.__doc__ or ""
    for name in kind._get_param_names():
        assert re.search(rf"^    (\w+, )*{name}(, \w+)* : ", documentation, re.M), name
