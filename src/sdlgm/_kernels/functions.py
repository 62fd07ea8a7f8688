"""The kernels that other parts of sdlgm call. Importing this file imports numba."""

from sdlgm._kernels.chains import ChainCost, chain_cost, chain_gradients, draw_chain, draw_relaxed_chain
from sdlgm._kernels.draws import draw_binary, draw_counts, draw_one_hot
from sdlgm._kernels.modes import multinomial_modes, slot_modes
from sdlgm._kernels.random import n_blocks
from sdlgm._kernels.relaxed import RelaxedCounts, RelaxedGradients, relaxed_counts, relaxed_gradients
from sdlgm._kernels.rows import compress, in_unit_interval
from sdlgm._kernels.slots import Divergence, divergence, symbol_gradients, symbols
from sdlgm._kernels.states import (
    ConditionalDivergence,
    StateGradients,
    StateWeights,
    conditional_divergence,
    draw_relaxed_state_chain,
    draw_state_chain,
    drawn_state_gradients,
    state_gradients,
    state_logits,
)
from sdlgm._kernels.subsets import SubsetDivergence, subset_divergence, subset_marginals, subset_modes
from sdlgm._kernels.trees import tree_votes

__all__ = [
    "ChainCost",
    "ConditionalDivergence",
    "Divergence",
    "RelaxedCounts",
    "RelaxedGradients",
    "StateGradients",
    "StateWeights",
    "SubsetDivergence",
    "chain_cost",
    "chain_gradients",
    "compress",
    "conditional_divergence",
    "divergence",
    "draw_binary",
    "draw_chain",
    "draw_counts",
    "draw_one_hot",
    "draw_relaxed_chain",
    "draw_relaxed_state_chain",
    "draw_state_chain",
    "drawn_state_gradients",
    "in_unit_interval",
    "multinomial_modes",
    "n_blocks",
    "relaxed_counts",
    "relaxed_gradients",
    "slot_modes",
    "state_gradients",
    "state_logits",
    "subset_divergence",
    "subset_marginals",
    "subset_modes",
    "symbol_gradients",
    "symbols",
    "tree_votes",
]
