"""Boosting, from data to an ensemble."""
