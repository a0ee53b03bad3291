"""The engine over a star in a database, which does not carry out its join.

- `engine`: the steps that differ from those of one table
- `plan`: which dimensions keep tables of their own
- `tables`: copies of the tables, and how often facts refer to a row
- `dimension`: keys and their codes
- `kernels`: sums of facts by the codes of their keys
"""
