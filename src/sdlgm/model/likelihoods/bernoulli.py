"""Binary entries."""

import torch
import torch.nn.functional as F

from sdlgm.model.likelihoods.base import Likelihood


class Bernoulli(Likelihood):
    """Binary entries; the decoder's output is the logit. Values in [0, 1] count as probabilities of a one."""

    def entry_log_prob(self, x, output):
        return -F.binary_cross_entropy_with_logits(output, x.expand_as(output), reduction="none")

    def mean(self, output):
        return torch.sigmoid(output)

    def sample(self, output, generator):
        return torch.bernoulli(torch.sigmoid(output), generator=generator)

    def initial_output(self, data_mean):
        return torch.logit(data_mean.clamp(1e-3, 1 - 1e-3))
