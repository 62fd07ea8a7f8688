"""One step of training, and everything that a run has to remember between two of them."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sdlgm.errors import TrainingDivergedError
from sdlgm.gradients import GRADIENTS, GradientEstimator
from sdlgm.model import Objective, SDLGMModule
from sdlgm.model.shards import WHOLE, working_on
from sdlgm.train import schedules
from sdlgm.train.batches import binarize
from sdlgm.train.config import TrainConfig
from sdlgm.train.processes import ALONE, Processes
from sdlgm.train.seeds import seeded


class Trainer:
    """Module, optimiser, noise and iteration counter."""

    def __init__(self, module: SDLGMModule, config: TrainConfig, seed: int, processes: Processes = ALONE):
        self.module = module
        self.processes = processes
        self.iteration = 0
        self.seed = seed
        self.device = next(module.parameters()).device
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self._take(config)
        for name, parameter in module.named_parameters():
            if name in ("log_gate_temperature", "log_feature_temperature"):
                parameter.requires_grad_(config.learn_temperature)
        self._learning: _Learning | None = None

    @property
    def estimator(self) -> GradientEstimator:
        return self._started().estimator

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        return self._started().optimizer

    def _started(self) -> "_Learning":
        """What only training needs, made when it begins: a model from a file may be there to be used."""
        if self._learning is None:
            self._learning = _Learning(self._new_optimizer(), self._new_estimator())
        return self._learning

    def _new_optimizer(self) -> torch.optim.Optimizer:
        trained = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        if not self.config.weight_decay:
            return torch.optim.Adam(trained, lr=self.config.learning_rate, fused=True)
        return torch.optim.AdamW(
            trained, lr=self.config.learning_rate, weight_decay=self.config.weight_decay, fused=True
        )

    def _new_estimator(self) -> GradientEstimator:
        kind = GRADIENTS[self.config.gradient]
        return seeded(lambda: kind(self.module.posterior.n_logits), self.seed).to(self.device)

    def configure(self, config: TrainConfig) -> None:
        """Go on with other options of training."""
        other_gradient = config.gradient != self.config.gradient
        self._take(config)
        if other_gradient:
            self._started().use(self._new_estimator())

    def _take(self, config: TrainConfig) -> None:
        self.config = config
        self.module.steep = GRADIENTS[config.gradient].steepens

    def step(self, rows: Tensor) -> Objective:
        """One update of all parameters from a batch of rows, of which each process takes its part."""
        module, config = self.module, self.config
        weight = schedules.kl_weight(config, self.iteration)
        self._follow_schedules(weight)
        if not module.training:
            module.train()
        self.optimizer.zero_grad()
        with working_on(self.processes.shard):
            objective = self._objective(rows, weight)
            loss = -objective.value.mean()
            if not math.isfinite(self.processes.sum([loss.item()])[0]):
                raise TrainingDivergedError(f"{_first_bad_term(objective)} is not finite at iteration {self.iteration}")
            loss.backward()
        self.processes.average_gradients(self.trained())
        self._scale_encoder_gradient()
        self.optimizer.step()
        self.iteration += 1
        return objective

    def _objective(self, rows: Tensor, kl_weight: float) -> Objective:
        with working_on(WHOLE):  # every process has all rows
            x = self.processes.own(binarize(rows, self.config.binarize, self.generator))
        return self.module.objective(x, self._expectation, self.config.kl, kl_weight)

    def trained(self) -> Iterator[nn.Parameter]:
        """The parameters in the order of the optimiser."""
        for group in self.optimizer.param_groups:
            yield from group["params"]

    def snapshot(self) -> "Snapshot":
        """All that a divergence could spoil."""
        state = parameters_of(self.module), parameters_of(self.estimator)
        moments = copy.deepcopy(self.optimizer.state_dict()["state"])
        noise = self.generator.get_state()
        return Snapshot(self.iteration, self.config, self.estimator, *state, moments, noise)

    def go_back(self, snapshot: "Snapshot") -> None:
        """Return to where a snapshot was taken."""
        self.iteration = snapshot.iteration
        self._take(snapshot.config)
        self.module.load_state_dict(snapshot.module_state)
        self._started().use(snapshot.estimator)
        self.estimator.load_state_dict(snapshot.estimator_state)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": snapshot.moments, "param_groups": groups})
        self.generator.set_state(snapshot.noise)

    def check_finite(self) -> None:
        """Refuse parameters that are not numbers, before they are kept anywhere."""
        for name, parameter in (*self.module.named_parameters(), *self.estimator.named_parameters()):
            if not bool(torch.isfinite(parameter).all()):
                raise TrainingDivergedError(f"the parameter {name} is not finite after iteration {self.iteration}")

    def _expectation(self, posterior, log_likelihood) -> Tensor:
        return self.estimator(
            posterior,
            log_likelihood,
            n_samples=self.config.n_samples,
            temperatures=self.module.temperatures,
            generator=self.generator,
        )

    def _scale_encoder_gradient(self) -> None:
        divisor = self.estimator.encoder_divisor
        if divisor != 1.0:
            for parameter in self.module.posterior.parameters():
                if parameter.grad is not None:
                    parameter.grad /= divisor

    def _follow_schedules(self, weight: float) -> None:
        module, config = self.module, self.config
        for group in self.optimizer.param_groups:
            group["lr"] = schedules.learning_rate(config, self.iteration)
        if config.final_temperature is not None:
            for log_temperature, initial in (
                (module.log_gate_temperature, module.config.gate_temperature),
                (module.log_feature_temperature, module.config.feature_temperature),
            ):
                log_temperature.data.fill_(math.log(schedules.temperature(initial, config, self.iteration)))
        # A prior that moves while the KL is still being phased in follows codes that mean nothing yet, and starves
        # the features that are rare by chance.
        if (prior := getattr(module, "prior", None)) is not None:
            for parameter in prior.parameters():
                parameter.requires_grad_(weight == 1.0)


class _Learning:
    """The optimiser, and the gradient estimator with what it learns."""

    def __init__(self, optimizer: torch.optim.Optimizer, estimator: GradientEstimator):
        self.optimizer = optimizer
        self.use(estimator)

    def use(self, estimator: GradientEstimator) -> None:
        """Its parameters, if it has any, are a group of their own after that of the module; one before it is gone."""
        self.estimator = estimator
        for group in self.optimizer.param_groups[1:]:
            for parameter in group["params"]:
                self.optimizer.state.pop(parameter, None)
        del self.optimizer.param_groups[1:]
        parameters = list(estimator.parameters())
        if parameters:
            self.optimizer.add_param_group({"params": parameters})


@dataclass(frozen=True)
class Snapshot:
    """A trainer at some iteration."""

    iteration: int
    config: TrainConfig
    estimator: GradientEstimator
    module_state: dict[str, Tensor]
    estimator_state: dict[str, Tensor]
    moments: dict[int, Any]
    """Of the optimiser."""
    noise: Tensor
    """State of the generator."""


def _first_bad_term(objective: Objective) -> str:
    for name in ("log_likelihood", "kl"):
        if not bool(torch.isfinite(getattr(objective, name)).all()):
            return name
    return "the loss"


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """A copy of the module's state on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}
