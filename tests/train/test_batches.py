"""Batches: shuffling, fingerprints, binarisation."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sdlgm.train import ShuffledBatches, Targets, binarize


def test__batches__an_epoch__has_every_row_once_and_epochs_differ():
    rows = np.arange(30.0).reshape(30, 1)
    batches = ShuffledBatches(rows, 10, seed=1)
    first = np.concatenate([batches[i] for i in range(3)]).ravel()
    second = np.concatenate([batches[i] for i in range(3, 6)]).ravel()
    assert sorted(first) == sorted(second) == list(range(30))
    assert not np.array_equal(first, second)
    again = ShuffledBatches(rows, 10, seed=1)
    assert np.array_equal(again[4], batches[4])


def test__batches__fingerprint__tells_data_apart():
    rows = np.arange(30.0).reshape(10, 3)
    prints = {ShuffledBatches(data, 5, 0).fingerprint() for data in (rows, rows + 1, rows[:9], sp.csr_matrix(rows))}
    assert len(prints) == 4


def test__binarize__each_way__does_what_it_says(noise):
    grey = torch.full((2000, 1), 0.3)
    drawn = binarize(grey, "dynamic", noise)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert drawn.mean().item() == pytest.approx(0.3, abs=0.05)
    assert not torch.equal(drawn, binarize(grey, "dynamic", noise))
    assert binarize(torch.tensor([0.49, 0.5]), "threshold", noise).tolist() == [0.0, 1.0]
    assert binarize(grey, "probability", noise) is grey


def test__batches__targets__belong_to_their_rows():
    rows = np.arange(30.0).reshape(30, 1)
    targets = Targets.all_known(2 * rows[:20]).followed_by_unknown(10)
    batches = ShuffledBatches(rows, 10, seed=1, targets=targets)
    for iteration in range(4):
        batch = batches.batch(iteration, torch.device("cpu"))
        y, known = batch.targets
        np.testing.assert_array_equal(batch.x.numpy(), batches[iteration].astype(np.float32))
        assert torch.equal(known, (batch.x[:, 0] < 20).float())
        assert torch.equal(y, 2 * batch.x * known[:, None])
    prints = {ShuffledBatches(rows, 10, 1, targets=changed).fingerprint() for changed in (None, targets)}
    prints.add(ShuffledBatches(rows, 10, 1, targets=Targets.all_known(targets.y)).fingerprint())
    assert len(prints) == 3
