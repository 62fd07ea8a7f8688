"""What changes in the course of a run, as functions of the iteration alone."""

from sdlgm.train.config import TrainConfig


def kl_weight(config: TrainConfig, iteration: int) -> float:
    """Weight of the KL: 0 at the first iteration, 1 from the end of the warm-up on."""
    warmup = config.kl_warmup * config.max_iter
    return 1.0 if iteration >= warmup else iteration / warmup


def learning_rate(config: TrainConfig, iteration: int) -> float:
    """Learning rate: constant, then linear to zero over the last ``lr_decay`` of the run."""
    decay = config.lr_decay * config.max_iter
    remaining = config.max_iter - iteration
    return config.learning_rate * (1.0 if remaining >= decay else max(remaining, 0) / decay)


def temperature(initial: float, config: TrainConfig, iteration: int) -> float:
    """Temperature on its geometric way from ``initial`` to ``final_temperature``."""
    if config.final_temperature is None:
        return initial
    progress = min(1.0, iteration / config.max_iter)
    return initial * (config.final_temperature / initial) ** progress
