"""Schedules: functions of the position in the run alone, which `TrainConfig` explains."""

from sdlgm.train.config import TrainConfig


def kl_weight(config: TrainConfig, position: float) -> float:
    """Return the weight of the KL: 0 at the first iteration, ``rate`` from the end of the warm-up on."""
    if is_warmed_up(config, position):
        return config.rate
    return config.rate * (position / (config.kl_warmup * config.length))


def is_warmed_up(config: TrainConfig, position: float) -> bool:
    """Return whether the KL has its full weight."""
    return position >= config.kl_warmup * config.length


def learning_rate(config: TrainConfig, position: float) -> float:
    """Return the learning rate: constant, then linear to zero over the last ``lr_decay`` of the run."""
    if config.lr_decay == 0:
        return config.learning_rate
    remaining = (config.length - position) / (config.lr_decay * config.length)
    return config.learning_rate * min(1.0, max(0.0, remaining))


def temperature(initial: float, config: TrainConfig, position: float) -> float:
    """Return the temperature, which goes geometrically from ``initial`` to ``final_temperature``."""
    if config.final_temperature is None:
        return initial
    progress = min(1.0, position / config.length)
    return initial * (config.final_temperature / initial) ** progress
