"""What runs the rest: compiled kernels, threads, signals, progress and clean-up.

- `kernel`: the decorator that compiles and caches a kernel
- `compile_later`: which work to do without a kernel, while it is not worth compiling
- `installed`: whether there is numba
- `workers`, `task_sizes`: threads for kernels, and the least work that pays another one
- `storage`: arrays in memory, or in memory-mapped files
- `available_memory`: how much memory is left
- `team_kernels`, `team_intrinsics`: threads that share the work of one kernel
- `intrinsics`: machine instructions that numba lacks
- `interrupts`: Ctrl-C and alarms at safe moments
- `duckdb_errors`: Ctrl-C during a statement of DuckDB
- `progress`: the progress bar
- `cleanup`: closing that does not hide an earlier error
"""
