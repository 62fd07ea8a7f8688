"""Codes of some columns of a table beside others: ColumnTransformer, sparse data frames, weights of rows."""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sdlgm import SDLGM

rng = np.random.default_rng(0)
N = 1200
causes = rng.random((N, 3)) < [0.3, 0.4, 0.2]  # what goes on in a machine: three things that its sensors show
sensors = causes @ rng.normal(size=(3, 8)) + 0.1 * rng.normal(size=(N, 8))
table = pd.DataFrame(sensors, columns=[f"sensor{i}" for i in range(8)])
table["site"] = rng.choice(["north", "south"], N)
fails = (causes[:, 0] ^ causes[:, 1]) & (table["site"] == "north").to_numpy()  # no sum of columns says this

codes = SDLGM(n_components=16, max_active=6, hidden=(64,), max_iter=600, random_state=0)
columns = ColumnTransformer(
    [
        ("codes", codes, [f"sensor{i}" for i in range(8)]),
        ("site", OneHotEncoder(), ["site"]),
    ]
)
model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(table[:800], fails[:800])
print(f"accuracy from codes and the site: {model.score(table[800:], fails[800:]):.2f}")

codes.set_output(transform="pandas").fit(table.filter(like="sensor"), sample_weight=np.where(fails, 2.0, 1.0))
frame = pd.DataFrame(codes.transform(table.filter(like="sensor")))
print(f"a data frame with sparse columns, {frame.sparse.density:.0%} of its entries stored")
strongest = np.abs(codes.components_ / sensors.std(axis=0)).max(axis=1).argsort()[-3:]
for feature in strongest:
    print(f"feature {feature} draws", codes.components_[feature].round(1))
