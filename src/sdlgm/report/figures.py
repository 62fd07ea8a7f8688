"""The pictures of a fitted model. Each function returns a matplotlib figure and knows only the model's public face."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom

from sdlgm.data import Dataset

BLUE, ORANGE, GREY = "#2f6f9f", "#d9722b", "#8a8f98"
GREYS, CHANGES = "gray_r", "RdBu_r"
MAP_ROWS = 2000
MIN_DISTINCT_CODES = 5
ATLAS_FEATURES = 48
ATLAS_ROWS = 50


def reconstructions(model: Any, data: Dataset, codes: sp.csr_matrix, n: int = 12) -> Figure:
    """Observations above what their codes decode to."""
    rows = _spread(codes.shape[0], n if data.image_shape else n // 2)
    original = dense(data.X[rows])
    decoded = model.inverse_transform(codes[rows])
    if data.image_shape is None:
        return _traces(original, decoded, rows, data)
    figure = Figure(figsize=(n * 0.75, 1.9), layout="constrained")
    axes = figure.subplots(2, len(rows), squeeze=False)
    for column in range(len(rows)):
        for axis, row in zip(axes[:, column], (original[column], decoded[column]), strict=True):
            _picture(axis, row, data)
    _label_row(axes[0, 0], "original")
    _label_row(axes[1, 0], "from its code")
    return figure


def reading_a_code(model: Any, data: Dataset, codes: sp.csr_matrix, n: int = 3, max_features: int = 10) -> Figure:
    """Some observations, what each active feature adds to them, and the reconstruction. For pictures only."""
    shape = _image_shape(data)
    features_per_row = np.diff(codes.indptr)
    fitting = np.flatnonzero((features_per_row > 0) & (features_per_row <= max_features))
    rows = fitting[_spread(len(fitting), n)] if len(fitting) else _spread(codes.shape[0], n)
    width = int(min(max(features_per_row[rows].max(), 1), max_features))
    figure = Figure(figsize=((width + 2) * 0.95, n * 1.15), layout="constrained")
    axes = figure.subplots(len(rows), width + 2, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        code = codes[[row]]
        features = code.indices[np.argsort(-code.data, kind="stable")][:max_features]
        changes = _effects(model, code, features)
        limit = max(float(np.abs(changes).max(initial=0)), 1e-9)
        _picture(line[0], dense(data.X[[row]])[0], data)
        for position, axis in enumerate(line[1:-1]):
            if position < len(features):
                axis.imshow(changes[position].reshape(shape), cmap=CHANGES, vmin=-limit, vmax=limit)
                count = int(code[0, features[position]])
                axis.set_title(f"{features[position]}" + (f" × {count}" if count > 1 else ""), fontsize=7, pad=2)
                _bare(axis)
            else:
                axis.axis("off")
        _picture(line[-1], model.inverse_transform(code)[0], data)
    axes[0, 0].set_title("original", fontsize=8)
    axes[0, -1].set_title("from its code", fontsize=8)
    return figure


def sparsity(model: Any, data: Dataset, codes: sp.csr_matrix, drawn: sp.csr_matrix, budget: int) -> Figure:
    """How many slots are active, beside the prior's binomial, and the logits of the gates (the paper's fig:sparse)."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    values = np.arange(budget + 1)
    for matrix, name, colour in ((drawn, "drawn codes", BLUE), (codes, "codes of transform", ORANGE)):
        share = np.bincount(_n_active(matrix), minlength=budget + 1) / matrix.shape[0]
        left.bar(values, share, width=0.9, color=colour, alpha=0.6, label=name)
    prior = binom.pmf(values, budget, model.gate_prior_)
    left.plot(values, prior, color="black", lw=1, label="slots on under the prior")
    left.set_ylim(top=1.3 * left.get_ylim()[1])  # room for the legend
    left.axvline(budget, color=GREY, ls="--", lw=1)
    left.text(budget, left.get_ylim()[1], " budget", va="top", ha="right", rotation=90, fontsize=7, color=GREY)
    left.set(xlabel="active slots $L_i$ of an observation", ylabel="share of observations", xlim=(-1, budget + 1))
    left.legend(frameon=False, fontsize=7)
    gate = np.clip(model.posterior(data.table).gate_prob.astype(np.float64), 1e-7, 1 - 1e-7)
    right.hist(np.log(gate) - np.log1p(-gate), bins=40, color=BLUE, alpha=0.8)
    prior_logit = np.log(model.gate_prior_) - np.log1p(-model.gate_prior_)
    right.axvline(prior_logit, color="black", lw=1, label="prior of a slot")
    right.set(xlabel="gate logit of an observation", ylabel="observations")
    right.legend(frameon=False, fontsize=7)
    return figure


