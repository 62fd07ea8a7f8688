"""docs/images/attention.png: weights of attention beside those of softmax and entmax."""

from collections.abc import Mapping

import torch
from entmax import entmax15, sparsemax
from matplotlib.figure import Figure
from torch import Tensor

from sdlgm.nn import sparse_attention

N_TOKENS, WIDTH, BUDGET, SCALE = 24, 32, 4, 1.0


def tokens() -> tuple[Tensor, Tensor]:
    """Return queries and keys: groups of one to six tokens that look for each other, and tokens that look for none."""
    generator = torch.Generator().manual_seed(3)
    sizes = [1, 2, 3, 4, 6]
    centres = torch.randn(len(sizes), WIDTH, generator=generator)
    members = torch.cat([centre.expand(size, -1) for centre, size in zip(centres, sizes, strict=True)])
    others = torch.randn(N_TOKENS - len(members), WIDTH, generator=generator)
    keys = torch.cat([members, others])
    queries = torch.cat([members, torch.randn(len(others), WIDTH, generator=generator)])
    return queries, keys + 0.2 * torch.randn(keys.shape, generator=generator)


def maps() -> Mapping[str, Tensor]:
    """Return the weights of each kind of attention, from the same scores."""
    queries, keys = tokens()
    scores = SCALE * queries @ keys.T / WIDTH**0.5
    sparse = sparse_attention(queries, keys, keys, BUDGET, scale=SCALE / WIDTH**0.5)
    return {
        "softmax": scores.softmax(-1),
        "entmax-1.5": entmax15(scores, dim=-1),
        "sparsemax": sparsemax(scores, dim=-1),
        f"SparseAttention, max_active={BUDGET}": sparse.weights,
    }


def picture() -> Figure:
    """Draw the weights, and how many keys each query has."""
    figure = Figure(figsize=(10, 3.3), layout="constrained")
    for axis, (name, weights) in zip(figure.subplots(1, 4), maps().items(), strict=True):
        n_active = (weights > 0).sum(-1)
        axis.imshow(weights.sqrt(), cmap="Blues", vmin=0, vmax=1)
        axis.set_title(name, fontsize=9)
        numbers = " to ".join(dict.fromkeys([str(int(n_active.min())), str(int(n_active.max()))]))
        axis.set_xlabel(f"key\nkeys of a query: {numbers}", fontsize=8)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_color("0.7")
        if name == "softmax":
            axis.set_ylabel("query", fontsize=8)
    return figure
