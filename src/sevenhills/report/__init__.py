"""Pages in one file that needs nothing else: what a fit found, what an evaluation found."""

from .contents import build_report, report
from .forecast_page import forecast_html, forecast_report
from .page import Report

__all__ = ["Report", "build_report", "forecast_html", "forecast_report", "report"]
