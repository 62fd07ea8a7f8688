"""The state of a run: its curves, its best point, and the progress bar."""

from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

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


class ProgressBar:
    """A progress bar with the bound, the mean number of active slots and the time left; hidden unless ``visible``."""

    def __init__(self, total: int, *, visible: bool, completed: int = 0):
        self.visible = visible
        if not visible:
            return
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(  # at most eighty columns wide
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        self._task = self._bar.add_task("fit", total=total, completed=completed, state="")

    def update(self, iteration: int, record: Record | None) -> None:
        if not self.visible:
            return
        state = ""
        if record is not None:
            state = f"bound {record.discrete:.1f} nats, {record.n_active:.1f} active"
        self._bar.update(self._task, completed=iteration, state=state)

    def __enter__(self) -> Self:
        if self.visible:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.visible:
            self._bar.stop()
