"""Networks of the model with labels."""

import torch

from sdlgm.model.networks.multilabel import slot_probabilities


def test__slot_probabilities__frequencies__come_back_as_presence():
    frequencies = torch.tensor([0.1, 0.3, 0.02], dtype=torch.float64)
    symbols = slot_probabilities(frequencies, 5)
    torch.testing.assert_close(1 - (1 - symbols) ** 5, frequencies)
