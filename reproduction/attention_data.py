"""Texts and pictures as tokens, for `python -m reproduction attention`."""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from reproduction.telemetry_data import data_file
from sdlgm.data import scattered_digits

PADDING, UNKNOWN = 0, 1
MIN_OCCURRENCES = 2
"""Words that occur less often in training are unknown."""
PATCH = 7
"""Side of a patch of a picture, in pixels."""
N_PICTURES = {"train": 5_000, "validation": 1_000, "test": 2_000}
LARGEST_COUNT = 5


@dataclass(frozen=True)
class Part:
    """Rows of tokens, padded to the same length."""

    tokens: Tensor
    """(rows, length) numbers of words, or (rows, length, pixels) of patches."""
    allowed: Tensor
    """(rows, length): False for padding."""
    labels: Tensor
    evidence: Tensor | None = None
    """(rows, length): True for tokens that people named as the reason of the label."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each row."""
        return self.allowed.sum(-1)

    def take(self, rows: Tensor) -> "Part":
        """Return some rows, without padding that none of them needs."""
        length = int(self.lengths[rows].max())
        evidence = None if self.evidence is None else self.evidence[rows, :length]
        return Part(self.tokens[rows, :length], self.allowed[rows, :length], self.labels[rows], evidence)


@dataclass(frozen=True)
class Tokens:
    """A data set."""

    train: Part
    validation: Part
    test: Part
    n_classes: int
    n_words: int | None = None
    """Size of the vocabulary; None for pictures."""
    grid: tuple[int, int] | None = None
    """Rows and columns of the patches of a picture."""


@cache
def load_tokens(name: str) -> Tokens:
    """Return a data set: ``"sst2"``, ``"movies"`` or ``"digits"``."""
    return {"sst2": _sentences, "movies": _reviews, "digits": _pictures}[name]()


def _sentences() -> Tokens:
    parts = []
    for file in ("train", "dev", "test"):
        lines = _text("sst2", f"{file}.txt").splitlines()
        pairs = [line.split(maxsplit=1) for line in lines if line.strip()]
        parts.append(([text.split() for _, text in pairs], [int(label) for label, _ in pairs], None))
    return _of_texts(parts)


def _reviews() -> Tokens:
    parts = []
    for file in ("train", "val", "test"):
        rows = [json.loads(line) for line in _text("movies", f"{file}.jsonl").splitlines()]
        labels = [int(row["label"] == "POS") for row in rows]
        parts.append(([row["text"].split() for row in rows], labels, [row["evidence"] for row in rows]))
    return _of_texts(parts)


def _text(folder: str, file: str) -> str:
    with gzip.open(data_file("text", folder, f"{file}.gz"), "rt", encoding="utf-8") as stream:
        return stream.read()


def _of_texts(parts: Iterable[tuple[list[list[str]], list[int], list[list[list[int]]] | None]]) -> Tokens:
    parts = list(parts)
    vocabulary = vocabulary_of(parts[0][0])
    train, validation, test = (part_of_texts(*part, vocabulary) for part in parts)
    return Tokens(train, validation, test, n_classes=2, n_words=len(vocabulary) + 2)


def vocabulary_of(texts: Sequence[Sequence[str]]) -> dict[str, int]:
    """Number the words that occur often enough."""
    counts = Counter(word for text in texts for word in text)
    words = sorted(word for word, count in counts.items() if count >= MIN_OCCURRENCES)
    return {word: UNKNOWN + 1 + number for number, word in enumerate(words)}


def part_of_texts(
    texts: Sequence[Sequence[str]],
    labels: Sequence[int],
    spans: Sequence[Sequence[Sequence[int]]] | None,
    vocabulary: Mapping[str, int],
) -> Part:
    """Return texts as numbers of words, and evidence as a mask from its spans (begin, end)."""
    shape = (len(texts), max(len(text) for text in texts))
    tokens, evidence = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor([vocabulary.get(word, UNKNOWN) for word in text])
        for begin, end in spans[row] if spans is not None else ():
            evidence[row, begin:end] = True
    return Part(tokens, tokens != PADDING, torch.tensor(labels), None if spans is None else evidence)


def _pictures() -> Tokens:
    # Pictures for training and for validation are made of the training digits, with two seeds.
    sources = {"train": ("train", 0), "validation": ("train", 1), "test": ("test", 0)}
    parts, grid = [], None
    for name, (split, seed) in sources.items():
        made = scattered_digits(split, N_PICTURES[name], n_digits=LARGEST_COUNT, random_state=seed)
        patches, grid = patches_of(np.asarray(made.X))
        counts = torch.as_tensor(np.asarray(made.counts)).sum(-1)
        parts.append(Part(patches, torch.ones(patches.shape[:2], dtype=torch.bool), counts))
    return Tokens(*parts, n_classes=LARGEST_COUNT + 1, grid=grid)


def patches_of(pictures: np.ndarray) -> tuple[Tensor, tuple[int, int]]:
    """Cut pictures (rows, height, width) into patches (rows, patches, pixels), row by row."""
    n, height, width = pictures.shape
    grid = (height // PATCH, width // PATCH)
    cut = pictures.reshape(n, grid[0], PATCH, grid[1], PATCH).transpose(0, 1, 3, 2, 4)
    return torch.from_numpy(np.ascontiguousarray(cut.reshape(n, -1, PATCH * PATCH), np.float32)), grid


def batches(part: Part, size: int, generator: torch.Generator | None = None) -> list[Tensor]:
    """Return the rows of each batch: rows of about the same length, in random order if there is a generator."""
    lengths = part.lengths.float()
    if generator is None:
        return list(lengths.argsort(stable=True).split(size))
    # A tenth of noise, so that rows meet other rows in each epoch.
    noisy = lengths * (1 + 0.1 * torch.rand(len(part), generator=generator))
    found = noisy.argsort().split(size)
    return [found[place] for place in torch.randperm(len(found), generator=generator).tolist()]
