"""HTML report on a fitted model, and the figures in it. Needs the extra ``report``."""

from sdlgm.report.html import write_report

__all__ = ["write_report"]
