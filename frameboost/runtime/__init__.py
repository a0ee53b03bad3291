"""What runs the rest: compiled kernels, threads, signals, progress and clean-up.

- `kernel`: the decorator that compiles and caches a kernel, and what to do without one for the time being
- `workers`: threads for kernels, and the least work that pays another one; whether there is numba
- `team`: threads that share the work of one kernel
- `storage`: arrays in memory, or in memory-mapped files, and how much memory is left
- `control_groups`: limits of memory and processors of a container
- `intrinsics`: machine instructions that numba lacks
- `interrupts`: Ctrl-C and alarms at safe moments, and during a statement of DuckDB; closing that does not hide an
  earlier error
- `progress`: the progress bar
"""
