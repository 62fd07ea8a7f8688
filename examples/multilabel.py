"""Predict labels by name and how many there are, and draw rows with given labels."""

import numpy as np

from sdlgm import SDLGMClassifier

rng = np.random.default_rng(0)
instruments = np.array(["drums", "flute", "guitar", "piano"])
sounds = rng.normal(size=(4, 12))


def recordings(n: int) -> tuple[np.ndarray, list[set[str]]]:
    """Draw twelve frequency bands of n recordings with up to three instruments each."""
    playing = rng.random((n, 4)) < [0.5, 0.1, 0.4, 0.3]
    playing[playing.sum(axis=1) > 3, 0] = False
    return playing @ sounds + 0.5 * rng.normal(size=(n, 12)), [set(instruments[row].tolist()) for row in playing]


X, labels = recordings(400)
X_new, labels_new = recordings(100)

model = SDLGMClassifier(variant="gen", threshold="cv", reconstruction_weight=0.1, random_state=0).fit(X, labels)
numbers = model.predict_sparsity(X_new)
print(f"micro F1 {model.score(X_new, labels_new):.2f} at threshold {model.threshold_:.2f}")
for row in range(3):
    print(sorted(labels_new[row]), "predicted:", model.predict_labels(X_new[row : row + 1])[0], end=" ")
    print(f"expected number: {numbers.mean[row]:.1f}")

flute = model.sample([{"flute"}] * 200, random_state=0).mean(axis=0)
print(f"drawn and true bands of a flute alone: correlation {np.corrcoef(flute, sounds[1])[0, 1]:.2f}")
