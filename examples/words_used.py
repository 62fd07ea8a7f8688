"""Classify short reviews, and write a page that shows the words each decision used.

The reviews are made: a sentence of neutral words with up to three opinions in it, and the label says whether they are
good, bad or none. The classifier reads the review with one query that attends to at most three words. It uses more
words where there are opinions, and none where there are none. The page is words_used.html.
"""

from pathlib import Path

import torch
from torch import nn

from sdlgm.nn import SparseAttention

NEUTRAL = "the a we our table room staff food soup bread wine was were came had with and on at after before"
BAD, GOOD = "awful bland cold rude dirty stale", "great tasty warm kind fresh lovely"
NEUTRAL, OPINIONS = NEUTRAL.split(), [BAD.split(), [], GOOD.split()]
WORDS = [*NEUTRAL, *OPINIONS[0], *OPINIONS[2]]
torch.manual_seed(0)


def reviews(n: int, length: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw reviews, as the numbers of their words, and whether they are bad (0), neutral (1) or good (2)."""
    words, labels = torch.randint(len(NEUTRAL), (n, length)), torch.randint(3, (n,))
    for row, label in enumerate(labels.tolist()):
        if OPINIONS[label]:
            places = torch.randperm(length)[: 1 + row % 3]
            words[row, places] = WORDS.index(OPINIONS[label][0]) + torch.randint(6, (len(places),))
    return words, labels


class Classifier(nn.Module):
    def __init__(self, width: int = 16):
        super().__init__()
        self.embed, self.query = nn.Embedding(len(WORDS), width), nn.Parameter(torch.randn(1, width))
        self.attention = SparseAttention(width, num_heads=1, max_active=3, prior_active=1.0, batch_first=True)
        self.classify = nn.Linear(width, 3)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embed(words)
        read, weights = self.attention(self.query.expand(len(x), 1, -1), x, x)
        return self.classify(read[:, 0]), weights[:, 0]


model = Classifier()
optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(1000):
    words, labels = reviews(64)
    loss = nn.functional.cross_entropy(model(words)[0], labels)
    assert model.attention.kl is not None
    loss = loss + 0.003 * model.attention.kl.mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

words, labels = reviews(300)
with torch.no_grad():
    logits, weights = model.eval()(words)
used, predicted = (weights > 0).sum(-1), logits.argmax(-1)
print(f"accuracy {(predicted == labels).float().mean():.2f}; at most {used.max()} of {words.shape[1]} words used")
for label, name in enumerate(["bad", "neutral", "good"]):
    print(f"{name}: {used[labels == label].float().mean():.2f} words on average")

COLOURS = ["232, 119, 34", "128, 128, 128", "31, 119, 180"]
lines = []
for review, weight, label in zip(words[:20].tolist(), weights, predicted.tolist(), strict=False):
    pairs = zip(review, weight.tolist(), strict=True)
    marks = [f'<span style="background: rgba({COLOURS[label]}, {w:.2f})">{WORDS[k]}</span>' for k, w in pairs]
    lines.append(f"<p><b>{['bad', 'neutral', 'good'][label]}</b>: {' '.join(marks)}</p>")
title = "<!doctype html><meta charset=utf-8><title>Words used</title>"
Path("words_used.html").write_text("\n".join([title, *lines]), encoding="utf-8")
print("wrote words_used.html")
