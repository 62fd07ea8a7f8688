"""Use codes as features of a classifier, and choose the budget by cross-validation."""

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sdlgm import SDLGM
from sdlgm.data import load_data

train, test = load_data("digits:train"), load_data("digits:test")
codes = SDLGM(n_components=64, hidden=(128,), likelihood="gaussian", max_iter=250, random_state=0)
pipeline = make_pipeline(codes, LogisticRegression(max_iter=1000))
search = GridSearchCV(pipeline, {"sdlgm__max_active": [4, 16]}, cv=3)
search.fit(train.X, train.labels)
print("chosen by cross-validation:", search.best_params_)
print(f"accuracy on the test digits: {search.score(test.X, test.labels):.3f}")
