"""The commands of codes on the wire, on digits."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduction.__main__ import app
from reproduction.lossless import other_sizes
from reproduction.pages.codec import lossless_page, page


def result_of(*arguments: object) -> dict:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return json.loads(arguments[-1].read_text())  # pyright: ignore


@pytest.mark.slow
def test__codec__small_run__has_sizes_and_a_page(tmp_path):
    options = ("--data", "digits", "--iterations", 30, "--tried", 200, "--work", tmp_path)
    result = result_of("codec", *options, "--out", tmp_path / "codec.json")
    assert [row["system"] for row in result["rows"]] == ["file", "messages", "messages with checksum"]
    assert result["ceiling"]["longest"] <= result["ceiling"]["max_bytes"] == 18
    text = page(result)
    assert "| messages |" in text
    assert "18 bytes" in text


@pytest.mark.slow
def test__lossless__small_run__has_all_systems_and_a_page(tmp_path):
    pytest.importorskip("constriction")
    options = ("--data", "digits", "--iterations", 30, "--long-iterations", 60, "--work", tmp_path)
    result = result_of("lossless", *options, "--out", tmp_path / "lossless.json")
    rows = {row["system"]: row for row in result["rows"]}
    assert {"SDLGM", "SDLGM, long run", "gzip -9", "xz -9"} <= set(rows)
    for system, iterations in {"SDLGM": 30, "SDLGM, long run": 60}.items():
        row = rows[system]
        assert row["bits_per_pixel"] < 1.1 * row["bound_bits_per_pixel"]
        assert row["iterations"] == iterations
        assert row["model_bytes"] > 10_000
    assert "| SDLGM, long run |" in lossless_page(result)


def test__other_sizes__empty_pictures__are_small():
    sizes = other_sizes(np.zeros((100, 64), np.uint8))
    assert sizes["gzip -9"] < 50
