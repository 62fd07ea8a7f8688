"""The builder of the generated pages."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from reproduction import pages
from reproduction.pages import readme
from reproduction.pages.markdown import command_text, fill, heading, mean_and_deviation
from reproduction.provenance import running_command

ROOT = Path(__file__).parents[2]
PAGE = "before\n<!-- numbers: made by 'make docs' -->\nold\n<!-- end of numbers -->\nafter\n"


def test__fill__block__is_replaced_and_nothing_else():
    filled = fill(PAGE, {"numbers": ["one \\1", "two"], "others": []})
    assert filled == PAGE.replace("old", "\none \\1\ntwo\n")
    assert fill(filled, {"numbers": ["one \\1", "two"]}) == filled


@pytest.mark.parametrize(
    ("page", "message"),
    [(PAGE.replace("numbers", "nonsense"), "unknown block"), (PAGE.replace("<!-- end", "<!-- End"), "no end")],
)
def test__fill__page_with_a_wrong_block__is_refused(page, message):
    with pytest.raises(ValueError, match=message):
        fill(page, {"numbers": []})


def test__command__recorded_under_a_former_name__is_shown_with_the_present_one():
    text = command_text("sdlgm reproduce table1 --seeds 1")
    assert text.startswith("`python -m reproduction table1 --seeds 1`")
    assert "`sdlgm reproduce table1 --seeds 1`" in text
    assert command_text("python -m reproduction long") == "`python -m reproduction long`"
    assert command_text("run.py --rounds 2").startswith("`python -m benchmarks.run --rounds 2`")


def test__running_command__module__has_no_path_of_the_machine():
    path = "/some/where/reproduction/__main__.py"
    assert running_command([path, "table1"], "reproduction.__main__") == "python -m reproduction table1"
    assert running_command(["/some/where/sdlgm", "fit"], None) == "sdlgm fit"
    with_folder = [path, "table1", "--work", "/some/where/runs", "--jobs", "1"]
    assert running_command(with_folder, "reproduction.__main__") == "python -m reproduction table1 --jobs 1"


def test__markdown__table_and_numbers__are_formatted():
    assert heading("a", "b") == ["| a | b |", "|---|---:|"]
    assert mean_and_deviation([1.0, 2.0]) == "1.5 ± 0.7"
    assert mean_and_deviation([1.234], 2) == "1.23"


def test__headline__three_lines__name_the_peer_and_the_control():
    results = {
        name: json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("table1", "table2", "speed")
    }
    lines = readme.blocks(results)["headline"]
    assert len(lines) == 3
    assert all(line.startswith("- **") and "\n" not in line for line in lines)
    assert "has no budget" in lines[0]  # the control that beats the SDLGM
    assert "best peers" in lines[1]
    assert re.search(r"\((met|missed)\), goal at most", lines[2])
    assert "<!-- headline: made by 'make docs' -->" in (ROOT / "README.md").read_text(encoding="utf-8")


def test__find_problems__changed_page_and_broken_link__are_found(tmp_path):
    for name in [*pages.WHOLE, *pages.WITH_BLOCKS]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(re.sub(r"\]\((?!http)[^)]*\)", "](https://example.org)", text), encoding="utf-8")
    for name in pages.RESULTS:
        text = (ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8")
        (tmp_path / "docs" / "results" / f"{name}.json").write_text(text, encoding="utf-8")
    (tmp_path / "LINKS.md").write_text("[a](nowhere.md)", encoding="utf-8")
    problems = pages.find_problems(tmp_path)
    assert "broken link: LINKS.md: nowhere.md" in problems
    assert any("not up to date: docs/results/budgets.md" in problem for problem in problems)


def test__greedy_order__features__come_by_their_likelihood():
    class Decoder:
        """Feature k turns on pixel k, feature 0 is certain of a pixel that is off."""

        def inverse_transform(self, codes):
            probs = np.full((codes.shape[0], 4), 0.5)
            dense = codes.toarray()
            for k, prob in ((0, 0.9), (1, 0.8), (2, 0.95)):
                probs[:, k] = np.where(dense[:, k] > 0, prob, 0.5)
            return probs

    code = sp.csr_matrix(np.array([[1.0, 1.0, 1.0, 0.0]]))
    order = readme.greedy_order(Decoder(), np.array([0.0, 1.0, 1.0, 0.0]), code)
    assert order == [2, 1, 0]
