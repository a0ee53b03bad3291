"""Ensembles of trees, and the model file."""
