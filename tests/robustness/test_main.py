"""The command that measures robustness, and its page."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from reproduction.pages import robustness as pages
from robustness import __main__ as command
from robustness import bombs
from robustness.memory import Measured


@pytest.fixture
def calls(monkeypatch) -> list[tuple[str, int, int]]:
    """The sections that were measured; they have results at once."""
    found = []
    results = {
        "kills": {"kills": 3, "lost_files": 0, "unequal_resumes": 0, "most_iterations_lost": 4},
        "mutations": [{"target": "npy", "tried": 5, "read": 2, "named_errors": 3, "unnamed": 0}],
        "budgets": {"rows": 1234, "beyond": 0},
    }

    def section(name):
        def measured(n, seed):
            found.append((name, n, seed))
            return results[name]

        return measured

    bomb = bombs.Bomb("load_data", "zip", lambda path: path.write_bytes(b"12345"))
    refused = Measured("DataError", "", 3 * 2**20, 2**20, is_named=True)
    monkeypatch.setattr(bombs, "BOMBS", {"zip": bomb})
    monkeypatch.setattr(bombs, "HONEST", {})
    monkeypatch.setattr(bombs, "measure", lambda _bomb, path: replace(refused, error=f"{path}: too large"))
    monkeypatch.setattr(command, "SECTIONS", {**{name: section(name) for name in results}, "memory": command.memory})
    return found


def run(*arguments: object) -> None:
    result = CliRunner().invoke(command.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


def test__command__all_sections__are_written_with_their_provenance(calls, tmp_path):
    out = tmp_path / "robustness.json"
    run("--out", out, "--kills", 3, "--mutations", 5, "--rows", 1234, "--seed", 7)
    assert calls == [("kills", 3, 7), ("mutations", 5, 7), ("budgets", 1234, 7)]
    result = json.loads(out.read_text())
    assert {"command", "versions", "cores", "protocol"} <= set(result)
    (row,) = result["sections"]["memory"]["result"]
    assert row["error"] == "zip: too large"
    assert row["file_bytes"] == 5
    text = pages.page(result)
    for part in ("| kills | 3 |", "| npy | 5 | 2 | 3 | 0 |", "| all | 5 | 2 | 3 | 0 |", "| 1,234 |", "| 3 MiB |"):
        assert part in text


def test__command__again__repeats_only_what_has_other_settings(calls, tmp_path):
    out = tmp_path / "robustness.json"
    run("--out", out, "--kills", 3)
    calls.clear()
    run("--out", out, "--kills", 3)
    assert not calls
    run("--out", out, "--kills", 4)
    assert [name for name, *_ in calls] == ["kills"]


def test__command__interrupted__keeps_the_sections_that_are_done(calls, tmp_path, monkeypatch):
    def interrupted(_n, _seed):
        raise KeyboardInterrupt

    out = tmp_path / "robustness.json"
    with monkeypatch.context() as patch:
        patch.setitem(command.SECTIONS, "budgets", interrupted)
        assert CliRunner().invoke(command.app, ["--out", str(out)]).exit_code == 130
    assert set(json.loads(out.read_text())["sections"]) == {"kills", "mutations"}
    calls.clear()
    run("--out", out)
    assert [name for name, *_ in calls] == ["budgets"]


@pytest.mark.parametrize("name", ["mutations", "budgets"])
def test__sections__small_sizes__are_measured(name):
    json.dumps(command.SECTIONS[name](1, 0), allow_nan=False)