def code_map(data: Dataset, codes: sp.csr_matrix, random_state: int = 0, max_rows: int = MAP_ROWS) -> Figure:
    """The codes in two dimensions by t-SNE, coloured by label, or by the number of active slots without labels."""
    from sklearn.manifold import TSNE

    rows = _spread(codes.shape[0], max_rows)
    if len(np.unique(codes[rows].toarray(), axis=0)) < MIN_DISTINCT_CODES:
        return _notice("Almost all observations have the same code: there is nothing to map.")
    perplexity = min(30.0, max(2.0, (len(rows) - 1) / 4))
    points = np.asarray(codes[rows].toarray(), dtype=np.float32)
    places = TSNE(perplexity=perplexity, init="random", random_state=random_state).fit_transform(points)
    size = float(np.clip(12_000 / len(rows), 6, 24))
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    axis = figure.subplots()
    if data.labels is not None:
        names, numbers = np.unique(data.labels[rows], return_inverse=True)
        palette = "tab10" if len(names) <= 10 else "turbo"
        colours = colormaps[palette](numbers if palette == "tab10" else numbers / (len(names) - 1))
        axis.scatter(*places.T, c=colours, s=size, linewidths=0)
        if len(names) <= 20:
            for i, name in enumerate(names):
                axis.scatter([], [], color=colours[np.argmax(numbers == i)], s=20, label=str(name))
            figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    else:
        shown = axis.scatter(*places.T, c=_n_active(codes[rows]), s=size, cmap="viridis", linewidths=0)
        figure.colorbar(shown, ax=axis, label="active slots")
    axis.set(xticks=[], yticks=[], xlabel="t-SNE of the codes (distances have no unit)")
    return figure


