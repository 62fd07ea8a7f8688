"""Couplings of a chain: the effect of the features of a code on the log-odds of later features.

    logit_k = base_k + (effect of n_1 .. n_{k-1})

- `DenseCoupling`: the effect is sum_{j < k} n_j matrix_jk. Time and memory grow with K².
- `LowRankCoupling`: the same with matrix = writes readsᵀ of rank H. Time and memory grow with K H.
- `HiddenCoupling`: the effect is reads_k . max(start + sum_{j < k} n_j writes_j, 0), the hidden layer of a neural
  autoregressive density estimator (Larochelle and Murray, AISTATS 2011). Time and memory grow with K H.

A prior can have each of them. A posterior also needs gradients through its draws (`PosteriorCoupling`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order

BLOCK = 64
"""Features between which torch's operations take a coupling of low rank as a matrix."""


class DrawnCodes(NamedTuple):
    """Drawn codes and the log-odds that they were drawn with, as functions of logits and weights."""

    counts: Float[Tensor, "S batch K"]
    conditional_logits: Float[Tensor, "S batch K"]


class Coupling(ABC):
    """The effect of the features of a code on the log-odds of later features."""

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """All weights."""

    @abstractmethod
    def conditional_logits(
        self, logits: Float[Tensor, "rows K"], counts: Float[Tensor, "*codes K"]
    ) -> Float[Tensor, "*codes K"]:
        """Return the log-odds of each feature given those before it; differentiable.

        There is a row of logits for each observation of the batch, or one for all.
        """

    @abstractmethod
    def draw(
        self, logits: Float[Tensor, "batch K"], uniform: Float[Tensor, "S batch K"], n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        """Draw codes from uniform noise; on the CPU, whatever the device."""


class PosteriorCoupling(Coupling):
    """A coupling with gradients through its draws."""

    @abstractmethod
    def divided_by(self, temperature: Float[Tensor, ""]) -> "PosteriorCoupling":
        """Return the coupling with all its effects divided by a temperature."""

    @abstractmethod
    def modes(self, logits: Float[Tensor, "batch K"], n_slots: int) -> Int[Tensor, "batch K"]:
        """Return the code of the more probable choices, feature after feature; on the CPU."""

    @abstractmethod
    def draw_relaxed(
        self, logits: Float[Tensor, "batch K"], logistic: Float[Tensor, "S batch K"], temperature: float, n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        """Draw relaxed codes from logistic noise; on the CPU, whatever the device."""

    @abstractmethod
    def with_slopes(
        self,
        logits: Float[Tensor, "batch K"],
        drawn: DrawnCodes,
        slopes: Float[Tensor, "S batch K"],
    ) -> DrawnCodes:
        """Return drawn codes as functions of logits and weights, with the slope of each feature in its own logit.

        With g_k and l_k the gradients of feature k and of its conditional logit from outside, and s_k the slope, the
        gradient of the conditional logit is

            d_k = l_k + s_k (g_k + sum_{j > k} d_j (effect of k on the logit of j)),

        from the last feature to the first.
        """


@dataclass(frozen=True)
class DenseCoupling(PosteriorCoupling):
    """A matrix: ``matrix[j, k]`` is added to the log-odds of k > j if j is present; zero elsewhere."""

    matrix: Float[Tensor, "K K"]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.matrix,)

    def divided_by(self, temperature: Float[Tensor, ""]) -> "DenseCoupling":
        return DenseCoupling(self.matrix / temperature)

    def conditional_logits(
        self, logits: Float[Tensor, "rows K"], counts: Float[Tensor, "*codes K"]
    ) -> Float[Tensor, "*codes K"]:
        return logits + counts @ self.matrix

    def draw(
        self, logits: Float[Tensor, "batch K"], uniform: Float[Tensor, "S batch K"], n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        rows, noise = _repeated(logits, len(uniform)), as_array(uniform.flatten(0, 1).cpu())
        return _like(uniform, _kernels.draw_chain(rows, as_array(self.matrix.cpu()), noise, n_slots, _n_threads()))

    def modes(self, logits: Float[Tensor, "batch K"], n_slots: int) -> Int[Tensor, "batch K"]:
        arguments = as_array(logits.cpu()), as_array(self.matrix.cpu())
        return torch.from_numpy(_kernels.chain_modes(*arguments, n_slots, _n_threads()))

    def draw_relaxed(
        self, logits: Float[Tensor, "batch K"], logistic: Float[Tensor, "S batch K"], temperature: float, n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        rows, noise = _repeated(logits, len(logistic)), as_array(logistic.flatten(0, 1).cpu())
        matrix = as_array(self.matrix.cpu())
        return _like(logistic, _kernels.draw_relaxed_chain(rows, matrix, noise, temperature, n_slots))

    def with_slopes(
        self, logits: Float[Tensor, "batch K"], drawn: DrawnCodes, slopes: Float[Tensor, "S batch K"]
    ) -> DrawnCodes:
        return DrawnCodes(*_DrawnByMatrix.apply(logits, self.matrix, *drawn, slopes))


@dataclass(frozen=True)
class LowRankCoupling(PosteriorCoupling):
    """A matrix of low rank, ``writes @ reads.T``, above its diagonal."""

    reads: Float[Tensor, "K H"]
    writes: Float[Tensor, "K H"]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.reads, self.writes

    def divided_by(self, temperature: Float[Tensor, ""]) -> "LowRankCoupling":
        return LowRankCoupling(self.reads / temperature, self.writes)

    def conditional_logits(
        self, logits: Float[Tensor, "rows K"], counts: Float[Tensor, "*codes K"]
    ) -> Float[Tensor, "*codes K"]:
        if not arrays.has_kernels(counts):
            return logits + self._plain_effect(counts)
        return logits + _LowRankEffect.apply(counts, self.reads, self.writes)

    def _plain_effect(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "*codes K"]:
        """Return the effect by torch's operations: products of blocks, since a state for each feature is too large.

        Features of earlier blocks act through the state before a block, those of the same block through a matrix.
        """
        padding = -counts.shape[-1] % BLOCK
        reads, writes = (F.pad(part, (0, 0, 0, padding)).unflatten(0, (-1, BLOCK)) for part in self.tensors)
        codes = F.pad(counts.flatten(0, -2), (0, padding)).unflatten(-1, (-1, BLOCK)).transpose(0, 1)
        written = codes @ writes
        effect = (written.cumsum(0) - written) @ reads.mT + codes @ torch.triu(writes @ reads.mT, 1)
        return effect.transpose(0, 1).flatten(1)[:, : counts.shape[-1]].view_as(counts)

    def draw(
        self, logits: Float[Tensor, "batch K"], uniform: Float[Tensor, "S batch K"], n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        base, noise = as_array(logits.cpu()), as_array(uniform.flatten(0, 1).cpu())
        return _like(uniform, _kernels.draw_low_rank_chain(base, *self._arrays, noise, n_slots, _n_threads()))

    def modes(self, logits: Float[Tensor, "batch K"], n_slots: int) -> Int[Tensor, "batch K"]:
        base = as_array(logits.cpu())
        return torch.from_numpy(_kernels.low_rank_chain_modes(base, *self._arrays, n_slots, _n_threads()))

    def draw_relaxed(
        self, logits: Float[Tensor, "batch K"], logistic: Float[Tensor, "S batch K"], temperature: float, n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        base, noise = as_array(logits.cpu()), as_array(logistic.flatten(0, 1).cpu())
        return _like(logistic, _kernels.draw_relaxed_low_rank_chain(base, *self._arrays, noise, temperature, n_slots))

    def with_slopes(
        self, logits: Float[Tensor, "batch K"], drawn: DrawnCodes, slopes: Float[Tensor, "S batch K"]
    ) -> DrawnCodes:
        return DrawnCodes(*_DrawnByLowRank.apply(logits, self.reads, self.writes, *drawn, slopes))

    @property
    def _arrays(self):
        return as_array(self.reads.cpu()), as_array(self.writes.cpu())


@dataclass(frozen=True)
class HiddenCoupling(Coupling):
    """A hidden layer to which present features write, and from which the log-odds of later features are read."""

    reads: Float[Tensor, "K H"]
    writes: Float[Tensor, "K H"]
    start: Float[Tensor, " H"]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.reads, self.writes, self.start

    def conditional_logits(
        self, logits: Float[Tensor, "rows K"], counts: Float[Tensor, "*codes K"]
    ) -> Float[Tensor, "*codes K"]:
        if not arrays.has_kernels(counts):
            return logits + self._plain_effect(counts)
        return logits + _HiddenEffect.apply(counts, *self.tensors)

    def _plain_effect(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "*codes K"]:
        """Return the effect by torch's operations, with K H numbers for each code."""
        written = counts.unsqueeze(-1) * self.writes
        return (torch.relu(self.start + written.cumsum(-2) - written) * self.reads).sum(-1)

    def draw(
        self, logits: Float[Tensor, "batch K"], uniform: Float[Tensor, "S batch K"], n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        rows, noise = _repeated(logits, len(uniform)), as_array(uniform.flatten(0, 1).cpu())
        weights = _kernels.HiddenWeights(*(as_array(weight.cpu()) for weight in self.tensors))
        return _like(uniform, _kernels.draw_hidden_chain(rows, weights, noise, n_slots))


def _n_threads() -> int:
    return torch.get_num_threads()


def _repeated(logits: Tensor, n_samples: int):
    return as_array(logits.detach().repeat(n_samples, 1).cpu())


def _like(noise: Tensor, counts) -> Tensor:
    return torch.from_numpy(counts).to(noise.device).unflatten(0, noise.shape[:2])


class _DrawnByMatrix(torch.autograd.Function):
    """Drawn codes with given slopes. With d the gradient of the conditional logits, n_j d_k is that of matrix_jk."""

    @staticmethod
    def forward(
        ctx,
        logits: Tensor,  # noqa: ARG004
        matrix: Tensor,
        counts: Tensor,
        conditional_logits: Tensor,
        slopes: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(matrix, counts, slopes)
        return counts.view_as(counts), conditional_logits.view_as(counts)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        matrix, counts, slopes = ctx.saved_tensors
        rows = (_codes(part.cpu()) for part in (slopes, *gradients))
        result = _kernels.chain_gradients(as_array(matrix.cpu()), *rows, n_threads=_n_threads())
        to_logits = torch.from_numpy(result).to(counts.device)
        to_matrix = torch.triu(counts.flatten(0, 1).T @ to_logits, 1)
        return to_logits.view_as(counts).sum(0), to_matrix, None, None, None


class _DrawnByLowRank(torch.autograd.Function):
    """Drawn codes with given slopes; the kernel returns all gradients."""

    @staticmethod
    def forward(
        ctx,
        logits: Tensor,  # noqa: ARG004
        reads: Tensor,
        writes: Tensor,
        counts: Tensor,
        conditional_logits: Tensor,
        slopes: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(reads, writes, counts, slopes)
        return counts.view_as(counts), conditional_logits.view_as(counts)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        reads, writes, counts, slopes = ctx.saved_tensors
        weights = as_array(reads.cpu()), as_array(writes.cpu())
        rows = (_codes(part.cpu()) for part in (slopes, *gradients))
        result = _kernels.drawn_low_rank_gradients(_codes(counts.cpu()), *weights, *rows, n_threads=_n_threads())
        to_logits, *to_weights = (torch.from_numpy(part).to(counts.device) for part in vars(result).values())
        return to_logits.view_as(counts).sum(0), *to_weights, None, None, None


class _LowRankEffect(torch.autograd.Function):
    """The effect of codes through a coupling of low rank; the kernel returns all gradients."""

    @staticmethod
    def forward(ctx, counts: Tensor, reads: Tensor, writes: Tensor) -> Tensor:
        ctx.save_for_backward(counts, reads, writes)
        effect = _kernels.low_rank_effect(_codes(counts), as_array(reads), as_array(writes), _n_threads())
        return torch.from_numpy(effect).view_as(counts)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        counts, reads, writes = ctx.saved_tensors
        arguments = _codes(counts), as_array(reads), as_array(writes), _codes(gradients[0])
        result = _kernels.low_rank_gradients(*arguments, n_threads=_n_threads())
        to_counts, *to_weights = (torch.from_numpy(part) for part in vars(result).values())
        return to_counts.view_as(counts), *to_weights


class _HiddenEffect(torch.autograd.Function):
    """The effect of a hidden layer on the logits; the kernel returns all gradients."""

    @staticmethod
    def forward(ctx, counts: Tensor, reads: Tensor, writes: Tensor, start: Tensor) -> Tensor:
        ctx.save_for_backward(counts, reads, writes, start)
        weights = _kernels.HiddenWeights(as_array(reads), as_array(writes), as_array(start))
        return torch.from_numpy(_kernels.hidden_effect(_codes(counts), weights, _n_threads())).view_as(counts)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        counts, *tensors = ctx.saved_tensors
        weights = _kernels.HiddenWeights(*(as_array(weight) for weight in tensors))
        result = _kernels.hidden_gradients(_codes(counts), weights, _codes(gradients[0]), _n_threads())
        to_counts, *to_weights = (torch.from_numpy(part) for part in vars(result).values())
        return to_counts.view_as(counts), *to_weights


def _codes(values: Tensor):
    return as_array(values.flatten(0, -2))
