"""Figures of a fitted model. Each function returns a matplotlib figure and uses only public methods of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdlgm._optional import optional_import
from sdlgm.data import Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sdlgm import SDLGM

BLUE, ORANGE, GREY = "#2f6f9f", "#d9722b", "#8a8f98"
GREYS, CHANGES = "gray_r", "RdBu_r"
MAP_ROWS = 2000
MAP_ITERATIONS = 500
MIN_DISTINCT_CODES = 5
ATLAS_FEATURES = 48
ATLAS_ROWS = 50
MAX_NAMED_COLUMNS = 30
PRIOR_DRAWS = 2000


@dataclass(frozen=True)
class Codes:
    """Codes that several figures show."""

    best: sp.csr_matrix
    """Codes from ``transform``."""
    drawn: sp.csr_matrix
    """Codes from ``sample_codes``."""
    budget: int
    """Largest number of active slots."""
    random_state: int

    @classmethod
    def of(cls, model: SDLGM, data: Dataset, budget: int, random_state: int) -> Codes:
        """Encode all observations."""
        drawn = model.sample_codes(data.table, random_state=random_state)
        return cls(model.transform(data.table), drawn, budget, random_state)


def reconstructions(model: SDLGM, data: Dataset, codes: sp.csr_matrix, n: int = 12) -> Figure:
    """Plot observations and their reconstructions from codes."""
    rows = evenly_spaced(codes.shape[0], n if data.image_shape else n // 2)
    original = dense(data.X[rows])
    decoded = model.inverse_transform(codes[rows], encoded=True)
    if data.image_shape is None:
        return _line_plots(original, decoded, rows, data)
    figure = new_figure(n * 0.75, 1.5)
    axes = figure.subplots(2, len(rows), squeeze=False)
    picture_row(axes[0], original, data, "original")
    picture_row(axes[1], decoded, data, "reconstruction")
    return figure


def reading_a_code(model: SDLGM, data: Dataset, codes: sp.csr_matrix, n: int = 3, max_features: int = 10) -> Figure:
    """Plot images, the effect of each feature in their codes, and their reconstructions."""
    shape = _image_shape(data)
    features_per_row = np.diff(codes.indptr)
    candidates = np.flatnonzero((features_per_row > 0) & (features_per_row <= max_features))
    rows = candidates[evenly_spaced(len(candidates), n)] if len(candidates) else evenly_spaced(codes.shape[0], n)
    width = int(min(max(features_per_row[rows].max(), 1), max_features))
    figure = new_figure((width + 2) * 0.95, n * 1.15)
    axes = figure.subplots(len(rows), width + 2, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        code = codes[[row]]
        features = code.indices[np.argsort(-code.data, kind="stable")][:max_features]
        effects = [_feature_effect(model, code, int(feature))[0] for feature in features]
        limit = max(float(np.abs(effects).max(initial=0)), 1e-9)
        _show_image(line[0], dense(data.X[[row]])[0], data)
        for position, axis in enumerate(line[1:-1]):
            if position < len(features):
                axis.imshow(effects[position].reshape(shape), cmap=CHANGES, vmin=-limit, vmax=limit)
                count = int(code[0, features[position]])
                axis.set_title(f"{features[position]}" + (f" × {count}" if count > 1 else ""), fontsize=7, pad=2)
                _hide_ticks(axis)
            else:
                axis.axis("off")
        _show_image(line[-1], model.inverse_transform(code, encoded=True)[0], data)
    axes[0, 0].set_title("original", fontsize=8)
    axes[0, -1].set_title("reconstruction", fontsize=8)
    return figure


def sparsity(model: SDLGM, data: Dataset, codes: sp.csr_matrix, drawn: sp.csr_matrix, budget: int) -> Figure:
    """Plot the distribution of the number of active slots and of the gate logits (Fig. "sparse" of Xu et al., 2021).

    Parameters
    ----------
    model : SDLGM
        Fitted model.
    data : Dataset
        Observations.
    codes, drawn : csr_matrix
        Their codes from ``transform`` and from ``sample_codes``.
    budget : int
        Largest number of active slots.

    """
    figure = new_figure(9, 3)
    left, right = figure.subplots(1, 2)
    values = np.arange(budget + 1)
    bars = ((drawn, "sampled codes", BLUE, -0.22), (codes, "codes from transform", ORANGE, 0.22))
    for matrix, name, colour, offset in bars:
        fraction = np.bincount(_n_active(matrix), minlength=budget + 1) / matrix.shape[0]
        left.bar(values + offset, fraction, width=0.44, color=colour, alpha=0.8, label=name)
    left.plot(values, _prior_of_number(model, budget), color="black", lw=1, label="prior")
    left.set_ylim(top=1.3 * left.get_ylim()[1])  # space for the legend
    left.axvline(budget, color=GREY, ls="--", lw=1, label="budget")
    left.set(xlabel="number of active slots $L_i$", ylabel="fraction of observations", xlim=(-1, budget + 1))
    left.legend(frameon=False, fontsize=7, ncols=2)
    gate_prob = np.clip(model.posterior_probs(data.table).gate_prob.astype(np.float64), 1e-7, 1 - 1e-7)
    right.hist(np.log(gate_prob) - np.log1p(-gate_prob), bins=40, color=BLUE, alpha=0.8, label="posterior")
    prior_logit = np.log(model.gate_prior_) - np.log1p(-model.gate_prior_)
    right.axvline(prior_logit, color="black", lw=1, label="prior")
    right.set(xlabel="gate logit", ylabel="number of observations")
    right.legend(frameon=False, fontsize=7)
    return figure


def _prior_of_number(model: SDLGM, budget: int) -> np.ndarray:
    """Return the prior distribution of the number of active slots; that of a chain is estimated from draws."""
    from scipy.stats import binom

    if model.module_.config.prior == "slots":
        return binom.pmf(np.arange(budget + 1), budget, model.gate_prior_)
    codes = model.sample_prior_codes(PRIOR_DRAWS, random_state=0)
    return np.bincount(_n_active(codes), minlength=budget + 1) / PRIOR_DRAWS


def code_map(data: Dataset, codes: sp.csr_matrix, random_state: int = 0, max_rows: int = MAP_ROWS) -> Figure:
    """Plot a t-SNE embedding of codes, coloured by label or, without labels, by the number of active slots."""
    from sklearn.manifold import TSNE

    rows = evenly_spaced(codes.shape[0], max_rows)
    points = np.asarray(codes[rows].toarray(), dtype=np.float32)
    if len(np.unique(points, axis=0)) < MIN_DISTINCT_CODES:
        return _text_figure(f"No map: fewer than {MIN_DISTINCT_CODES} different codes.")
    perplexity = min(30.0, max(2.0, (len(rows) - 1) / 4))
    # From the principal components, half of the usual iterations and coarse forces lead to maps whose neighbours have
    # the same labels as often as with all iterations and fine forces, in a third of the time.
    places = TSNE(
        perplexity=perplexity,
        init="pca" if points.shape[1] > 1 else "random",
        max_iter=MAP_ITERATIONS,
        angle=0.8,
        random_state=random_state,
    ).fit_transform(points)
    size = float(np.clip(12_000 / len(rows), 6, 24))
    figure = new_figure(6.4, 5.4)
    axis = figure.subplots()
    if data.labels is not None:
        from matplotlib import colormaps

        names, numbers = np.unique(data.labels[rows], return_inverse=True)
        palette = "tab10" if len(names) <= 10 else "turbo"
        colours = colormaps[palette](numbers if palette == "tab10" else numbers / (len(names) - 1))
        axis.scatter(*places.T, c=colours, s=size, linewidths=0)
        if len(names) <= 20:
            for i, name in enumerate(names):
                axis.scatter([], [], color=colours[np.argmax(numbers == i)], s=20, label=str(name))
            figure.legend(loc="outside right upper", frameon=False, fontsize=8, title="label", title_fontsize=8)
    else:
        points_drawn = axis.scatter(*places.T, c=_n_active(codes[rows]), s=size, cmap="viridis", linewidths=0)
        figure.colorbar(points_drawn, ax=axis, label="number of active slots")
    axis.set(xticks=[], yticks=[], xlabel="t-SNE dimension 1", ylabel="t-SNE dimension 2")
    return figure


def feature_atlas(model: SDLGM, data: Dataset, codes: sp.csr_matrix) -> Figure:
    """Plot the mean effect of the most used features on the reconstructions of the codes that contain them."""
    present = np.asarray((codes > 0).sum(axis=0)).ravel()
    features = [int(k) for k in np.argsort(-present, kind="stable")[:ATLAS_FEATURES] if present[k] > 0]
    columns = codes.tocsc()
    effects = []
    for feature in features:
        rows = np.sort(columns.indices[columns.indptr[feature] : columns.indptr[feature + 1]])
        rows = rows[evenly_spaced(len(rows), ATLAS_ROWS)]
        effects.append(_feature_effect(model, codes[rows], feature).mean(0))
    if data.image_shape is None:
        return _effect_heatmap(features, effects, data)
    n_columns = 12
    n_lines = max(1, -(-len(features) // n_columns))
    figure = new_figure(n_columns * 0.8, n_lines * 0.95)
    axes = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for axis in axes[len(features) :]:
        axis.axis("off")
    for axis, feature, effect in zip(axes, features, effects, strict=False):
        limit = max(float(np.abs(effect).max()), 1e-9)
        axis.imshow(effect.reshape(data.image_shape), cmap=CHANGES, vmin=-limit, vmax=limit)
        axis.set_title(str(feature), fontsize=7, pad=2)
        _hide_ticks(axis)
    return figure


def usage(codes: sp.csr_matrix, drawn: sp.csr_matrix) -> Figure:
    """Plot the fraction of observations that contain each feature, in decreasing order."""
    figure = new_figure(9, 2.6)
    axis = figure.subplots()
    for matrix, name, colour in ((drawn, "sampled codes", BLUE), (codes, "codes from transform", ORANGE)):
        fraction = np.sort(np.asarray((matrix > 0).sum(axis=0)).ravel() / matrix.shape[0])[::-1]
        axis.plot(np.arange(1, len(fraction) + 1), fraction, color=colour, drawstyle="steps-mid", label=name)
    unused = int(np.count_nonzero(np.asarray(codes.sum(axis=0)) == 0))
    axis.set(
        xlabel=f"rank of the feature ({unused} of {codes.shape[1]} features unused by transform)",
        ylabel="fraction of observations",
        xlim=(0, codes.shape[1] + 1),
        ylim=(0, None),
    )
    axis.legend(frameon=False, fontsize=7)
    return figure


def training_curves(model: SDLGM, budget: int) -> Figure:
    """Plot both criteria, the KL, the number of active slots and the number of used features during training."""
    history = model.history_
    iterations = [record.iteration for record in history]
    counted = [record for record in history if record.features_used is not None]  # early model files lack it
    figure = new_figure(9, 2.8)
    bounds, rate, active, *further = figure.subplots(1, 4 if counted else 3)
    bounds.plot(iterations, [-record.discrete for record in history], color=BLUE, label="discrete (a bound)")
    bounds.plot(iterations, [-record.relaxed for record in history], color=GREY, ls="--", label="relaxed (no bound)")
    bounds.set(ylabel="negative ELBO (nats)", xlabel="iteration")
    bounds.legend(frameon=False, fontsize=7)
    rate.plot(iterations, [record.kl for record in history], color=BLUE)
    rate.set(ylabel="KL (nats)", xlabel="iteration", ylim=(0, None))
    active.plot(iterations, [record.n_active for record in history], color=BLUE)
    active.axhline(budget, color=GREY, ls="--", lw=1, label="budget")
    active.set(ylabel="expected active slots", xlabel="iteration", ylim=(0, budget * 1.15))
    active.legend(frameon=False, fontsize=7, loc="lower right")
    for used in further:
        used.plot([record.iteration for record in counted], [record.features_used for record in counted], color=BLUE)
        used.set(ylabel="features in use", xlabel="iteration", ylim=(0, None))
    return figure


def picture_row(axes: Sequence[Axes] | np.ndarray, images: np.ndarray, data: Dataset, label: str) -> None:
    """Show one image on each of the axes, with a label on the left."""
    for axis, image in zip(axes, images, strict=True):
        _show_image(axis, image, data)
    axes[0].set_ylabel(label, fontsize=8, rotation=0, ha="right", va="center")


def dense(rows: np.ndarray | sp.csr_matrix | sp.csr_array) -> np.ndarray:
    """Return rows as a dense array."""
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, without a window."""
    return optional_import("matplotlib.figure", "report").Figure(figsize=(width, height), layout="constrained")


