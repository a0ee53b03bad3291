"""Compiled kernels, threads, signals and clean-up: what runs the rest."""
