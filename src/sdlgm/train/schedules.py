"""Schedules: functions of the iteration alone."""

from sdlgm.train.config import TrainConfig


def kl_weight(config: TrainConfig, iteration: int) -> float:
    """Return the weight of the KL: 0 at the first iteration, ``rate`` from the end of the warm-up on."""
    if is_warmed_up(config, iteration):
        return config.rate
    return config.rate * (iteration / (config.kl_warmup * config.max_iter))


def is_warmed_up(config: TrainConfig, iteration: int) -> bool:
    """Return whether the KL has its full weight."""
    return iteration >= config.kl_warmup * config.max_iter


def learning_rate(config: TrainConfig, iteration: int) -> float:
    """Return the learning rate: constant, then linear to zero over the last ``lr_decay`` of the run."""
    if config.lr_decay == 0:
        return config.learning_rate
    remaining = (config.max_iter - iteration) / (config.lr_decay * config.max_iter)
    return config.learning_rate * min(1.0, max(0.0, remaining))


def temperature(initial: float, config: TrainConfig, iteration: int) -> float:
    """Return the temperature, which goes geometrically from ``initial`` to ``final_temperature``."""
    if config.final_temperature is None:
        return initial
    progress = min(1.0, iteration / config.max_iter)
    return initial * (config.final_temperature / initial) ** progress
