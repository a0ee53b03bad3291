"""Trees as arrays, for kernels."""
