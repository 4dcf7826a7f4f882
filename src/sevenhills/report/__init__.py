"""Reports in one HTML file: about a fit, and about an evaluation of forecasts."""

from .evaluation_report import forecast_html, forecast_report
from .fit_report import build_report, report
from .page import Report

__all__ = ["Report", "build_report", "forecast_html", "forecast_report", "report"]
