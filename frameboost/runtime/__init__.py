"""What runs the rest: compiled kernels, threads, signals, progress and clean-up.

- `kernel`: the decorator that compiles and caches a kernel, and what to do without one for the time being
- `installed`: whether there is numba
- `workers`: threads for kernels, and the least work that pays another one
- `team`: threads that share the work of one kernel
- `storage`: arrays in memory, or in memory-mapped files, and how much memory is left
- `intrinsics`: machine instructions that numba lacks
- `interrupts`: Ctrl-C and alarms at safe moments
- `duckdb_errors`: Ctrl-C during a statement of DuckDB
- `progress`: the progress bar
- `cleanup`: closing that does not hide an earlier error
"""
