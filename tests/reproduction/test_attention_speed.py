"""The page of the speed of attention."""

import pytest

from reproduction.pages.attention_speed import TITLES, page


@pytest.mark.parametrize(("ratio", "verdict"), [(1.5, "met"), (1.51, "missed")])
def test__page__rows_of_json__says_whether_the_goal_is_met(ratio, verdict):
    row = {
        "keys": 256,
        "spread": 1,
        "seconds": dict.fromkeys(TITLES, 0.002),
        "memory": {**dict.fromkeys(TITLES, 4_000_000), "sdlgm": 3_000_000},
        "ratios": {"topk": ratio, "entmax_bisect": 0.25, "softmax": 2.0},
    }
    facts = {"versions": {"numpy": "2"}, "command": "python -m benchmarks.attention", "cores": 2}
    sizes = {"goal": 1.5, "heads": 8, "width": 64, "budget": 8, "rounds": 3, "load": 4.0}
    text = page({"rows": [row, {**row, "spread": 4}], **sizes, **facts})
    assert f"{ratio:.2f} to {ratio:.2f} times as long as top-k ({verdict})" in text
    assert "0.25 to 0.25 times as long as entmax-1.5 by bisection (met)" in text
    assert "0.75 to 0.75 times its memory" in text
    assert "## Few keys count: standard deviation of the scores 4" in text
