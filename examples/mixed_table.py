"""Model a table with columns of several kinds and with missing values, and fill the holes."""

import numpy as np

from sdlgm import SDLGM

rng = np.random.default_rng(0)
kind = rng.integers(0, 3, 1500)  # three kinds of customers, which the model is not told
table = np.column_stack(
    [
        rng.normal(np.array([20.0, 45.0, 70.0])[kind], 4.0),  # age
        rng.poisson(np.array([0.5, 6.0, 2.0])[kind]),  # visits
        np.where(rng.random(1500) < 0.9, kind, 0),  # favourite colour, one of three
        rng.random(1500) < np.array([0.1, 0.9, 0.5])[kind],  # member or not
    ]
)
holes = np.where(rng.random(table.shape) < 0.15, np.nan, table)

model = SDLGM(
    n_components=8, max_active=3, hidden=(32,), max_iter=600, random_state=0, likelihood={2: "categorical"}
).fit(holes)
print(f"likelihoods: {', '.join(model.likelihoods_)}")

filled = model.inverse_transform(model.transform(holes))
missing = np.isnan(holes)
age, colour = missing[:, 0], missing[:, 2]
error = np.square(filled[age, 0] - table[age, 0]).mean() / table[:, 0].var()
right = (filled[colour, 2] == table[colour, 2]).mean()
print(f"missing ages: {error:.2f} of the variance is left; missing colours: {right:.0%} are right")
