"""HTML reports on fitted models, and the figures in them. Need the extra ``report``."""

from sdlgm.report.code_report import write_report
from sdlgm.report.label_report import write_label_report

__all__ = ["write_label_report", "write_report"]
