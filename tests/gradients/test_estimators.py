"""Every estimator against exact enumeration."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from enumeration import L0, K, all_counts
from sdlgm.gradients import GRADIENTS
from sdlgm.model import SlotDistribution, Temperatures

WARM = Temperatures(torch.tensor(1.0), torch.tensor(1.0))
LINEAR = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
QUADRATIC = torch.tensor([[2.0, -1.0, 0.5], [-1.0, 1.0, 0.3], [0.5, 0.3, -1.5]], dtype=torch.float64)


def linear(counts: Tensor) -> Tensor:
    return counts @ LINEAR


def quadratic(counts: Tensor) -> Tensor:
    return linear(counts) + ((counts @ QUADRATIC) * counts).sum(-1)


def logits() -> tuple[Tensor, Tensor]:
    gate = torch.tensor([0.4], dtype=torch.float64, requires_grad=True)
    features = torch.tensor([[0.5, -0.3, 0.1]], dtype=torch.float64, requires_grad=True)
    return gate, features


def posterior(gate: Tensor, features: Tensor, copies: int = 1) -> SlotDistribution:
    return SlotDistribution(gate.expand(copies), features.log_softmax(-1).expand(copies, -1), L0)


def exact_gradient(function) -> Tensor:
    gate, features = logits()
    probabilities = posterior(gate, features).log_prob(all_counts()[:, None, :])[:, 0].exp()
    (probabilities * function(all_counts())).sum().backward()
    return torch.cat([gate.grad, features.grad[0]])


def sampled_gradients(name: str, function, n: int = 3000) -> Tensor:
    """(n, K + 1), one draw of the estimator a row."""
    generator = torch.Generator().manual_seed(1)
    gate, features = (t.detach().expand(n, *t.shape[1:]).clone().requires_grad_() for t in logits())
    distribution = SlotDistribution(gate, features.log_softmax(-1), L0)
    values = GRADIENTS[name]()(distribution, function, n_samples=1, temperatures=WARM, generator=generator)
    values.sum().backward()
    return torch.cat([gate.grad[:, None], features.grad], dim=1)


def z_scores(name: str, function) -> Tensor:
    """How many standard errors the mean of the estimator is from the exact gradient."""
    draws = sampled_gradients(name, function)
    error = draws.std(0) / len(draws) ** 0.5
    return (draws.mean(0) - exact_gradient(function)).abs() / (error + 1e-12)


def test__straight_through__linear_function__is_exact():
    draws = sampled_gradients("straight_through", linear, n=10)
    torch.testing.assert_close(draws, exact_gradient(linear).expand_as(draws))


def test__reinmax__linear_function__is_unbiased():
    assert float(z_scores("reinmax", linear).max()) < 4


def test__reinmax__quadratic_function__is_unbiased():
    assert float(z_scores("reinmax", quadratic).max()) < 4


def test__straight_through__quadratic_function__is_biased():
    """The test above can tell: the first-order estimator fails it."""
    assert float(z_scores("straight_through", quadratic).max()) > 10


def test__reinmax__closed_form__equals_the_sum_over_slots():
    """Against the definition of ReinMax for one categorical (Liu et al., NeurIPS 2023), slot by slot."""
    gate, features = logits()
    distribution = posterior(gate, features)
    log_probs = distribution.log_probs[0]
    symbols = torch.tensor([0, 2])
    probs = log_probs.exp()

    def jacobian(p: Tensor) -> Tensor:
        return torch.diag(p) - torch.outer(p, p)

    expected = torch.zeros(K + 1, K + 1, dtype=torch.float64)
    for symbol in symbols:
        one_hot = F.one_hot(symbol, K + 1).double()
        expected += 2 * jacobian((probs + one_hot) / 2) - jacobian(probs) / 2

    class Drawn:
        """The distribution with the draw fixed, as a function of the logits of the K + 1 symbols."""

        n_slots = L0

        def __init__(self, symbol_logits: Tensor):
            self.log_probs = symbol_logits.log_softmax(-1)[None]
            self.probs = self.log_probs.exp()

        def sample_symbols(self, n_samples, generator):
            return F.one_hot(symbols, K + 1).sum(0).double()[None, None]

        def relaxed_slots(self, n_samples, temperatures, generator):
            raise NotImplementedError

        relaxed_sample = relaxed_slots

    for k in range(K):
        symbol_logits = log_probs.detach().clone().requires_grad_()
        estimate = GRADIENTS["reinmax"]()(
            Drawn(symbol_logits),
            lambda counts, k=k: counts[..., k],
            n_samples=1,
            temperatures=WARM,
            generator=torch.Generator(),
        )
        estimate.sum().backward()
        torch.testing.assert_close(symbol_logits.grad, expected[k + 1].detach())


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test__estimator__forward__sees_hard_counts_exactly_if_it_says_so(name):
    seen = []

    def log_likelihood(counts: Tensor) -> Tensor:
        seen.append(counts.detach())
        return linear(counts)

    gate, features = logits()
    GRADIENTS[name]()(
        posterior(gate, features, 50),
        log_likelihood,
        n_samples=2,
        temperatures=WARM,
        generator=torch.Generator().manual_seed(0),
    )
    (counts,) = seen
    assert counts.shape == (2, 50, K)
    assert bool((counts == counts.round()).all()) == GRADIENTS[name].discrete
    assert bool((counts.sum(-1) <= L0 + 1e-9).all())


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test__estimator__decoder_weights__get_a_gradient(name):
    gate, features = logits()
    weight = torch.ones(K, dtype=torch.float64, requires_grad=True)
    estimate = GRADIENTS[name]()(
        posterior(gate, features, 20),
        lambda counts: counts @ weight,
        n_samples=1,
        temperatures=WARM,
        generator=torch.Generator().manual_seed(0),
    )
    estimate.sum().backward()
    for tensor in (weight, gate, features):
        assert tensor.grad is not None
        assert bool(tensor.grad.abs().sum() > 0)


def test__straight_through_gumbel__linear_function__points_the_right_way():
    """Biased, but its mean must be close to the exact gradient in direction."""
    mean, exact = sampled_gradients("straight_through_gumbel", linear).mean(0), exact_gradient(linear)
    assert float(F.cosine_similarity(mean, exact, dim=0)) > 0.95
