"""The network that all kinds of attention share, its training, and what is measured of it."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score
from torch import Tensor, nn

from reproduction.attention_data import Part, Tokens, batches
from reproduction.attention_rules import (
    Budgeted,
    Dense,
    Entmax,
    ExactK,
    GumbelTopK,
    HardKuma,
    Rule,
    Sparsemax,
    TopK,
    largest,
)

RULES: Mapping[str, type[Rule]] = {
    "softmax": Dense,
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "top_k": TopK,
    "gumbel": GumbelTopK,
    "simple": ExactK,
    "hardkuma": HardKuma,
    "sdlgm": Budgeted,
}


CLIPPED = 5.0
"""Largest norm of a gradient."""
SMALL_BATCH = 16


@dataclass(frozen=True)
class Task:
    """How a data set is learned and scored."""

    width: int
    epochs: int
    batch: int
    rate: float
    dropout: float
    score: str
    """``"accuracy"``, ``"macro_f1"`` or ``"count_error"``."""
    budget: int | float
    """Most tokens, or the share of tokens if below one."""
    smooth: int = 1
    """Scores are averaged over this many neighbours."""

    def budget_of(self, lengths: Tensor) -> int:
        """Return the budget of a batch, which holds for its shortest row."""
        return max(1, int(self.budget * int(lengths.min()))) if self.budget < 1 else int(self.budget)


TASKS: Mapping[str, Task] = {
    "sst2": Task(64, 6, 64, 2e-3, 0.5, "accuracy", 5),
    "movies": Task(32, 8, 16, 4e-3, 0.5, "macro_f1", 0.1),
    "digits": Task(32, 8, 64, 2e-3, 0.1, "count_error", 8),
}


class Reader(nn.Module):
    """Vectors of tokens with their neighbours, one learned query that attends to them, and a linear classifier."""

    def __init__(self, data: Tokens, task: Task, rule: Rule):
        super().__init__()
        width, self.grid, self.rule, self.task = task.width, data.grid, rule, task
        if data.n_words is not None:
            self.embed = nn.Embedding(data.n_words, width)
            nn.init.normal_(self.embed.weight, std=0.1)
            self.context = nn.Conv1d(width, width, 3, padding=1)
        else:
            self.embed = nn.Linear(data.train.tokens.shape[-1], width)
            self.context = nn.Conv2d(width, width, 3, padding=1)
        self.dropout = nn.Dropout(task.dropout)
        self.query = nn.Linear(width, rule.n_scores)
        self.null = nn.Parameter(torch.zeros(()))
        self.value = nn.Linear(width, width)
        self.null_value = nn.Parameter(torch.zeros(width))
        self.classify = nn.Linear(width, data.n_classes)

    def forward(
        self, tokens: Tensor, allowed: Tensor, budget: int, *, cut: bool = False
    ) -> tuple[Tensor, Tensor, Tensor | float]:
        """Classify rows of tokens.

        Parameters
        ----------
        tokens : Tensor
        allowed : Tensor of bool of shape (batch, n)
            All other tokens are blanked before anything reads them.
        budget : int
        cut : bool, default=False
            Keep only the ``budget`` largest weights.

        Returns
        -------
        logits : Tensor of shape (batch, classes)
        weights : Tensor of shape (batch, n)
        penalty : Tensor or float
            What the rule adds to the loss.

        """
        x = self.dropout(self.embed(tokens)) * allowed.unsqueeze(-1)
        x = (x + F.relu(self._context(x))) * allowed.unsqueeze(-1)
        attended = self.rule(self._scores(x), self.null, allowed, budget)
        weights = attended.weights
        if cut:
            kept = F.pad(largest(weights[:, :-1], allowed, budget), (0, 1), value=1.0)
            weights = weights * kept / (weights * kept).sum(-1, keepdim=True).clamp(min=1e-12)
        read = weights[:, :-1].unsqueeze(1) @ self.value(x) + (weights[:, -1:] * self.null_value).unsqueeze(1)
        return self.classify(self.dropout(F.relu(read.squeeze(1)))), weights[:, :-1], attended.penalty

    def _context(self, x: Tensor) -> Tensor:
        if self.grid is None:
            return self.context(x.transpose(1, 2)).transpose(1, 2)
        return self.context(x.transpose(1, 2).unflatten(2, self.grid)).flatten(2).transpose(1, 2)

    def _scores(self, x: Tensor) -> Tensor:
        scores = self.query(x)
        if self.task.smooth == 1:
            return scores
        return F.avg_pool1d(scores.transpose(1, 2), self.task.smooth, 1, self.task.smooth // 2).transpose(1, 2)


@dataclass(frozen=True)
class Measured:
    """What a network reaches on some rows."""

    score: float
    goodness: float
    """The score, with a sign such that more is better."""
    mean_active: float
    """Tokens with a weight."""
    max_active: int
    mean_share: float
    """The same as a share of all tokens of the row."""
    max_share: float
    token_f1: float | None
    sufficiency: float | None
    comprehensiveness: float | None


def fitted(
    data: Tokens,
    task: Task,
    system: str,
    strength: float,
    seed: int,
    *,
    gate_scale: float = 1.0,
    after_epoch: Callable[[int, Measured], object] | None = None,
) -> Reader:
    """Train a network, and return it as it was after the epoch with the best validation score."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Reader(data, task, RULES[system](strength, generator, gate_scale))
        optimiser = torch.optim.Adam(model.parameters(), task.rate)
        best, kept = -float("inf"), copy.deepcopy(model.state_dict())
        for epoch in range(task.epochs):
            model.train()
            for rows in batches(data.train, task.batch, generator):
                part = data.train.take(rows)
                logits, _, penalty = model(part.tokens, part.allowed, task.budget_of(part.lengths))
                loss = F.cross_entropy(logits, part.labels) + penalty
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), CLIPPED)
                optimiser.step()
            found = measured(model, data.validation, explain=False)
            if after_epoch is not None:
                after_epoch(epoch, found)
            if found.goodness > best:
                best, kept = found.goodness, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return model.eval()


