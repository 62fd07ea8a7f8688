"""What is in a shopping basket, and how many of each, from what scales and shelves can tell.

The baskets are made here. A customer takes up to eight things out of six kinds, and likes some kinds more than others.
What is measured is the sum over the things in the basket of their weight, volume, price and of five sensors of the
shelf, each with noise of 5 %. No single measurement says what is there; all together do.
"""

import numpy as np

from sdlgm import SDLGMCounter

ITEMS = ["apples", "bread", "cheese", "juice", "milk", "rice"]
BUDGET = 8

rng = np.random.default_rng(0)
of_items = rng.lognormal(size=(len(ITEMS), 8))


def baskets(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Measurements and counts of n baskets."""
    taste = rng.dirichlet(np.full(len(ITEMS), 0.7), size=n)
    counts = np.stack([rng.multinomial(rng.integers(BUDGET + 1), liked) for liked in taste])
    noise = rng.normal(scale=0.05, size=(n, len(ITEMS), of_items.shape[1]))
    return (counts[..., None] * of_items * (1 + noise)).sum(axis=1), counts


X, counts = baskets(4000)
X_test, counts_test = baskets(1000)

model = SDLGMCounter(max_active=BUDGET, hidden=(256, 128), dropout=0.0, max_iter=2000, random_state=0).fit(X, counts)
result = model.evaluate(X_test, counts_test)
print(f"baskets with every count right: {result.exact_match:.0%}; squared error {result.mse_rounded:.3f} a kind")

for true, predicted in zip(counts_test[:3], model.predict(X_test[:3]), strict=True):
    named = ({item: int(n) for item, n in zip(ITEMS, row, strict=True) if n} for row in (true, predicted))
    print("true {}, predicted {}".format(*named))

expected = model.predict_mean(X_test[1:2])[0]
print("expected in the second basket:", ", ".join(f"{item} {n:.1f}" for item, n in zip(ITEMS, expected, strict=True)))
