"""Losses, gradients and outputs."""
