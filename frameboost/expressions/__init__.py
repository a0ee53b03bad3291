"""Expressions that every engine computes alike: scalar SQL, exact sums and random draws.

- `expression`: a scalar SQL expression, such as a loss's gradient
- `syntax`: its syntax tree, checked, and written as SQL or polars
- `numbers`: its value where every name is one number
- `operators`: what both of these have alike
- `sql_writer`: the interface that dialects implement to write numbers and calls
- `ranking_terms`: aggregates over queries, and pairs of rows
- `grid`: numbers rounded so that sums are exact in any order
- `draws`: random numbers by hashing
- `row_positions`: the positions of rows, by which they are drawn
- `duckdb_sql`: identifiers and literals of training's SQL
- `sql_files`: the statements in ``sql/``
"""
