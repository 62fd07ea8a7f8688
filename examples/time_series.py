"""Encode windows of two machines' measurements, and put the decoded windows together again."""

import numpy as np
import pandas as pd

from sdlgm import SDLGM
from sdlgm.data import windows

rng = np.random.default_rng(0)
minutes = np.arange(2000)
parts = []
for machine, period in (("a", 60), ("b", 90)):
    busy = (minutes % period < period / 3).astype(float)
    part = pd.DataFrame({"time": pd.Timestamp("2026-01-01") + pd.to_timedelta(minutes, "min"), "machine": machine})
    part["load"] = busy + 0.1 * rng.normal(size=len(minutes))
    part["memory"] = 4 * np.convolve(busy, np.ones(10) / 10, "same") + 0.1 * rng.normal(size=len(minutes))
    parts.append(part)
table = pd.concat(parts, ignore_index=True)

made = windows(table, length=12, stride=4, time_column="time", group="machine")
model = SDLGM(n_components=32, max_active=8, hidden=(64,), likelihood="gaussian", max_iter=1000, random_state=0)
codes = model.fit(made).transform(table)  # the model cuts tables as at fit
decoded = made.inverse(model.inverse_transform(codes))

measured = table.merge(decoded, on=["machine", "time"], suffixes=("", "_decoded"))
print(f"{len(made)} windows of {made.shape[1]} values, {codes.nnz / codes.shape[0]:.1f} active features on average")
for column in ("load", "memory"):
    error = np.square(measured[column] - measured[f"{column}_decoded"]).mean() / measured[column].var()
    print(f"{column}: variance explained {1 - error:.2f}")
