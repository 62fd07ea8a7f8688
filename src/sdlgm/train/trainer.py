"""One step of training, and the state of a run between two of them."""

import math
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from sdlgm.errors import TrainingDivergedError
from sdlgm.gradients import GRADIENTS, GradientEstimator
from sdlgm.model.modules.base import Batch, Objective, Step, TrainableModule
from sdlgm.model.noise import Noise
from sdlgm.train import schedules
from sdlgm.train.adam import Adam, Moments
from sdlgm.train.batches import binarize
from sdlgm.train.config import TrainConfig
from sdlgm.train.processes import ALONE, Processes
from sdlgm.train.seeds import seeded

Module = TypeVar("Module", bound=TrainableModule)


class Trainer(Generic[Module]):
    """Module, optimiser, gradient estimator, noise and iteration counter.

    Parameters
    ----------
    module : TrainableModule
        Trained in place.
    config : TrainConfig
    seed : int
        Seed of the noise.
    processes : Processes, default=ALONE
        The processes that share every batch.
    iteration : int, default=0
        Iterations that the module has been trained for already.
    n_rows : int or None, default=None
        Number of training rows, on which the penalty of the weights depends; None for no penalty.

    """

    def __init__(
        self,
        module: Module,
        config: TrainConfig,
        seed: int,
        processes: Processes = ALONE,
        iteration: int = 0,
        n_rows: int | None = None,
    ):
        self.module = module
        self.config = config
        self.processes = processes
        self.iteration = iteration
        self.seconds = 0.0  # used so far; the loop counts them if ``max_time`` limits the run
        self.n_rows = n_rows
        self.seed = seed
        self.device = next(module.parameters()).device
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.training_sum, self.n_training_steps = 0.0, 0
        for parameter in module.temperature_parameters():
            parameter.requires_grad_(config.learn_temperature)
        for parameter in module.prior_parameters():  # an earlier run may have stopped during the warm-up
            parameter.requires_grad_(True)
        self.optimizer = self._new_optimizer()
        self._add_estimator(self._new_estimator())

    def _new_optimizer(self) -> Adam:
        trained = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        return Adam(trained, self.config.learning_rate, self.config.weight_decay)

    def _new_estimator(self) -> GradientEstimator:
        kind = GRADIENTS[self.config.gradient]
        return seeded(lambda: kind(self.module.n_logits), self.seed).to(self.device)

    def _add_estimator(self, estimator: GradientEstimator) -> None:
        """Set the gradient estimator, and add its parameters to the optimiser as a second group."""
        self.estimator = estimator
        for group in self.optimizer.groups[1:]:
            for parameter in group:
                self.optimizer.state.pop(parameter, None)
        del self.optimizer.groups[1:]
        parameters = list(estimator.parameters())
        if parameters:
            self.optimizer.groups.append(parameters)

    def configure(self, config: TrainConfig) -> None:
        """Continue with other options of training."""
        other_gradient = config.gradient != self.config.gradient
        self.config = config
        if other_gradient:
            self._add_estimator(self._new_estimator())

    @property
    def position(self) -> float:
        """Position in the run, on which the schedules depend."""
        return self.config.position(self.iteration, self.seconds)

    @property
    def is_over(self) -> bool:
        """Whether a limit of the run is reached. There is one iteration at least."""
        return self.iteration > 0 and self.position >= self.config.length

    def step(self, batch: Batch) -> Objective:
        """Update all parameters from a batch, of which each process takes its part."""
        module, config, shard = self.module, self.config, self.processes.shard
        kl_weight = schedules.kl_weight(config, self.position)
        self._follow_schedules()
        if not module.training:
            module.train()
        self.optimizer.zero_grad()
        # Every process binarises the whole batch, so that all draw the same noise.
        batch = replace(batch, x=binarize(batch.x, config.binarize, Noise(self.generator))).part(shard)
        noise = Noise(self.generator, shard)
        step = Step(self.estimator, config.kl, kl_weight, config.n_samples, noise, config.n_search_steps)
        objective = module.loss(batch, step)
        loss = -weighted(objective.value, batch.weight).mean()
        total = self.processes.sum([loss.item()])[0]
        if not math.isfinite(total):
            raise TrainingDivergedError(f"{_first_bad_term(objective)} is not finite at iteration {self.iteration}")
        weight_penalty = None if self.n_rows is None else module.weight_penalty(self.n_rows)
        for penalty in (weight_penalty, objective.penalty):  # not a part of the bound that is reported
            if penalty is not None:
                loss = loss + penalty
        loss.backward()
        self.processes.average_gradients(self.trained())
        self._scale_encoder_gradient()
        self.optimizer.step()
        self.iteration += 1
        self.training_sum, self.n_training_steps = self.training_sum - total / shard.size, self.n_training_steps + 1
        return objective

    def take_training_mean(self, log_jacobian: float = 0.0) -> float | None:
        """Return the mean objective of the steps since the last call, and start a new mean."""
        total, n_steps = self.training_sum, self.n_training_steps
        self.training_sum, self.n_training_steps = 0.0, 0
        return total / n_steps + log_jacobian if n_steps else None

    def trained(self) -> list[nn.Parameter]:
        """Return the trained parameters in the order of the optimiser."""
        return self.optimizer.parameters

    def snapshot(self) -> "Snapshot":
        """Return a copy of everything that a divergence could spoil."""
        return Snapshot(
            iteration=self.iteration,
            config=self.config,
            estimator=self.estimator,
            module_state=state_of(self.module),
            estimator_state=state_of(self.estimator),
            moments=self.optimizer.moments(),
            noise=self.generator.get_state(),
            training=(self.training_sum, self.n_training_steps),
        )

    def go_back(self, snapshot: "Snapshot") -> None:
        """Return to where a snapshot was taken."""
        self.iteration = snapshot.iteration
        self.config = snapshot.config
        self.module.load_state_dict(snapshot.module_state)
        self._add_estimator(snapshot.estimator)
        self.estimator.load_state_dict(snapshot.estimator_state)
        self.optimizer.load_moments(snapshot.moments)
        self.generator.set_state(snapshot.noise)
        self.training_sum, self.n_training_steps = snapshot.training

    def check_finite(self) -> None:
        """Raise if a parameter is not finite."""
        for name, parameter in (*self.module.named_parameters(), *self.estimator.named_parameters()):
            if not bool(torch.isfinite(parameter).all()):
                raise TrainingDivergedError(f"the parameter {name} is not finite after iteration {self.iteration}")

    def _scale_encoder_gradient(self) -> None:
        divisor = self.estimator.encoder_divisor
        if divisor != 1.0:
            for parameter in self.module.encoder_parameters():
                if parameter.grad is not None:
                    parameter.grad /= divisor

    def _follow_schedules(self) -> None:
        config, position = self.config, self.position
        self.optimizer.learning_rate = schedules.learning_rate(config, position)
        if config.final_temperature is not None:
            self.module.schedule_temperatures(lambda initial: schedules.temperature(initial, config, position))
        # While the KL is phased in, codes carry little information. A prior that followed them would give low
        # probability to features that are rare by chance.
        warmed_up = schedules.is_warmed_up(config, position)
        for parameter in self.module.prior_parameters():
            parameter.requires_grad_(warmed_up)


@dataclass(frozen=True)
class Snapshot:
    """A trainer at some iteration."""

    iteration: int
    config: TrainConfig
    estimator: GradientEstimator
    module_state: dict[str, Tensor]
    estimator_state: dict[str, Tensor]
    moments: dict[int, Moments]
    """State of the optimiser."""
    noise: Tensor
    """State of the generator."""
    training: tuple[float, int]
    """Sum and number of the training objectives since the last point of the curves."""


def weighted(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return values times the weights of their rows, which come once for each member of an ensemble."""
    return values if weight is None else weight.repeat(len(values) // len(weight)) * values


def _first_bad_term(objective: Objective) -> str:
    for name in ("log_likelihood", "kl"):
        if not bool(torch.isfinite(getattr(objective, name)).all()):
            return name
    return "the loss"


def state_of(module: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the module's state on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}
