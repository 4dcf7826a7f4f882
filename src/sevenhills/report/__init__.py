"""Pages in one file that needs nothing else: what a fit found, what an evaluation found."""

from .forecast_page import forecast_html, forecast_report

__all__ = ["forecast_html", "forecast_report"]
