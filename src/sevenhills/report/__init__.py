"""Pages that say what an evaluation found, in one file that needs nothing else."""

from .page import report_html, write_report

__all__ = ["report_html", "write_report"]
