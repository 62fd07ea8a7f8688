"""Batches and learning rate of a fit by default."""

import numpy as np
import pytest

from sdlgm import SDLGM, load
from sdlgm.train import Trainer


@pytest.fixture
def free(small) -> dict:
    """Settings that leave both to the library."""
    return {name: value for name, value in small.items() if name not in ("batch_size", "learning_rate")}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (100, 3e-3)),
        ({"max_time": 100.0}, (500, 6e-3)),
        ({"batch_size": 600}, (600, 6e-3)),
        ({"max_time": 100.0, "batch_size": 60}, (60, 3e-3)),
        ({"max_time": 100.0, "learning_rate": 1e-3}, (500, 1e-3)),
    ],
    ids=str,
)
def test__auto__limits_of_the_run__decide(settings, expected, digits, free, monkeypatch):
    seen = set()
    step = Trainer.step

    def noted(trainer, batch):
        seen.add((len(batch.x), trainer.config.learning_rate))
        return step(trainer, batch)

    monkeypatch.setattr(Trainer, "step", noted)
    SDLGM(**{**free, "max_iter": 2, **settings}, refine=0, random_state=0).fit(np.tile(digits, (2, 1)))
    assert seen == {expected}
    seen.clear()
    SDLGM(**{**free, "max_iter": 2, **settings}, refine=0.5, random_state=0).fit(np.tile(digits, (2, 1)))
    rate = settings.get("learning_rate", 3e-3) / 3  # of batches of at most 100 rows
    assert seen == {expected, (min(expected[0], 100), rate)}


def test__auto__explicit_numbers__give_the_same_model(digits, free):
    auto = SDLGM(**free, random_state=0).fit(digits)
    explicit = SDLGM(**free, batch_size=100, learning_rate=3e-3, random_state=0).fit(digits)
    assert auto.score(digits) == explicit.score(digits)


def test__partial_fit__max_time__does_not_change_the_batches(digits, free):
    model = SDLGM(**free, max_time=100.0, random_state=0).partial_fit(digits[:400])
    assert model.n_iter_ == 4


def test__file__auto__stays(digits, free, tmp_path):
    SDLGM(**free, random_state=0).fit(digits).save(tmp_path / "model.sdlgm")
    loaded = load(tmp_path / "model.sdlgm")
    assert (loaded.batch_size, loaded.learning_rate) == ("auto", "auto")
