"""The state of a run: its curves and its best point."""

from dataclasses import dataclass, field

from torch import Tensor

from sdlgm.train.monitor import Record


@dataclass
class Progress:
    """The curve so far and, with early stopping, the best parameters on it."""

    history: list[Record] = field(default_factory=list)
    best_parameters: dict[str, Tensor] | None = None
    n_without_improvement: int = 0
    interrupted: bool = False
    """Whether SIGINT ended the run early."""

    def best(self, rate: float) -> float:
        """Return the largest objective so far."""
        return max((record.objective(rate) for record in self.history), default=float("-inf"))


def state_of_run(record: Record | None) -> str:
    """Return what the last point of the curves says, for the progress bar."""
    return "" if record is None else f"bound {record.discrete:.1f} nats, {record.n_active:.1f} active"