@torch.no_grad()
def measured(model: Reader, part: Part, *, cut: bool = False, explain: bool = True) -> Measured:
    """Return the score and the number of tokens used; if ``explain``, also how well they explain the decision.

    Parameters
    ----------
    model : Reader
    part : Part
    cut : bool, default=False
        Keep only the largest weights, as many as the budget has.
    explain : bool, default=True
        Measure token F1, sufficiency and comprehensiveness.

    Returns
    -------
    Measured

    """
    model.eval()
    predicted, used, shares, token_f1, sufficiency, comprehensiveness = [], [], [], [], [], []
    # Small batches where the budget is a share of the tokens of the shortest row.
    order = batches(part, SMALL_BATCH if model.task.budget < 1 else 4 * model.task.batch)
    for rows in order:
        some = part.take(rows)
        budget = model.task.budget_of(some.lengths)
        logits, weights, _ = model(some.tokens, some.allowed, budget, cut=cut)
        chosen = weights > 0
        predicted.append(logits.argmax(-1))
        used.append(chosen.sum(-1))
        shares.append(chosen.sum(-1) / some.lengths)
        if not explain:
            continue
        probability = logits.softmax(-1).gather(-1, predicted[-1].unsqueeze(-1))
        for kept, found in ((chosen, sufficiency), (some.allowed & ~chosen, comprehensiveness)):
            other = model(some.tokens, kept, budget, cut=cut)[0].softmax(-1)
            found.append((probability - other.gather(-1, predicted[-1].unsqueeze(-1))).squeeze(-1))
        if some.evidence is not None:
            token_f1.append(token_f1_of(chosen, some.evidence))
    labels = torch.cat([part.labels[rows] for rows in order])
    score, goodness = score_of(model.task.score, torch.cat(predicted), labels)
    numbers, of_lengths = torch.cat(used), torch.cat(shares)
    return Measured(
        score=score,
        goodness=goodness,
        mean_active=float(numbers.float().mean()),
        max_active=int(numbers.max()),
        mean_share=float(of_lengths.mean()),
        max_share=float(of_lengths.max()),
        token_f1=_mean(token_f1),
        sufficiency=_mean(sufficiency),
        comprehensiveness=_mean(comprehensiveness),
    )


def _mean(values: list[Tensor]) -> float | None:
    return float(torch.cat(values).float().mean()) if values else None


def token_f1_of(chosen: Tensor, evidence: Tensor) -> Tensor:
    """Return the F1 score of the chosen tokens of each row; 1 if nothing is chosen and nothing is evidence."""
    both, either = (chosen & evidence).sum(-1), chosen.sum(-1) + evidence.sum(-1)
    return torch.where(either == 0, 1.0, 2 * both / either.clamp(min=1))


def score_of(name: str, predicted: Tensor, labels: Tensor) -> tuple[float, float]:
    """Return a score, and the same such that more is better."""
    if name == "count_error":
        error = float((predicted - labels).abs().float().mean())
        return error, -error
    if name == "macro_f1":
        score = float(f1_score(labels.numpy(), predicted.numpy(), average="macro"))
    else:
        score = float((predicted == labels).float().mean())
    return score, score
