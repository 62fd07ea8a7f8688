"""Learn from measurements that arrive in chunks, and encode new ones within a budget."""

import numpy as np

from sdlgm import SDLGM

rng = np.random.default_rng(0)
patterns = rng.normal(size=(6, 20))


def chunk(n: int = 500) -> np.ndarray:
    """Draw rows of twenty sensors: a sum of six patterns, each present with probability 1/4, plus noise."""
    present = rng.random((n, 6)) < 0.25
    return present @ patterns + 0.1 * rng.normal(size=(n, 20))


model = SDLGM(n_components=32, max_active=8, hidden=(64,), max_iter=1000, random_state=0)
for _ in range(200):
    model.partial_fit(chunk())

new = chunk()
codes = model.transform(new)
explained = 1 - np.square(model.inverse_transform(codes) - new).sum() / np.square(new - new.mean(axis=0)).sum()
print(f"{codes.nnz / codes.shape[0]:.1f} active features per row on average, never more than {model.max_active}")
print(f"variance explained: {explained:.2f}")
