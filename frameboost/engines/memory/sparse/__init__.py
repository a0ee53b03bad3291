"""Columns where most rows have one code: only the others are stored.

- `codes`, `kernels`: the entries of each row, and their sums
- `columns`: the entries of each column, which splits compare
- `exclusive_bundles`: columns that exclude each other as one
- `matrix_engine`: the engine over a sparse matrix
"""
