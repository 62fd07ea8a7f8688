"""The kernels that other parts of sdlgm call. Importing this file imports numba."""

from sdlgm._kernels.chains import (
    ChainCost,
    ConditionalDivergence,
    chain_cost,
    chain_gradients,
    chain_modes,
    conditional_divergence,
    draw_chain,
    draw_relaxed_chain,
)
from sdlgm._kernels.draws import draw_binary, draw_counts, draw_one_hot
from sdlgm._kernels.entropy import IntegerChain, IntegerPrior, IntegerSlots, read_codes, write_codes
from sdlgm._kernels.hidden import HiddenGradients, HiddenWeights, draw_hidden_chain, hidden_effect, hidden_gradients
from sdlgm._kernels.label_sets import add_set_joint, best_sets, set_numbers, set_presence
from sdlgm._kernels.low_rank import (
    LowRankGradients,
    draw_low_rank_chain,
    draw_relaxed_low_rank_chain,
    drawn_low_rank_gradients,
    low_rank_chain_modes,
    low_rank_effect,
    low_rank_gradients,
)
from sdlgm._kernels.modes import multinomial_modes, slot_modes
from sdlgm._kernels.random import n_blocks
from sdlgm._kernels.ranks import interpolate
from sdlgm._kernels.relaxed import RelaxedCounts, RelaxedGradients, relaxed_counts, relaxed_gradients
from sdlgm._kernels.residuals import Series, read_series, write_series
from sdlgm._kernels.rows import compress, in_unit_interval
from sdlgm._kernels.set_covariance import (
    SetGradients,
    given_set_gradients,
    set_gradients,
    set_value_gradients,
)
from sdlgm._kernels.set_draws import ChosenSets, choose_sets, set_mixtures
from sdlgm._kernels.slots import Divergence, divergence, symbol_gradients, symbols
from sdlgm._kernels.subsets import SubsetDivergence, subset_divergence, subset_marginals, subset_modes
from sdlgm._kernels.trees import tree_row_shares, tree_votes

__all__ = [
    "ChainCost",
    "ChosenSets",
    "ConditionalDivergence",
    "Divergence",
    "HiddenGradients",
    "HiddenWeights",
    "IntegerChain",
    "IntegerPrior",
    "IntegerSlots",
    "LowRankGradients",
    "RelaxedCounts",
    "RelaxedGradients",
    "Series",
    "SetGradients",
    "SubsetDivergence",
    "add_set_joint",
    "best_sets",
    "chain_cost",
    "chain_gradients",
    "chain_modes",
    "choose_sets",
    "compress",
    "conditional_divergence",
    "divergence",
    "draw_binary",
    "draw_chain",
    "draw_counts",
    "draw_hidden_chain",
    "draw_low_rank_chain",
    "draw_one_hot",
    "draw_relaxed_chain",
    "draw_relaxed_low_rank_chain",
    "drawn_low_rank_gradients",
    "given_set_gradients",
    "hidden_effect",
    "hidden_gradients",
    "in_unit_interval",
    "interpolate",
    "low_rank_chain_modes",
    "low_rank_effect",
    "low_rank_gradients",
    "multinomial_modes",
    "n_blocks",
    "read_codes",
    "read_series",
    "relaxed_counts",
    "relaxed_gradients",
    "set_gradients",
    "set_mixtures",
    "set_numbers",
    "set_presence",
    "set_value_gradients",
    "slot_modes",
    "subset_divergence",
    "subset_marginals",
    "subset_modes",
    "symbol_gradients",
    "symbols",
    "tree_row_shares",
    "tree_votes",
    "write_codes",
    "write_series",
]
