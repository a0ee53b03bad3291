"""Predictions and explanations of an ensemble, computed in Python."""
