"""Fit, encode and decode handwritten digits, and print one code."""

import numpy as np
from sklearn.metrics import mean_squared_error

from sdlgm import SDLGM
from sdlgm.data import load_data

train, test = np.asarray(load_data("digits:train").X), np.asarray(load_data("digits:test").X)
model = SDLGM(n_components=64, max_active=16, hidden=(128,), likelihood="gaussian", max_iter=1000)
model.set_params(random_state=0).fit(train)

codes = model.transform(test)
print(f"{codes.shape[0]} codes, at most {codes.sum(axis=1).max()} of {model.max_active} slots active")
first = codes[[0]]
print("the first code:", dict(zip(first.indices.tolist(), first.data.tolist(), strict=True)))
print(f"mean squared error of the decoded digits: {mean_squared_error(test, model.inverse_transform(codes)):.4f}")
print(f"mean squared error of the mean digit: {test.var(axis=0).mean():.4f}")
print(f"discrete bound: {model.score(test):.1f} nats")
