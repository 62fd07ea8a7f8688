"""Ways from scores to weights of attention: the SDLGM's and its peers, each from its paper, in one interface."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from entmax import entmax15, sparsemax
from torch import Tensor, nn

from sdlgm.nn import SubsetGate, set_softmax

NEVER = -1e4
"""Score of tokens that are not allowed, for functions that do not take minus infinity."""


@dataclass(frozen=True)
class Attended:
    """What a rule returns."""

    weights: Tensor
    """(batch, n + 1): weights of the tokens, and of the null token behind them, which is always there."""
    penalty: Tensor | float = 0.0
    """Added to the loss in training."""


class Rule(nn.Module):
    """From scores (batch, n), the score of the null token, allowed tokens and a budget to weights.

    ``strength`` is the only setting of a rule. ``generator`` makes the draws of training. ``gate_scale`` multiplies the
    scores of rules that open gates: these have a long way to go from zero, and Adam moves all weights as fast.
    """

    n_scores = 1
    """Number of scores of a token that the rule needs."""

    def __init__(self, strength: float, generator: torch.Generator, gate_scale: float = 1.0):
        super().__init__()
        self.strength, self.generator, self.gate_scale = strength, generator, gate_scale

    def forward(self, scores: Tensor, null: Tensor, allowed: Tensor, budget: int) -> Attended:
        """Return the weights.

        Parameters
        ----------
        scores : Tensor of shape (batch, n, n_scores)
        null : Tensor of shape ()
            Score of the null token.
        allowed : Tensor of bool of shape (batch, n)
        budget : int
            Most tokens with a weight, for rules that have a budget.

        Returns
        -------
        Attended

        """
        raise NotImplementedError


def with_null(values: Tensor, null: Tensor | float) -> Tensor:
    """Append a column for the null token."""
    return torch.cat([values, torch.as_tensor(null).to(values).expand(len(values), 1)], dim=-1)


def softmax_over(scores: Tensor, null: Tensor, members: Tensor) -> Tensor:
    """Return the softmax with the masses ``members`` (0 to 1), and the null token with mass 1."""
    top = torch.maximum(scores.amax(-1, keepdim=True), null).detach()
    masses = with_null(members * torch.exp(scores - top), 0.0) + F.pad(torch.exp(null - top), (scores.shape[-1], 0))
    return masses / masses.sum(-1, keepdim=True)


def largest(scores: Tensor, allowed: Tensor, budget: int) -> Tensor:
    """Return 1 for the allowed tokens with the largest scores, at most ``budget``, and 0 for all others."""
    scores = scores.detach().masked_fill(~allowed, -torch.inf)
    places = scores.topk(min(budget, scores.shape[-1]), dim=-1).indices
    return torch.zeros_like(scores).scatter(-1, places, 1.0) * allowed


class Dense(Rule):
    """Softmax of the scores times the strength."""

    def transform(self, scores: Tensor) -> Tensor:
        """Map scores to weights."""
        return scores.softmax(-1)

    def forward(self, scores: Tensor, null: Tensor, allowed: Tensor, budget: int) -> Attended:
        """Return the weights of all allowed tokens."""
        del budget
        scores = with_null((self.strength * scores[..., 0]).masked_fill(~allowed, NEVER), self.strength * null)
        return Attended(self.transform(scores))


class Sparsemax(Dense):
    """Martins and Astudillo, 2016."""

    def transform(self, scores: Tensor) -> Tensor:
        """Map scores to weights."""
        return sparsemax(scores, dim=-1)


class Entmax(Dense):
    """Entmax-1.5: Peters, Niculae and Martins, 2019."""

    def transform(self, scores: Tensor) -> Tensor:
        """Map scores to weights."""
        return entmax15(scores, dim=-1)


class TopK(Rule):
    """Softmax over the tokens with the largest scores; no gradient for all others."""

    def forward(self, scores: Tensor, null: Tensor, allowed: Tensor, budget: int) -> Attended:
        """Return the weights of the best tokens."""
        scores = self.strength * scores[..., 0]
        return Attended(softmax_over(scores, self.strength * null, largest(scores, allowed, budget)))


class GumbelTopK(Rule):
    """Relaxed subset sampling, straight-through: Xie and Ermon, 2019. The strength is the temperature."""

    def forward(self, scores: Tensor, null: Tensor, allowed: Tensor, budget: int) -> Attended:
        """Return the weights of a drawn set, and in evaluation of the best one."""
        scores = scores[..., 0]
        if not self.training:
            return Attended(softmax_over(scores, null, largest(scores, allowed, budget)))
        uniform = torch.rand(scores.shape, generator=self.generator).clamp(1e-10, 1 - 1e-7)
        keys = scores - torch.log(-torch.log(uniform))
        hard = largest(keys, allowed, budget)
        soft = relaxed_top_k(keys, allowed, budget, self.strength)
        return Attended(softmax_over(scores, null, hard + soft - soft.detach()))


def relaxed_top_k(keys: Tensor, allowed: Tensor, budget: int, temperature: float) -> Tensor:
    """Return the sum of successive softmaxes, each without what those before have taken. It adds up to the budget."""
    keys, total = keys.masked_fill(~allowed, NEVER), torch.zeros_like(keys)
    for _ in range(budget):
        share = (keys / temperature).softmax(-1)
        total = total + share
        keys = keys + torch.log((1 - share).clamp(min=1e-6))
    return total * allowed


class ExactK(Rule):
    """SIMPLE: Ahmed, Zeng, Niepert and Van den Broeck, 2023. Sets of k tokens, with the gradient of their marginals."""

    def forward(self, scores: Tensor, null: Tensor, allowed: Tensor, budget: int) -> Attended:
        """Return the weights of a drawn set, and in evaluation of the best one."""
        scores = self.strength * scores[..., 0]
        if not self.training:
            return Attended(softmax_over(scores, null, largest(scores, allowed, budget)))
        # Rows of a batch have about the same length, and a set of k needs k tokens in each of them.
        hard, soft = k_subset(scores, allowed, min(budget, int(allowed.sum(-1).min())), self.generator)
        return Attended(softmax_over(scores, null, hard + soft - soft.detach()))


def k_subset(scores: Tensor, allowed: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw sets of exactly k elements with probabilities in proportion to exp(sum of scores).

    Returns
    -------
    drawn : Tensor of shape (batch, n)
        1 for members and 0 for all others.
    marginals : Tensor of shape (batch, n)
        Probability of each element to be a member; differentiable.

    """
    n = scores.shape[-1]
    if not scores.requires_grad:
        scores = scores.detach().requires_grad_()
    with torch.enable_grad():
        log_odds = F.pad(scores - _shift(scores.detach(), allowed, k), (0, (1 << (n - 1).bit_length()) - n))
        allowed_too = F.pad(allowed, (0, log_odds.shape[-1] - n))
        present = torch.sigmoid(log_odds) * allowed_too
        absent = torch.where(allowed_too, torch.sigmoid(-log_odds), 1.0)
        levels = [torch.stack([absent, present], dim=-1)]
        while levels[-1].shape[1] > 1:
            levels.append(product(levels[-1][:, 0::2], levels[-1][:, 1::2], k))
        # e_k of the odds, up to a factor without the scores: P(k present) / prod P(absent).
        log_normaliser = levels[-1][:, 0, k].log() + (F.softplus(log_odds) * allowed_too).sum(-1)
        (marginals,) = torch.autograd.grad(log_normaliser.sum(), scores, create_graph=True)
    return _descend([level.detach() for level in levels], k, generator)[:, :n], marginals


