"""A star in a database, whose join is not carried out.

- `keys`: the tables that the engine reads features from, and the keys of dimensions
- `tables`: which dimensions keep tables of their own, and copies of them
- `kernels`: sums of facts by the codes of their keys
"""
