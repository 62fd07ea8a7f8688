"""Point masses on codes that were found."""

import torch

from sdlgm.model.codes.base import Temperatures
from sdlgm.model.codes.found import FoundCodes
from sdlgm.model.codes.priors import ChainPrior
from sdlgm.model.noise import Noise

CODES = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])


def prior() -> ChainPrior:
    torch.manual_seed(0)
    made = ChainPrior(3, 2, 0.4, 2, hidden=False)
    torch.nn.init.normal_(made.reads)
    return made


def test__found__divergence__is_what_the_prior_charges():
    posterior, p = FoundCodes(CODES, 2), prior()()
    expected = -p.log_prob(CODES)
    torch.testing.assert_close(posterior.kl(p, "exact"), expected)
    terms = posterior.prior_terms(p, "exact")
    torch.testing.assert_close(terms.kl, expected)
    assert (terms.entropy_features == 0).all()


def test__found__draws__are_the_codes():
    posterior, noise = FoundCodes(CODES, 2), Noise.seeded(0)
    one = torch.ones(())
    assert torch.equal(posterior.sample(4, noise), CODES.expand(4, -1, -1))
    assert torch.equal(posterior.relaxed_sample(2, Temperatures(one, one), noise), CODES.expand(2, -1, -1))
    assert torch.equal(posterior.mode(), CODES.int())
    torch.testing.assert_close(posterior.gate_prob, torch.tensor([1.0, 0.0]))


def test__found__log_ratio__is_infinite_for_other_codes():
    posterior, p = FoundCodes(CODES, 2), prior()()
    ratio = posterior.log_ratio(torch.stack([CODES, CODES.flip(0)]), p)
    torch.testing.assert_close(ratio[0], p.log_prob(CODES))
    assert (ratio[1] == torch.inf).all()