def feature_atlas(model: Any, data: Dataset, codes: sp.csr_matrix) -> Figure:
    """What the most used features draw: the mean change of the reconstruction where the feature is present."""
    present = np.asarray((codes > 0).sum(axis=0)).ravel()
    features = [int(k) for k in np.argsort(-present, kind="stable")[:ATLAS_FEATURES] if present[k] > 0]
    columns = codes.tocsc()
    changes = []
    for feature in features:
        having = columns.indices[columns.indptr[feature] : columns.indptr[feature + 1]]
        having = np.sort(having)[_spread(len(having), ATLAS_ROWS)]
        changes.append(_change(model, codes[having], feature).mean(0))
    if data.image_shape is None:
        return _effect_matrix(features, changes, data)
    n_columns = 12
    n_lines = max(1, -(-len(features) // n_columns))
    figure = Figure(figsize=(n_columns * 0.8, n_lines * 0.95), layout="constrained")
    axes = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for axis in axes[len(features) :]:
        axis.axis("off")
    for axis, feature, change in zip(axes, features, changes, strict=False):
        limit = max(float(np.abs(change).max()), 1e-9)
        axis.imshow(change.reshape(data.image_shape), cmap=CHANGES, vmin=-limit, vmax=limit)
        axis.set_title(str(feature), fontsize=7, pad=2)
        _bare(axis)
    return figure


def usage(codes: sp.csr_matrix, drawn: sp.csr_matrix) -> Figure:
    """In how many observations each feature is present, most used first."""
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    axis = figure.subplots()
    for matrix, name, colour in ((drawn, "drawn codes", BLUE), (codes, "codes of transform", ORANGE)):
        share = np.sort(np.asarray((matrix > 0).sum(axis=0)).ravel() / matrix.shape[0])[::-1]
        axis.plot(np.arange(1, len(share) + 1), share, color=colour, drawstyle="steps-mid", label=name)
    unused = int(np.count_nonzero(np.asarray(codes.sum(axis=0)) == 0))
    axis.set(
        xlabel=f"features, most used first ({unused} of {codes.shape[1]} in no code of transform)",
        ylabel="share of observations",
        xlim=(0, codes.shape[1] + 1),
        ylim=(0, None),
    )
    axis.legend(frameon=False, fontsize=7)
    return figure


def training_curves(model: Any, budget: int) -> Figure:
    """Both bounds, the rate, the sparsity and the features in use in the course of training."""
    history = model.history_
    iterations = [record.iteration for record in history]
    counted = [record for record in history if record.features_used is not None]  # not in old files
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    bounds, rate, active, *further = figure.subplots(1, 4 if counted else 3)
    bounds.plot(iterations, [-record.discrete for record in history], color=BLUE, label="discrete: a bound")
    bounds.plot(iterations, [-record.relaxed for record in history], color=GREY, ls="--", label="relaxed: not a bound")
    bounds.set(ylabel="negative ELBO (nats)", xlabel="iteration")
    bounds.legend(frameon=False, fontsize=7)
    rate.plot(iterations, [record.kl for record in history], color=BLUE)
    rate.set(ylabel="KL: nats that a code carries", xlabel="iteration", ylim=(0, None))
    active.plot(iterations, [record.n_active for record in history], color=BLUE)
    active.axhline(budget, color=GREY, ls="--", lw=1)
    active.set(ylabel="expected active slots", xlabel="iteration", ylim=(0, budget * 1.05))
    for used in further:
        used.plot([record.iteration for record in counted], [record.features_used for record in counted], color=BLUE)
        used.set(ylabel="features in use", xlabel="iteration", ylim=(0, None))
    return figure


def _notice(text: str) -> Figure:
    figure = Figure(figsize=(6.4, 1.2), layout="constrained")
    axis = figure.subplots()
    axis.text(0.5, 0.5, text, ha="center", va="center")
    axis.axis("off")
    return figure


def _traces(original: np.ndarray, decoded: np.ndarray, rows: np.ndarray, data: Dataset) -> Figure:
    n = len(rows)
    figure = Figure(figsize=(9, n * 1.1), layout="constrained")
    axes = figure.subplots(n, 1, sharex=True, squeeze=False)[:, 0]
    for i, axis in enumerate(axes):
        axis.plot(original[i], color="black", lw=1, label="original")
        axis.plot(decoded[i], color=ORANGE, lw=1, label="from its code")
        axis.set_ylabel(f"row {rows[i]}", fontsize=7)
    axes[0].legend(frameon=False, fontsize=7, ncols=2)
    _name_columns(axes[-1], data)
    return figure


def _name_columns(axis: Axes, data: Dataset) -> None:
    """Columns by name below the axis where they fit, by number otherwise."""
    axis.set_xlabel("column of the data")
    if data.feature_names is not None and len(data.feature_names) <= 30:
        axis.set_xticks(range(len(data.feature_names)), data.feature_names, rotation=45, ha="right", fontsize=7)
    else:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _effect_matrix(features: list[int], changes: list[np.ndarray], data: Dataset) -> Figure:
    figure = Figure(figsize=(9, 1 + 0.12 * max(len(features), 4)), layout="constrained")
    axis = figure.subplots()
    matrix = np.array(changes) if changes else np.zeros((1, data.X.shape[1]))
    matrix = matrix / np.maximum(np.abs(matrix).max(axis=0), 1e-12)
    image = axis.imshow(matrix, cmap=CHANGES, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axis.set(ylabel="feature", yticks=range(len(features)))
    _name_columns(axis, data)
    axis.set_yticklabels([str(feature) for feature in features], fontsize=5)
    figure.colorbar(image, ax=axis, label="relative change")
    return figure


def _effects(model: Any, code: sp.csr_matrix, features: np.ndarray) -> np.ndarray:
    return np.array([_change(model, code, int(feature))[0] for feature in features])


def _change(model: Any, codes: sp.csr_matrix, feature: int) -> np.ndarray:
    """What the reconstructions lose when a feature is taken out of their codes."""
    without = codes.tolil(copy=True)
    without[:, feature] = 0
    return model.inverse_transform(codes) - model.inverse_transform(without.tocsr())


def _spread(n: int, wanted: int) -> np.ndarray:
    """Up to ``wanted`` row numbers, evenly over n rows."""
    return np.unique(np.linspace(0, n - 1, min(n, wanted)).astype(int)) if n else np.array([], dtype=int)


def _n_active(codes: sp.csr_matrix) -> np.ndarray:
    return np.asarray(codes.sum(axis=1)).ravel().astype(int)


def dense(rows: np.ndarray | sp.csr_matrix) -> np.ndarray:
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def _image_shape(data: Dataset) -> tuple[int, int]:
    if data.image_shape is None:
        raise ValueError("this picture needs rows that are images")
    return data.image_shape


def _picture(axis: Axes, row: np.ndarray, data: Dataset) -> None:
    axis.imshow(row.reshape(_image_shape(data)), cmap=GREYS, vmin=min(0.0, data.X.min()), vmax=data.X.max())
    _bare(axis)


def _bare(axis: Axes) -> None:
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set(linewidth=0.4, color=GREY)


def picture_row(axes: Any, images: np.ndarray, data: Dataset, label: str) -> None:
    """One image on each of the axes, and a label before the first."""
    for axis, image in zip(axes, images, strict=True):
        _picture(axis, image, data)
    _label_row(axes[0], label)


def _label_row(axis: Axes, text: str) -> None:
    axis.set_ylabel(text, fontsize=8, rotation=0, ha="right", va="center")
