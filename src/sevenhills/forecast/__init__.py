"""Forecasts that are given as samples: how likely the truth was, how well they are calibrated."""
