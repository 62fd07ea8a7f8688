import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, ndcg_score

from reproduction import tags
from reproduction.pages.tags import page
from runs_here import run_here


@pytest.fixture
def made(monkeypatch):
    """Two made data sets in place of the real ones."""
    sources = {
        "small": tags.Source("Small", "made", 2),
        "large": tags.Source("Large", "made", 1, is_large=True),
    }

    def load_split(name: str, seed: int) -> tags.Split:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(160, 4))
        Y = (X[:, :3] + 0.2 * rng.normal(size=(160, 3)) > 0.4).astype(float)
        return X[:120], Y[:120], X[120:], Y[120:]

    monkeypatch.setattr(tags, "SOURCES", sources)
    monkeypatch.setattr(tags, "load_split", load_split)


def test__scores_of__made_predictions__are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    true, probs = rng.integers(0, 2, (50, 4)).astype(float), rng.random((50, 4))
    true[0], probs[0] = 0, 0.1
    predicted = (probs > 0.5).astype(int)
    scores = tags.scores_of(true, predicted, probs)
    for average in ("micro", "macro"):
        assert scores[average] == pytest.approx(f1_score(true, predicted, average=average, zero_division=0))
    assert scores["row"] == pytest.approx(f1_score(true, predicted, average="samples", zero_division=1))
    assert scores["p_at_1"] == np.mean([row[best] for row, best in zip(true, probs.argmax(axis=1), strict=True)])
    assert scores["n_predicted"] == predicted.sum() / 50
    assert scores["hamming"] == pytest.approx(hamming_loss(true, predicted))
    assert scores["set_accuracy"] == pytest.approx(accuracy_score(true, predicted))


def test__scores_of__rankings__are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    true, probs = (rng.random((40, 9)) < 0.3).astype(float), rng.random((40, 9))
    true[0] = 0
    scores = tags.scores_of(true, (probs > 0.5).astype(int), probs)
    five = [true[row][np.argsort(-probs[row])[:5]].mean() for row in range(40)]
    assert scores["p_at_5"] == pytest.approx(np.mean(five))
    labelled = true.any(axis=1)
    assert scores["ndcg_at_5"] == pytest.approx(ndcg_score(true[labelled], probs[labelled], k=5))


def test__measured_apart__results_of_the_benchmark__stay(tmp_path):
    out = tmp_path / "tags.json"
    assert tags.measured_apart(out) == {}
    out.write_text(json.dumps({"rows": [], "scaling": [1], "memory": [2]}), encoding="utf-8")
    assert tags.measured_apart(out) == {"scaling": [1], "memory": [2]}


@pytest.mark.slow
def test__reproduce_tags__made_data__has_a_row_for_every_system_and_a_page(made, monkeypatch, tmp_path):
    monkeypatch.setattr(tags, "run_all", run_here)
    out = tmp_path / "tags.json"
    options = {"data": list(tags.SOURCES), "systems": list(tags.SYSTEMS), "n_jobs": 1, "work_folder": tmp_path}
    result = tags.reproduce_tags(out, **options)
    assert result == json.loads(out.read_text(encoding="utf-8"))
    small = {row["system"]: row for row in result["rows"] if row["data"] == "small"}
    large = {row["system"] for row in result["rows"] if row["data"] == "large"}
    assert set(small) == set(tags.TITLES)
    assert large == set(tags.TITLES) - set(tags.SMALL_ONLY)
    assert all(len(row["micro"]) == 2 and min(row["micro"]) > 0.7 for row in small.values())
    assert "## Large" in page(result)


def test__page__rows_of_json__says_how_far_the_best_peer_is():
    names = ("macro", "row", "p_at_1", "p_at_5", "ndcg_at_5", "hamming", "set_accuracy")
    scores = {
        **{name: [0.5] for name in names},
        "n_predicted": [2.0],
        "n_true": [2.0],
        "seconds": [1.0],
        "peak_mb": [300.0],
    }
    rows = [
        {"data": "a", "system": "sdlgm_f1", "title": "SDLGM", "micro": [0.625], **scores},
        {"data": "a", "system": "sdlgm_mode", "title": "another", "micro": [0.9], **scores},
        {"data": "a", "system": "sgd", "title": "SGD", "micro": [0.5], **scores},
        {"data": "a", "system": "logistic", "title": "logistic", "micro": [0.75], **scores},
    ]
    data = {"a": {"title": "A", "rows": "made", "shape": [10, 5, 3, 2]}}
    facts = {"versions": {"numpy": "2"}, "command": "python -m reproduction tags", "cores": 2}
    text = page({"data": data, "rows": rows, "protocol": {"rows": "all"}, **facts})
    assert "| A | -12.5 (logistic) | +0.0" in text
    assert "Time and memory" not in text
    measured = {
        "scaling": [{"labels": 1000, "ms": 3.0, "sigmoid_ms": 2.0}],
        "memory": [{"step": "fit", "rows": 10, "columns": 5, "labels": 1000, "peak_mb": 1500.0}],
    }
    text = page({"data": data, "rows": rows, "protocol": {"rows": "all"}, **facts, **measured})
    assert "| 1,000 | 3.0 | 2.0 | 1.50 |" in text
    assert "| `fit` | 1.5 |" in text
