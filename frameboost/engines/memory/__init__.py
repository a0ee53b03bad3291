"""The engine of arrays in memory and compiled kernels."""
