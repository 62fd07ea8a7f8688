import json
import os

import numpy as np
import pytest
from sdlgm.thresholds import f1, labels_at
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score

from reproduction import table2
from reproduction.table2 import NETWORKS, SYSTEMS, Task, load_task, measure

needs_data = pytest.mark.skipif(
    not os.environ.get("SDLGM_DATA"), reason="needs the Mulan files; set SDLGM_DATA to a folder that has mulan/"
)


@pytest.fixture
def made(monkeypatch) -> Task:
    X, Y = make_multilabel_classification(
        n_samples=120, n_features=8, n_classes=4, allow_unlabeled=False, random_state=0
    )
    task = Task(X[:60], Y[:60], X[60:100], Y[60:100], X[100:])
    monkeypatch.setattr(table2, "load_task", lambda data, split: task)
    monkeypatch.setattr(table2, "ITERATIONS", 20)
    monkeypatch.setattr(table2, "N_BOOTSTRAP", 50)
    return task


def run(system: str, data: str = "birds") -> dict:
    network = "narrow rank" if SYSTEMS[system].needs_network else ""
    return {"system": system, "data": data, "split": 0, "quick": True, "network": network}


@pytest.mark.parametrize("system", ["logistic", "sdlgm_con_paper", "sdlgm_gen_unlabelled", "extra_trees"])
def test__measure__any_system__gives_scores_of_the_test_rows(system, made, tmp_path):
    result = measure(run(system), tmp_path)
    assert 30 < result["micro"][0] <= 100
    low, high = result["micro_interval"]
    assert low <= result["micro"][0] <= high
    assert result["numbers"]["true"] == made.Y_test.sum(axis=1).tolist()
    json.dumps(result)  # what is kept is plain


def test__measure__choice__does_not_depend_on_the_test_rows(made, tmp_path, monkeypatch):
    """Other test rows and labels change scores, and nothing that was chosen."""
    first = measure(run("sdlgm_dis_closed_form"), tmp_path)
    other = Task(made.X, made.Y, made.X_test[::-1] + 1, 1 - made.Y_test, made.unlabelled)
    monkeypatch.setattr(table2, "load_task", lambda data, split: other)
    second = measure(run("sdlgm_dis_closed_form"), tmp_path)
    assert first["selected"] == second["selected"]
    assert first["micro"] != second["micro"]


def test__choose_network__folds__gives_one_that_is_known(made, tmp_path, monkeypatch):
    monkeypatch.setattr(table2, "NETWORKS", dict(list(table2.NETWORKS.items())[:2]))
    result = table2.choose_network({"data": "birds", "split": 0, "quick": False}, tmp_path)
    assert result["chosen"] in table2.NETWORKS
    assert result["scores"][result["chosen"]] == max(result["scores"].values())


def test__scores__predictions__equal_those_of_scikit_learn(made):
    rng = np.random.default_rng(0)
    Y = made.Y_test.copy()
    Y[:, 0] = 0
    predictions = [rng.random(Y.shape) < 0.4 for _ in range(2)]
    for average in ("micro", "macro"):
        scores = table2._scores(Y, predictions, average)
        expected = [100 * f1_score(Y, p, average=average, zero_division=0) for p in predictions]
        assert scores[average] == pytest.approx(expected)
    present = [100 * f1_score(Y[:, 1:], p[:, 1:], average="macro", zero_division=0) for p in predictions]
    assert scores["macro_present"] == pytest.approx(present)


@needs_data
def test__load_task__real_data__has_the_published_counts():
    birds, without_site = load_task("birds", 0), load_task("birds_without_site", 0)
    assert (len(birds.X), len(birds.X_test), len(birds.unlabelled), birds.Y.shape[1]) == (179, 172, 143, 19)
    assert birds.X.shape[1] - without_site.X.shape[1] == 12
    emotions = load_task("emotions", 0)
    assert (emotions.X.shape, emotions.X_test.shape) == ((391, 72), (202, 72))
    first, second = load_task("cal500", 0), load_task("cal500", 1)
    assert (first.Y.shape, first.Y_test.shape) == ((400, 174), (102, 174))
    assert not np.array_equal(first.X, second.X)


@needs_data
def test__short_fit__emotions__is_in_the_range_of_the_paper():
    task = load_task("emotions", 0)
    setting = {**NETWORKS["narrow standard"], "max_iter": 100}
    probs, budget = SYSTEMS["sdlgm_dis_subset"].predict(setting, 0, task, task.X_test)
    assert f1(task.Y_test, labels_at(probs, 0.35, budget), "micro") > 0.65
