"""Expressions that every engine computes alike: scalar SQL, exact sums and random draws.

- `expression`: a scalar SQL expression, such as a gradient: validated, translated to SQL or polars, or evaluated
- `grid`: numbers rounded so that sums are exact in any order, and aggregates over rows
- `draws`: random numbers by hashing row positions
- `duckdb_sql`: identifiers and literals of training's SQL, and the statements in ``sql/``
"""