def _text_figure(text: str) -> Figure:
    figure = new_figure(6.4, 1.2)
    axis = figure.subplots()
    axis.text(0.5, 0.5, text, ha="center", va="center")
    axis.axis("off")
    return figure


def _line_plots(original: np.ndarray, decoded: np.ndarray, rows: np.ndarray, data: Dataset) -> Figure:
    n = len(rows)
    figure = new_figure(9, n * 1.1)
    axes = figure.subplots(n, 1, sharex=True, squeeze=False)[:, 0]
    for i, axis in enumerate(axes):
        axis.plot(original[i], color="black", lw=1, label="original")
        axis.plot(decoded[i], color=ORANGE, lw=1, label="reconstruction")
        axis.set_ylabel(f"row {rows[i]}", fontsize=7)
    axes[0].legend(frameon=False, fontsize=7, ncols=2)
    _label_columns(axes[-1], data)
    return figure


def _label_columns(axis: Axes, data: Dataset) -> None:
    """Label the x axis with the names of the columns, or with their numbers if there are too many."""
    axis.set_xlabel("column of the data")
    if data.feature_names is not None and len(data.feature_names) <= MAX_NAMED_COLUMNS:
        axis.set_xticks(range(len(data.feature_names)), data.feature_names, rotation=45, ha="right", fontsize=7)
    else:
        from matplotlib.ticker import MaxNLocator

        axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _effect_heatmap(features: list[int], effects: list[np.ndarray], data: Dataset) -> Figure:
    figure = new_figure(9, 1 + 0.12 * max(len(features), 4))
    axis = figure.subplots()
    matrix = np.array(effects) if effects else np.zeros((1, data.X.shape[1]))
    matrix = matrix / np.maximum(np.abs(matrix).max(axis=0), 1e-12)
    image = axis.imshow(matrix, cmap=CHANGES, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axis.set(ylabel="feature", yticks=range(len(features)))
    _label_columns(axis, data)
    axis.set_yticklabels([str(feature) for feature in features], fontsize=6)
    figure.colorbar(image, ax=axis, label="relative change")
    return figure


def _feature_effect(model: SDLGM, codes: sp.csr_matrix, feature: int) -> np.ndarray:
    """Return the difference between the reconstructions of codes with and without a feature."""
    without = codes.copy()
    without.data[without.indices == feature] = 0
    without.eliminate_zeros()
    return model.inverse_transform(codes, encoded=True) - model.inverse_transform(without, encoded=True)


def evenly_spaced(n: int, wanted: int) -> np.ndarray:
    """Return up to ``wanted`` row numbers, evenly spaced over n rows."""
    return np.unique(np.linspace(0, n - 1, min(n, wanted)).astype(int)) if n else np.array([], dtype=int)


def _n_active(codes: sp.csr_matrix) -> np.ndarray:
    return np.asarray(codes.sum(axis=1)).ravel().astype(int)


def _image_shape(data: Dataset) -> tuple[int, int]:
    if data.image_shape is None:
        raise ValueError("this figure needs image data, but data.image_shape is None")
    return data.image_shape


def _show_image(axis: Axes, row: np.ndarray, data: Dataset) -> None:
    axis.imshow(row.reshape(_image_shape(data)), cmap=GREYS, vmin=min(0.0, data.X.min()), vmax=data.X.max())
    _hide_ticks(axis)


def _hide_ticks(axis: Axes) -> None:
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set(linewidth=0.4, color=GREY)
