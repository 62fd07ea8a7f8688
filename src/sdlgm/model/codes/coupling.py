"""How the features of a chain act on later features: by a matrix, or through a state of few units.

A coupling adds to the log-odds of a feature k what the features j < k that are present say about it:

- `DenseCoupling`: sum_{j < k} n_j matrix_jk. It has K x K numbers.
- `StateCoupling`: reads_k . a(start + sum_{j < k} n_j writes_j) with H units. Time and memory grow with K H. With
  a(s) = s the coupling is a matrix of rank H above its diagonal. With rectified units it is the hidden layer of a
  neural autoregressive density estimator (Larochelle and Murray, AISTATS 2011).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order


class Coupling(ABC):
    """The effect of the features of a code on the log-odds of later features."""

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """All weights."""

    @abstractmethod
    def divided_by(self, temperature: Float[Tensor, ""]) -> "Coupling":
        """Return the coupling with all its effects divided by a temperature."""

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

    @abstractmethod
    def draw_relaxed(
        self, logits: Float[Tensor, "batch K"], logistic: Float[Tensor, "S batch K"], temperature: float, n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        """Draw relaxed codes from logistic noise; on the CPU, whatever the device."""

    @abstractmethod
    def with_slopes(
        self,
        logits: Float[Tensor, "batch K"],
        drawn: Float[Tensor, "S batch K"],
        slopes: Float[Tensor, "S batch K"],
    ) -> Float[Tensor, "S batch K"]:
        """Return drawn codes as a function of logits and weights, with the slope of each feature in its own logit.

        With g_k the gradient of feature k from outside and s_k its slope, the gradient of its conditional logit is
        d_k = s_k (g_k + sum_{j > k} d_j (effect of k on the logit of j)), from the last feature to the first.
        """


@dataclass(frozen=True)
class DenseCoupling(Coupling):
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
        return _like(uniform, _kernels.draw_chain(rows, as_array(self.matrix.cpu()), noise, n_slots))

    def draw_relaxed(
        self, logits: Float[Tensor, "batch K"], logistic: Float[Tensor, "S batch K"], temperature: float, n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        rows, noise = _repeated(logits, len(logistic)), as_array(logistic.flatten(0, 1).cpu())
        matrix = as_array(self.matrix.cpu())
        return _like(logistic, _kernels.draw_relaxed_chain(rows, matrix, noise, temperature, n_slots))

    def with_slopes(
        self,
        logits: Float[Tensor, "batch K"],
        drawn: Float[Tensor, "S batch K"],
        slopes: Float[Tensor, "S batch K"],
    ) -> Float[Tensor, "S batch K"]:
        return _DrawnByMatrix.apply(logits, self.matrix, drawn, slopes)


@dataclass(frozen=True)
class StateCoupling(Coupling):
    """A state to which present features write, and from which the log-odds of later features are read."""

    reads: Float[Tensor, "K H"]
    writes: Float[Tensor, "K H"]
    start: Float[Tensor, " H"]
    rectified: bool
    """Whether max(state, 0) is read, and not the state itself."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.reads, self.writes, self.start

    def divided_by(self, temperature: Float[Tensor, ""]) -> "StateCoupling":
        return StateCoupling(self.reads / temperature, self.writes, self.start, self.rectified)

    def conditional_logits(
        self, logits: Float[Tensor, "rows K"], counts: Float[Tensor, "*codes K"]
    ) -> Float[Tensor, "*codes K"]:
        if not arrays.has_kernels(counts):
            return self._plain_logits(logits, counts)
        return _StateLogits.apply(logits, counts, *self.tensors, self.rectified)

    def _plain_logits(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Return the conditional logits by torch's operations, with K H numbers for each code."""
        written = counts.unsqueeze(-1) * self.writes
        state = self.start + written.cumsum(-2) - written
        units = torch.relu(state) if self.rectified else state
        return logits + (units * self.reads).sum(-1)

    @property
    def _weights(self) -> "_kernels.StateWeights":
        reads, writes, start = (as_array(weight.cpu()) for weight in self.tensors)
        return _kernels.StateWeights(reads, writes, start, self.rectified)

    def draw(
        self, logits: Float[Tensor, "batch K"], uniform: Float[Tensor, "S batch K"], n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        noise = as_array(uniform.flatten(0, 1).cpu())
        return _like(uniform, _kernels.draw_state_chain(as_array(logits.cpu()), self._weights, noise, n_slots))

    def draw_relaxed(
        self, logits: Float[Tensor, "batch K"], logistic: Float[Tensor, "S batch K"], temperature: float, n_slots: int
    ) -> Float[Tensor, "S batch K"]:
        base, noise = as_array(logits.cpu()), as_array(logistic.flatten(0, 1).cpu())
        return _like(logistic, _kernels.draw_relaxed_state_chain(base, self._weights, noise, temperature, n_slots))

    def with_slopes(
        self,
        logits: Float[Tensor, "batch K"],
        drawn: Float[Tensor, "S batch K"],
        slopes: Float[Tensor, "S batch K"],
    ) -> Float[Tensor, "S batch K"]:
        return _DrawnByState.apply(logits, *self.tensors, self.rectified, drawn, slopes)


def _repeated(logits: Tensor, n_samples: int):
    return as_array(logits.detach().repeat(n_samples, 1).cpu())


def _like(noise: Tensor, counts) -> Tensor:
    return torch.from_numpy(counts).to(noise.device).unflatten(0, noise.shape[:2])


class _DrawnByMatrix(torch.autograd.Function):
    """Drawn features with given slopes: d is the gradient of the logits, and n_j d_k that of matrix_jk."""

    @staticmethod
    def forward(ctx, logits: Tensor, matrix: Tensor, drawn: Tensor, slopes: Tensor) -> Tensor:  # noqa: ARG004
        ctx.save_for_backward(matrix, drawn, slopes)
        return drawn.view_as(drawn)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        matrix, drawn, slopes = ctx.saved_tensors
        parts = (as_array(part.cpu()) for part in (matrix, slopes.flatten(0, 1), gradient.flatten(0, 1)))
        to_logits = torch.from_numpy(_kernels.chain_gradients(*parts)).to(gradient.device)
        to_matrix = torch.triu(drawn.flatten(0, 1).T @ to_logits, 1)
        return to_logits.unflatten(0, drawn.shape[:2]).sum(0), to_matrix, None, None


class _DrawnByState(torch.autograd.Function):
    """Drawn features with given slopes; the kernel returns all gradients."""

    @staticmethod
    def forward(
        ctx,
        logits: Tensor,  # noqa: ARG004
        reads: Tensor,
        writes: Tensor,
        start: Tensor,
        rectified: bool,
        drawn: Tensor,
        slopes: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(reads, writes, start, drawn, slopes)
        ctx.rectified = rectified
        return drawn.view_as(drawn)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        reads, writes, start, drawn, slopes = ctx.saved_tensors
        weights = StateCoupling(reads, writes, start, ctx.rectified)._weights
        counts, outer, slope = (as_array(part.flatten(0, 1).cpu()) for part in (drawn, gradient, slopes))
        result = _kernels.drawn_state_gradients(counts, weights, outer, slope)
        to_logits, *to_weights = _gradients_on(gradient, result)
        return to_logits.unflatten(0, drawn.shape[:2]).sum(0), *to_weights, None, None, None


class _StateLogits(torch.autograd.Function):
    """Conditional logits of given codes; the kernel returns all gradients."""

    @staticmethod
    def forward(
        ctx, logits: Tensor, counts: Tensor, reads: Tensor, writes: Tensor, start: Tensor, rectified: bool
    ) -> Tensor:
        weights = StateCoupling(reads, writes, start, rectified)._weights
        flat = as_array(counts.flatten(0, -2))
        ctx.save_for_backward(reads, writes, start, counts)
        ctx.rectified, ctx.base = rectified, logits.shape
        return torch.from_numpy(_kernels.state_logits(as_array(logits.flatten(0, -2)), flat, weights)).view_as(counts)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        reads, writes, start, counts = ctx.saved_tensors
        weights = StateCoupling(reads, writes, start, ctx.rectified)._weights
        result = _kernels.state_gradients(as_array(counts.flatten(0, -2)), weights, as_array(gradient.flatten(0, -2)))
        to_counts, *to_weights = _gradients_on(gradient, result)
        return gradient.sum_to_size(ctx.base), to_counts.view_as(counts), *to_weights, None


def _gradients_on(like: Tensor, result: "_kernels.StateGradients") -> list[Tensor]:
    """Return the gradients of rows, reads, writes and start on the device of a tensor."""
    parts = result.rows, result.reads, result.writes, result.start
    return [torch.from_numpy(part).to(like.device) for part in parts]
