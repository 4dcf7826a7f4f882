"""Reports in one HTML file: about a fit, and about an evaluation of forecasts."""

from .evaluation_report import forecast_report
from .fit_report import build_report
from .page import Report

__all__ = ["Report", "build_report", "forecast_report"]
