"""Forecasts that are given as samples: how likely the truth was, and how well they are calibrated."""
