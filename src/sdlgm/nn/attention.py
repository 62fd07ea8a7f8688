"""Multi-head attention with a budget."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdlgm.nn._choice import ChoosingLayer
from sdlgm.nn.functional import SparseAttentionResult, attend, with_mask
from sdlgm.nn.gate import SubsetGate


class SparseAttention(ChoosingLayer):
    """Multi-head attention in which each query attends to at most ``max_active`` keys, and to as few as it needs.

    Arguments, shapes, masks and outputs are those of `torch.nn.MultiheadAttention`, and so are the names of its
    parameters: ``load_state_dict(dense.state_dict(), strict=False)`` takes over the weights of a trained layer. In
    training each head draws a set of keys for each query; in evaluation it takes the most probable set. Queries whose
    set is empty, and those whose keys are all masked, get zeros before the output projection.

    Parameters
    ----------
    embed_dim : int
        Width of queries and outputs.
    num_heads : int
        Number of heads, a divisor of ``embed_dim``.
    max_active : int, default=8
        Largest number of keys that a head attends to for one query.
    dropout : float, default=0.0
        Probability that a weight is dropped in training.
    bias : bool, default=True
        Whether the projections have a bias.
    add_bias_kv : bool, default=False
        Append one learned key and value.
    add_zero_attn : bool, default=False
        Append a key and a value of zeros.
    kdim, vdim : int, optional
        Widths of keys and values, ``embed_dim`` by default.
    batch_first : bool, default=False
        Whether tensors are (batch, length, width) and not (length, batch, width).
    device, dtype : optional
        As for all layers of torch.
    prior_active : float, optional
        Number of keys that the prior of each head expects, half the budget by default.
    learn_prior : bool, default=False
        Learn the number for each head.
    gradient : {"reinmax", "straight_through", "darn"}, default="reinmax"
        Gradient estimator for drawn sets.
    eval_kl : bool, default=False
        Compute ``kl`` in evaluation too.

    Attributes
    ----------
    kl : Tensor of shape (batch, num_heads, L) or None
        Divergence of the sets of the last call from the prior, in nats. Add its mean, times a weight, to the loss: the
        larger the weight, the fewer keys are chosen with care.
    n_active : Tensor of shape (batch, num_heads, L) or None
        Number of keys in each set of the last call.

    Examples
    --------
    >>> import torch
    >>> from sdlgm.nn import SparseAttention
    >>> attention = SparseAttention(32, num_heads=4, max_active=5, batch_first=True)
    >>> x = torch.randn(2, 100, 32)
    >>> output, weights = attention(x, x, x, average_attn_weights=False)
    >>> output.shape, weights.shape, attention.kl.shape
    (torch.Size([2, 100, 32]), torch.Size([2, 4, 100, 100]), torch.Size([2, 4, 100]))
    >>> bool((weights > 0).sum(-1).max() <= 5)
    True

    """

    _qkv_same_embed_dim = False
    """Tells the encoder layers of torch to call `forward` and not their own fused dense attention."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_active: int = 8,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        prior_active: float | None = None,
        learn_prior: bool = False,
        gradient: str = "reinmax",
        eval_kl: bool = False,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"embed_dim={embed_dim} has to be a multiple of num_heads={num_heads}, both positive")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self._joint = self.kdim == embed_dim and self.vdim == embed_dim
        self.in_proj_weight = parameter(3 * embed_dim, embed_dim) if self._joint else None
        self.q_proj_weight = None if self._joint else parameter(embed_dim, embed_dim)
        self.k_proj_weight = None if self._joint else parameter(embed_dim, self.kdim)
        self.v_proj_weight = None if self._joint else parameter(embed_dim, self.vdim)
        self.in_proj_bias = parameter(3 * embed_dim) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.gate_bias = parameter(num_heads)
        self.gate = SubsetGate(
            max_active,
            prior_active=prior_active,
            learn_prior=learn_prior,
            prior_shape=(num_heads, 1),
            gradient=gradient,
            eval_kl=eval_kl,
            device=device,
            dtype=dtype,
        )
        self.reset_parameters()

    @property
    def max_active(self) -> int:
        """Largest number of keys that a head attends to for one query."""
        return self.gate.max_active

    def reset_parameters(self) -> None:
        """Draw the weights as `torch.nn.MultiheadAttention` does."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias, self.gate_bias):
            if bias is not None:
                nn.init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                nn.init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from queries to keys.

        Parameters
        ----------
        query, key, value : Tensor
            (L, N, embed_dim), (S, N, kdim) and (S, N, vdim); with ``batch_first`` N is first; without a batch there
            is no N.
        key_padding_mask : Tensor of shape (N, S), optional
            Bools, True for keys that are never chosen, or numbers that are added to the scores.
        need_weights : bool, default=True
            Return the weights.
        attn_mask : Tensor of shape (L, S) or (N * num_heads, L, S), optional
            Bools, True for keys that are never chosen, or numbers that are added to the scores.
        average_attn_weights : bool, default=True
            Return the mean weights of all heads. It can have up to ``num_heads * max_active`` non-zero weights.
        is_causal : bool, default=False
            A hint that ``attn_mask`` is causal, as torch has it. The mask has to be given.
        generator : torch.Generator, optional
            Source of random numbers; torch's own by default.

        Returns
        -------
        output : Tensor
            Shaped like the query.
        weights : Tensor of shape (N, L, S) or (N, num_heads, L, S), or None

        """
        if is_causal and attn_mask is None:
            raise ValueError("is_causal is a hint and needs attn_mask")
        batched = query.dim() == 3
        if not batched:
            query, key, value = (part.unsqueeze(0) for part in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        result = self._attend(query, key, value, key_padding_mask, attn_mask, generator)
        output = self.out_proj(result.output.transpose(1, 2).flatten(2))
        weights = (result.weights.mean(1) if average_attn_weights else result.weights) if need_weights else None
        self.kl, self.n_active = result.kl, result.n_active
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return (output if self.batch_first else output.transpose(0, 1)), weights

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        generator: torch.Generator | None,
    ) -> SparseAttentionResult:
        n_batch, n_keys = key.shape[:2]
        queries, keys, values = self._projected(query, key, value)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(-2, -1)
        n_added = keys.shape[-2] - n_keys
        allowed: Tensor | None = None
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.view(n_batch, 1, 1, n_keys)
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.unflatten(0, (n_batch, self.num_heads))
        for mask in (key_padding_mask, attn_mask):
            if mask is not None:
                # Below, bools are True for keys that may be chosen. Keys that were appended always may.
                free = ~mask if mask.dtype == torch.bool else mask
                scores, allows = with_mask(scores, F.pad(free, (0, n_added), value=float(mask.dtype == torch.bool)))
                allowed = allows if allowed is None or allows is None else allowed & allows
        return attend(
            scores,
            values,
            allowed,
            self.gate.prior_active,
            self.gate_bias.view(-1, 1, 1),
            max_active=self.max_active,
            gradient=self.gate.gradient,
            dropout_p=self.dropout,
            training=self.training,
            need_kl=self.training or self.gate.eval_kl,
            generator=generator,
        )

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of all heads, of shape (N, num_heads, length, head_dim)."""
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        queries, keys, values = (
            F.linear(part, weight, bias)  # pyright: ignore[reportArgumentType]
            for part, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        if self.bias_k is not None and self.bias_v is not None:
            n_batch = len(keys)
            keys = torch.cat([keys, self.bias_k.expand(n_batch, -1, -1)], dim=1)
            values = torch.cat([values, self.bias_v.expand(n_batch, -1, -1)], dim=1)
        if self.add_zero_attn:
            keys, values = F.pad(keys, (0, 0, 0, 1)), F.pad(values, (0, 0, 0, 1))
        heads = (self.num_heads, self.head_dim)
        return tuple(part.unflatten(-1, heads).transpose(1, 2) for part in (queries, keys, values))  # pyright: ignore[reportReturnType]

    def extra_repr(self) -> str:
        """Describe the layer.

        Returns
        -------
        str
            The settings that tell one layer from another.

        """
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"
