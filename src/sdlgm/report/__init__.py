"""Pictures of a fitted model, and the report that holds them."""

from sdlgm.report.html import write_report

__all__ = ["write_report"]
