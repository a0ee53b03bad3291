"""Cuts of a feature, and columns of bin numbers."""
