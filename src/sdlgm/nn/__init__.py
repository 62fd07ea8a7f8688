"""Layers for other people's networks: attention and gates that never use more than a budget.

`SparseAttention` stands in for `torch.nn.MultiheadAttention`, `sparse_attention` for
`torch.nn.functional.scaled_dot_product_attention`, and `SubsetGate` chooses a set of anything that has scores. All of
them are plain PyTorch and need no estimator.
"""

from sdlgm.nn.attention import SparseAttention
from sdlgm.nn.functional import SparseAttentionResult, set_softmax, sparse_attention
from sdlgm.nn.gate import SubsetGate

__all__ = ["SparseAttention", "SparseAttentionResult", "SubsetGate", "set_softmax", "sparse_attention"]
