"""The commands of ``python -m reproduction``."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduction import features, imputation, long, priors
from reproduction.__main__ import app
from reproduction.pages.features import page as features_page
from reproduction.pages.imputation import page as imputation_page
from reproduction.pages.priors import page

ROOT = Path(__file__).parents[2]


def run(*arguments: object, code: int = 0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test__table1__small_run__can_be_continued(tmp_path):
    arguments = ["table1", "--data", "digits", "--rows", "disarm-bernoulli", "--seeds", 1]
    arguments += ["--iterations", 4, "--work", tmp_path / "runs", "--out", tmp_path / "result.json", "--jobs", 1]
    run(*arguments)
    first = json.loads((tmp_path / "result.json").read_text())
    (row,) = first["rows"]
    assert (row["system"], row["latent"], row["seeds"], row["iterations"]) == ("disarm", "bernoulli", [0], 4)
    assert {len(row[key][part]) for key in ("relaxed", "discrete") for part in ("test", "train")} == {1}
    assert {"paper", "kl", "mean_active", "seconds_per_iteration"} <= set(row)
    assert {"command", "versions", "cores", "protocol"} <= set(first)
    run(*arguments)
    assert json.loads((tmp_path / "result.json").read_text())["rows"] == first["rows"]
    assert "no such row" in run(*arguments, "--rows", "nonsense", code=2).stderr


@pytest.mark.slow
def test__figures__small_run__writes_page_and_pictures(tmp_path):
    options = ["--data", "digits", "--iterations", 300, "--work", tmp_path / "runs"]
    run("figures", "--out", tmp_path / "figures", *options)
    page = (tmp_path / "figures" / "figures.md").read_text(encoding="utf-8")
    assert page.count(".png") == len(list((tmp_path / "figures").glob("*.png"))) > 5


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("SDLGM_DATA"), reason="needs the Mulan files; set SDLGM_DATA to their folder")
def test__table2__quick_run__has_a_row_of_each_system(tmp_path):
    arguments = ["table2", "--quick", "--data", "emotions", "--systems", "logistic,sdlgm_dis_subset"]
    arguments += ["--work", tmp_path / "runs", "--out", tmp_path / "result.json"]
    run(*arguments)
    first = json.loads((tmp_path / "result.json").read_text())
    assert [(row["system"], row["data"]) for row in first["rows"]] == [
        ("logistic", "emotions"),
        ("sdlgm_dis_subset", "emotions"),
    ]
    assert all(50 < row["micro"][0] < 80 for row in first["rows"])
    assert {"quick", "choice"} <= set(first["protocol"])
    run(*arguments)
    assert json.loads((tmp_path / "result.json").read_text())["rows"] == first["rows"]
    assert "no such system" in run(*arguments, "--systems", "nonsense", code=2).stderr


@pytest.mark.slow
def test__budgets__small_run__keeps_every_budget(tmp_path):
    options = ["--data", "digits", "--iterations", 40, "--seeds", 1, "--work", tmp_path / "runs"]
    run("budgets", *options, "--out", tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text())
    assert [row["max_active"] for row in result["rows"]] == [5, 10, 20, 40, 80]
    for row in result["rows"]:
        assert 0 <= row["n_active_max"][0] <= row["max_active"]
        assert row["mean_active"][0] <= row["max_active"]
        assert row["code_bits"][0] > 0


def test__priors__small_run__has_a_row_of_each_prior_and_a_page(tmp_path):
    arguments = ["priors", "--data", "wine", "--iterations", 10, "--seeds", 1, "--jobs", 1]
    arguments += ["--work", tmp_path / "runs", "--out", tmp_path / "result.json"]
    run(*arguments)
    first = json.loads((tmp_path / "result.json").read_text())
    assert [(row["system"], row["early_stopping"]) for row in first["rows"]] == [
        (system, early_stopping) for early_stopping in (False, True) for system in priors.SYSTEMS
    ]
    for row in first["rows"]:
        assert row["shape"] == [178, 13]
        assert row["n_iter"][0] <= 10
        assert row["code_bits"][0] > 0
    run(*arguments)
    assert json.loads((tmp_path / "result.json").read_text())["rows"] == first["rows"]
    text = page(first)
    assert text.count("| wine |") == 2 + len(first["rows"])
    assert "no such data set" in run(*arguments, "--data", "nonsense", code=2).stderr


def test__features__small_run__has_a_row_of_each_number_and_a_page(tmp_path):
    X = np.random.default_rng(0).normal(size=(1_100, 6))
    np.save(tmp_path / "noise.npy", X)
    arguments = ["features", "--data", tmp_path / "noise.npy", "--iterations", 10, "--jobs", 1]
    run(*arguments, "--work", tmp_path / "runs", "--out", tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text())
    assert [(row["data"], row["n_components"]) for row in result["rows"]] == [("noise", 256), ("noise", 4096)]
    for row in result["rows"]:
        assert row["shape"] == [100, 6]
        assert 0 <= row["alive"][0] <= row["drawn"][0] <= 1
        assert row["n_active_mean"][0] <= features.SETTINGS["max_active"]
    assert features_page(result).count("| noise |") == 2


def test__imputation__small_run__has_a_row_of_each_system_and_a_page(tmp_path):
    arguments = ["imputation", "--data", "diabetes", "--iterations", 5, "--seeds", 1, "--jobs", 1]
    run(*arguments, "--work", tmp_path / "runs", "--out", tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text())
    assert [row["system"] for row in result["rows"]] == [*imputation.SYSTEMS] * len(imputation.MISSING)
    errors = {row["system"]: row["errors"][0] for row in result["rows"]}
    assert errors["mean"] == pytest.approx(1.0, abs=0.1)
    assert errors["iterative"] < errors["mean"]
    assert imputation_page(result).count("| diabetes |") == 2 * len(imputation.MISSING)


@pytest.mark.slow
def test__gradients__all_estimators__are_as_published(tmp_path):
    run("gradients", "--work", tmp_path / "runs", "--out", tmp_path / "result.json")
    measured = json.loads((tmp_path / "result.json").read_text())
    published = json.loads((ROOT / "docs" / "results" / "gradients.json").read_text())
    assert measured["protocol"] == published["protocol"]
    for row, expected in zip(measured["rows"], published["rows"], strict=True):
        assert (row["family"], row["gradient"]) == (expected["family"], expected["gradient"])
        error = 4 * max(row["bias_error"], expected["bias_error"])
        assert row["bias"] == pytest.approx(expected["bias"], abs=error), row
        assert row["deviation"] == pytest.approx(expected["deviation"], rel=0.05), row


def test__help__every_command__is_there():
    commands = (
        "table1",
        "table2",
        "counts",
        "gradients",
        "figures",
        "budgets",
        "priors",
        "features",
        "imputation",
        "codec",
        "lossless",
        "quality",
        "long",
        "pages",
    )
    for command in commands:
        assert command in run("--help").output
        assert "Usage" in run(command, "--help").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table1", "--data", "birds", "--out", "OUT"], "mnist and digits"),
        (["table1", "--rows", "nonsense", "--out", "OUT"], "no such row"),
        (["table2", "--systems", "nonsense", "--out", "OUT"], "no such system"),
        (["counts", "--data", "nonsense", "--out", "OUT"], "no such data set"),
        (["quality", "--data", "nonsense", "--out", "OUT"], "no such data set"),
        (["quality", "--systems", "nonsense", "--out", "OUT"], "no such system"),
        (["quality", "--seconds", "30,-1", "--out", "OUT"], "not positive numbers"),
        (["long", "--out", "no/such/folder/long.json"], "make it first"),
        (["pages", "--model", "OUT"], "no such file"),
    ],
)
def test__errors__of_the_user__are_one_line_with_code_two(tmp_path, arguments, message):
    result = run(*(tmp_path / "out" if argument == "OUT" else argument for argument in arguments), code=2)
    assert message in result.stderr
    assert result.stderr.startswith("error:")
    assert len(result.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test__interrupt__any_command__says_how_to_resume(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(long, "long_run", interrupt)
    result = run("long", "--out", tmp_path / "long.json", code=130)
    assert "same command again" in result.stderr
