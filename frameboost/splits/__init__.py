"""The gain of a split, and the kernels that find the best one."""
