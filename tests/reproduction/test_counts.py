import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sdlgm.model.counting import CountConfig

from reproduction import counts
from reproduction.count_peers import ForestCounter, NetworkRegression, PoissonModule, RegressionModule, VotesModule
from reproduction.runs import run_folder
from sdlgm import SDLGMCounter
from sdlgm.data import digit_columns

SMALL = {"hidden": (16,), "channels": 4, "max_iter": 150, "batch_size": 20, "max_shift": 0, "dropout": 0.0}


@pytest.fixture(scope="module")
def pictures():
    return digit_columns("train", 200, n_columns=2, source="digits")


@pytest.mark.parametrize(
    "peer",
    [
        NetworkRegression(RegressionModule, SDLGMCounter(**SMALL, encoder="cnn", random_state=0)),
        NetworkRegression(PoissonModule, SDLGMCounter(**SMALL, encoder="cnn", random_state=0)),
        NetworkRegression(VotesModule, SDLGMCounter(**SMALL, encoder="patches", random_state=0)),
        ForestCounter(extra=False, max_features="sqrt", random_state=0),
        ForestCounter(extra=True, max_features=0.1, random_state=0),
    ],
)
def test__peers__pictures__learn_to_count(pictures, peer):
    mean = peer.fit(pictures.X, pictures.counts).predict_mean(pictures.X)
    assert mean.shape == pictures.counts.shape
    assert np.square(mean - pictures.counts).mean() < 0.5 * pictures.counts.var(axis=0).mean()


def test__poisson__loss__is_minus_the_log_probability_but_for_a_constant():
    config = CountConfig((8, 8, 1), 3, 2, "cnn", (4,), 2, "silu", 0.0, (1, 1), (1, 1), 0)
    module = PoissonModule(config)
    mean, y = torch.tensor([[0.5, 1.0, 2.0]]), torch.tensor([[0.0, 2.0, 1.0]])
    expected = -(torch.distributions.Poisson(mean).log_prob(y) + torch.lgamma(y + 1)).sum(-1)
    torch.testing.assert_close(module.loss(mean, y), expected)
    module.adapt_to(torch.tensor([0.2, 0.4, 1.5]))
    with torch.no_grad():
        module.posterior.out.weight.zero_()
    torch.testing.assert_close(module.mean(torch.rand(1, 64))[0], torch.tensor([0.2, 0.4, 1.5]))


def test__errors__by_hand__are_these():
    errors = counts._errors(np.array([[0.4, 1.6], [-0.2, 1.0]]), np.array([[0, 2], [0, 0]]))
    assert errors["mse_expected"] == pytest.approx((0.16 + 0.16 + 0.04 + 1.0) / 4)
    assert errors["mse_rounded"] == pytest.approx(0.25)
    assert errors["whole_vector"] == 0.5


def test__in_words__counts__read_well():
    assert counts.in_words(np.array([0, 1, 2])) == "1, 2 × 2"
    assert counts.in_words(np.zeros(3, dtype=int)) == "nothing"


def _made(split: str, n: int | None = None):
    return digit_columns(split, n or {"train": 560, "test": 40}[split], source="digits")


def test__reproduce_counts__small__has_rows_pictures_and_protocol(tmp_path, monkeypatch):
    tiny = counts.Pictures("tiny", _made, (6, 9), 2)
    monkeypatch.setattr(counts, "DATA", {"columns": tiny})
    # In this process: another would not know the small data.
    monkeypatch.setattr(
        counts, "run_all", lambda work, runs, folder, _: [run | work(run, run_folder(folder, run)) for run in runs]
    )
    chosen = {
        name: replace(counts.SYSTEMS[name], seeds={"columns": 1}) for name in ("sdlgm_patches", "random_forest", "mean")
    }
    monkeypatch.setattr(counts, "SYSTEMS", chosen)
    reproduce = partial(counts.reproduce_counts, systems=list(chosen), data=["columns"], n_jobs=1, work_folder=tmp_path)
    result = reproduce(tmp_path / "counts.json", seeds=None)
    assert json.loads((tmp_path / "counts.json").read_text()) == result
    assert (tmp_path / "counts-columns.png").stat().st_size > 1000
    ours, forest, mean = result["rows"]
    expected = _made("train").counts.mean(axis=0)
    assert mean["mse_expected"] == [pytest.approx(np.square(_made("test").counts - expected).mean())]
    assert ours["selected"] == ours["grid"][int(np.argmin(ours["validation"]))]
    assert len(ours["validation"]) == len(ours["grid"]) == 2 * len(chosen["sdlgm_patches"].grid)
    assert {setting["max_iter"] for setting in ours["grid"]} == {6, 9}
    assert forest["grid"] == list(chosen["random_forest"].grid)
    assert ours["paper"] == 0.05
    assert forest["paper"] == 0.16
    zeros = np.square(_made("test").counts).mean()
    assert 0 < forest["mse_expected"][0] < zeros
    assert result["protocol"]
