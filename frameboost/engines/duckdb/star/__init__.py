"""A star schema in DuckDB, without the join.

- `keys`: the tables that the engine reads features from, and the keys of dimensions
- `tables`: the choice of dimensions with separate tables, and copies of them
- `kernels`: sums of facts by the codes of their keys
"""