def _shift(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    """Return what to take from the scores so that k independent elements are expected; by bisection."""
    inside = scores.masked_fill(~allowed, torch.nan)
    low = torch.nan_to_num(inside, nan=torch.inf).amin(-1, keepdim=True) - 12
    high = torch.nan_to_num(inside, nan=-torch.inf).amax(-1, keepdim=True) + 12
    for _ in range(40):
        middle = (low + high) / 2
        above = (torch.sigmoid(scores - middle) * allowed).sum(-1, keepdim=True) > k
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2


def product(left: Tensor, right: Tensor, degree: int) -> Tensor:
    """Multiply polynomials, whose coefficients are in the last dimension, up to a degree."""
    n, m = left.shape[-1], right.shape[-1]
    terms = left.unsqueeze(-1) * right.unsqueeze(-2)
    # Row i moves i places to the right, so that columns have the same degree.
    slanted = F.pad(terms, (0, n)).flatten(-2)[..., : n * (n + m - 1)].unflatten(-1, (n, n + m - 1))
    return slanted.sum(-2)[..., : degree + 1]


def _descend(levels: list[Tensor], k: int, generator: torch.Generator) -> Tensor:
    """Draw how many of the k members are in the left and in the right half of each node, from the root down."""
    numbers = torch.full(levels[-1].shape[:2], k)
    for level in levels[-2::-1]:
        left, right = level[:, 0::2], level[:, 1::2]
        m = torch.arange(left.shape[-1])
        rest = numbers.unsqueeze(-1) - m
        possible = (rest >= 0) & (rest < right.shape[-1])
        chances = left * right.gather(-1, rest.clamp(0, right.shape[-1] - 1)) * possible
        cumulative = chances.double().cumsum(-1)
        uniform = torch.rand(numbers.shape, generator=generator, dtype=torch.double)
        drawn = (cumulative <= (uniform * cumulative[..., -1]).unsqueeze(-1)).sum(-1)
        numbers = torch.stack([drawn, numbers - drawn], dim=-1).flatten(1)
    return numbers.to(levels[0].dtype)


class HardKuma(Rule):
    """Stretched and rectified Kumaraswamy variables with a target rate: Bastings, Aziz and Titov, 2019.

    The strength is the target as a share of the budget. A multiplier holds the expected number of tokens below it; it
    grows while there are more, and shrinks while there are fewer.
    """

    n_scores = 2
    LOW, HIGH = -0.1, 1.1
    STEP = 0.01

    multiplier: Tensor

    def __init__(self, strength: float, generator: torch.Generator, gate_scale: float = 1.0):
        super().__init__(strength, generator, gate_scale)
        self.register_buffer("multiplier", torch.tensor(0.0))

    def forward(self, scores: Tensor, null: Tensor, allowed: Tensor, budget: int) -> Attended:
        """Return the weights of drawn tokens, and in evaluation of those with the most probable kind of value."""
        scores, null = self.gate_scale * scores, self.gate_scale * null
        a, b = F.softplus(scores + 0.5).clamp(1e-3, 100.0).unbind(-1)
        absent = kuma_below((0 - self.LOW) / (self.HIGH - self.LOW), a, b)
        if not self.training:
            return Attended(softmax_over(scores[..., 0], null, self.most_probable(a, b, absent) * allowed))
        uniform = torch.rand(a.shape, generator=self.generator).clamp(1e-6, 1 - 1e-6)
        drawn = self.stretched((1 - (1 - uniform) ** (1 / b)) ** (1 / a)).clamp(0, 1)
        number = ((1 - absent) * allowed).sum(-1)
        # As a share of the tokens, so that texts of all lengths have the same scale.
        lengths = allowed.sum(-1).clamp(min=1)
        excess = ((number - self.strength * budget) / lengths).mean()
        penalty = self.multiplier.clone() * excess
        with torch.no_grad():
            self.multiplier.copy_((self.multiplier + self.STEP * torch.sign(excess)).clamp(min=0))
        return Attended(softmax_over(scores[..., 0], null, drawn * allowed), penalty)

    def stretched(self, value: Tensor) -> Tensor:
        """Map (0, 1) to (LOW, HIGH)."""
        return self.LOW + (self.HIGH - self.LOW) * value

    def most_probable(self, a: Tensor, b: Tensor, absent: Tensor) -> Tensor:
        """Return 0, 1 or the mean in between, whichever is the most probable."""
        whole = 1 - kuma_below((1 - self.LOW) / (self.HIGH - self.LOW), a, b)
        mean = b * torch.exp(torch.lgamma(1 + 1 / a) + torch.lgamma(b) - torch.lgamma(1 + 1 / a + b))
        between = 1 - absent - whole
        value = torch.where(whole > between, 1.0, self.stretched(mean).clamp(0, 1))
        return torch.where(absent > torch.maximum(whole, between), 0.0, value)


def kuma_below(value: float, a: Tensor, b: Tensor) -> Tensor:
    """Return the probability that a Kumaraswamy variable is below a value."""
    return 1 - (1 - torch.exp(a * math.log(value))) ** b


class Budgeted(Rule):
    """The SDLGM's: at most the budget, and as few as needed. The strength is the weight of KL / budget."""

    PRIOR = 0.9
    """Expected number of tokens under the prior, as a share of the budget."""

    def __init__(self, strength: float, generator: torch.Generator, gate_scale: float = 1.0):
        super().__init__(strength, generator, gate_scale)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, scores: Tensor, null: Tensor, allowed: Tensor, budget: int) -> Attended:
        """Return the weights of a drawn set, and in evaluation of the most probable one."""
        scores, null = self.gate_scale * scores[..., 0], self.gate_scale * null
        gate = SubsetGate(budget, prior_active=self.PRIOR * budget).train(self.training)
        members = gate(scores + self.bias, allowed, generator=self.generator)
        weights = set_softmax(with_null(scores, null), with_null(members, 1.0))
        return Attended(weights, 0.0 if gate.kl is None else self.strength / budget * gate.kl.mean())
