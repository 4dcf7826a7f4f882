"""One HTML file about a fit, which needs no network."""

from .contents import build_report, report
from .page import Report

__all__ = ["Report", "build_report", "report"]
