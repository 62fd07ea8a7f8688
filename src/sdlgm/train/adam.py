"""Adam and AdamW, in the fused operations of torch.

The optimisers of `torch.optim` import torch's compiler and a computer algebra system when the first one is made, which
takes longer than many a fit. This is the same update without them; a test compares the two bit for bit.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

_ops: Any = torch  # its operations for lists of tensors, which have no public names

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""The values that Kingma and Ba (2015) recommend, and the defaults of torch."""

Moments = dict[str, Tensor]
"""``step``, ``exp_avg`` and ``exp_avg_sq`` of a parameter, as `torch.optim` names them."""


class Adam:
    """Adam (Kingma and Ba, 2015), or AdamW (Loshchilov and Hutter, 2019) with ``weight_decay``.

    Parameters
    ----------
    parameters : iterable of Parameter
    learning_rate : float
    weight_decay : float, default=0.0

    """

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float, weight_decay: float = 0.0):
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.groups: list[list[nn.Parameter]] = [list(parameters)]
        self.state: dict[nn.Parameter, Moments] = {}

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All parameters, group by group. Moments are numbered in this order."""
        return [parameter for group in self.groups for parameter in group]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        update = _ops._fused_adamw_ if self.weight_decay else _ops._fused_adam_
        for group in self.groups:
            # One call for each kind of tensor; in most models there is one kind.
            kinds: dict[object, list[nn.Parameter]] = defaultdict(list)
            for parameter in group:
                if parameter.grad is not None:
                    kinds[parameter.device, parameter.dtype].append(parameter)
            for parameters in kinds.values():
                moments = [self._moments(parameter) for parameter in parameters]
                steps = [of_parameter["step"] for of_parameter in moments]
                _ops._foreach_add_(steps, 1)
                update(
                    parameters,
                    [parameter.grad for parameter in parameters],
                    [of_parameter["exp_avg"] for of_parameter in moments],
                    [of_parameter["exp_avg_sq"] for of_parameter in moments],
                    [],
                    steps,
                    lr=self.learning_rate,
                    beta1=BETA1,
                    beta2=BETA2,
                    weight_decay=self.weight_decay,
                    eps=EPSILON,
                    amsgrad=False,
                    maximize=False,
                )

    def _moments(self, parameter: nn.Parameter) -> Moments:
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]

    def moments(self) -> dict[int, Moments]:
        """Return copies of the moments by the number of the parameter."""
        return {
            number: {name: tensor.clone() for name, tensor in self.state[parameter].items()}
            for number, parameter in enumerate(self.parameters)
            if parameter in self.state
        }

    def load_moments(self, moments: dict[int, Moments]) -> None:
        """Set the moments, as `moments` returned them. The memory layout becomes that of the parameters."""
        parameters = self.parameters
        self.state = {}
        for number, loaded in moments.items():
            for name, tensor in self._moments(parameters[number]).items():
                tensor.copy_(loaded[name])
