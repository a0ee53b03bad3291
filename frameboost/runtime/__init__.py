"""Compiled kernels, threads, signals, progress and clean-up.

- `kernel`: the decorator that compiles and caches a kernel, and deferred compilation
- `workers`: threads for kernels, and the minimum work per thread; availability of numba
- `team`: threads that share the work of one kernel
- `storage`: arrays in memory, or in memory-mapped files, and how much memory is left
- `control_groups`: limits of memory and processors of a container
- `intrinsics`: machine instructions that numba lacks
- `interrupts`: Ctrl-C and alarms at safe moments and during DuckDB statements; closing without hiding earlier errors
- `progress`: the progress bar
"""
