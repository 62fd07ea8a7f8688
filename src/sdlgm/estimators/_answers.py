"""What a fitted classifier says of a batch of rows. The rows pass through the networks once, whatever is asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sdlgm.errors import NumericalError
from sdlgm.estimators._decisions import Decision, Leaves, Mixture, likeliest
from sdlgm.estimators._fitted import FittedClassifier, check_finite
from sdlgm.estimators._thresholds import labels_at
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import SubsetDistribution
from sdlgm.model.networks.members import mean_over_members
from sdlgm.model.noise import Noise
from sdlgm.train.batches import Rows

# Relaxed draws behind a probability of the paper's form.
_N_SAMPLES = 20


@dataclass(frozen=True)
class Answers:
    """The answers for a batch: means over members, and with trees of that and their votes."""

    fitted: FittedClassifier
    x: Tensor
    """Inputs of the networks."""
    labels: SlotDistribution | SubsetDistribution
    """q(y given x), for members times rows."""

    @cached_property
    def presence(self) -> np.ndarray:
        """Probability of each label, (R, K)."""
        with torch.inference_mode():
            presence = self.fitted.module.presence_of(self.labels, n_samples=_N_SAMPLES, noise=self._noise())
        probs = np.clip(self._mean(presence, 0), 0.0, 1.0)
        if self.fitted.single_label:
            probs = np.maximum(probs, np.finfo(np.float64).tiny)  # uniform if all are zero
            probs /= probs.sum(axis=1, keepdims=True)
        return probs

    @cached_property
    def numbers(self) -> np.ndarray:
        """Distribution of the number of labels, over 0..L0."""
        with torch.inference_mode():
            numbers = self.fitted.module.number_of_labels_of(self.labels, n_samples=_N_SAMPLES, noise=self._noise())
        probs = self._mean(numbers, 1)
        total = probs.sum(axis=1, keepdims=True)
        if not total.all():  # no number within the budget has a probability above zero
            raise NumericalError("the number of labels cannot be computed: the logits of the labels are too large")
        return probs / total

    @property
    def expected_number(self) -> np.ndarray:
        """Expected number of labels of each row."""
        return self.numbers @ np.arange(self.numbers.shape[1])

    def predicted(self, decision: Decision) -> np.ndarray:
        """Return the labels that are predicted, as an indicator matrix."""
        if self.fitted.single_label:
            return np.eye(self.presence.shape[1], dtype=np.int64)[self.presence.argmax(axis=1)]
        if decision == "f1":
            return self._mixture().largest_f1()
        if decision == "mode":
            return self._mixture().most_probable()
        if decision == "count":
            return likeliest(self.presence, self.expected_number)
        budget = self.fitted.module.config.n_slots
        return labels_at(self.presence, self.fitted.threshold, budget).astype(np.int64)

    def _mixture(self) -> Mixture:
        """Return the distribution over sets of labels."""
        module, forest = self.fitted.module, self.fitted.forest
        with torch.inference_mode():
            members = module.sets_of(self.labels, len(self.x), n_samples=_N_SAMPLES, noise=self._noise())
        for member in members:
            check_finite("the labels", member.logits)
        return Mixture(members, None if forest is None else Leaves(forest, self.x.cpu().numpy()))

    def _noise(self) -> Noise:
        return Noise.seeded(0, self.fitted.device)

    def _mean(self, values: Tensor, of_trees: int) -> np.ndarray:
        """Return the mean over members; with trees, of that and their votes (see `Forest.votes`)."""
        check_finite("the labels", values)
        mean = mean_over_members(values, self.fitted.module.config.n_members).cpu().double().numpy()
        if self.fitted.forest is not None:
            votes = self.fitted.forest.votes(self.x.cpu().numpy())[of_trees]
            common = min(mean.shape[1], votes.shape[1])  # numbers beyond the budget have no probability
            mean[:, :common] += votes[:, :common]
            mean /= 2
        return mean


def answers(fitted: FittedClassifier, rows: Rows) -> Iterator[Answers]:
    """Iterate over the answers for some rows at a time."""
    for x in fitted.scaled_batches(rows):
        with torch.inference_mode():
            labels = fitted.module.inference(x).labels
        yield Answers(fitted, x, labels)
