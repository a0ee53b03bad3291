"""The engine over a star in a database, which does not carry out its join.

- `engine`: the steps that differ from those of one table, and the keys of dimensions
- `tables`: which dimensions keep tables of their own, and copies of them
- `kernels`: sums of facts by the codes of their keys
"""
