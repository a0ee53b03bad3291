"""Compilers: from trees to something that scores rows, and all of it to the same bits.

- `polars`: one polars expression
- `sql`: SQL in every dialect
- `arrays`: flat arrays and the kernels that walk them, for scoring in Python
"""
