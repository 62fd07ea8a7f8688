"""Count the items in a shopping basket from eight measurements.

The data are synthetic. A customer takes up to eight items of six kinds and prefers some kinds. Each measurement
(weight, volume, price, five sensors) is the sum over the items in the basket, with 5 % noise. No single measurement
identifies the items; all eight together do.
"""

import numpy as np

from sdlgm import SDLGMCounter

ITEMS = ["apples", "bread", "cheese", "juice", "milk", "rice"]
BUDGET = 8

rng = np.random.default_rng(0)
item_values = rng.lognormal(size=(len(ITEMS), 8))  # measurements of one item of each kind


def baskets(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the measurements and counts of n baskets."""
    preferences = rng.dirichlet(np.full(len(ITEMS), 0.7), size=n)
    counts = np.stack([rng.multinomial(rng.integers(BUDGET + 1), probs) for probs in preferences])
    noise = rng.normal(scale=0.05, size=(n, len(ITEMS), item_values.shape[1]))
    return (counts[..., None] * item_values * (1 + noise)).sum(axis=1), counts


X, counts = baskets(4000)
X_test, counts_test = baskets(1000)

model = SDLGMCounter(max_active=BUDGET, hidden=(256, 128), dropout=0.0, max_iter=2000, random_state=0).fit(X, counts)
result = model.evaluate(X_test, counts_test)
print(f"all counts correct: {result.exact_match:.0%} of baskets; mean squared error: {result.mse_rounded:.3f}")

for true, predicted in zip(counts_test[:3], model.predict(X_test[:3]), strict=True):
    named = ({item: int(n) for item, n in zip(ITEMS, row, strict=True) if n} for row in (true, predicted))
    print("true {}, predicted {}".format(*named))

expected = model.predict_mean(X_test[1:2])[0]
print("expected in the second basket:", ", ".join(f"{item} {n:.1f}" for item, n in zip(ITEMS, expected, strict=True)))
