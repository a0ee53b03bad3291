"""Facts whose dimensions are not joined to them (`frameboost.join`).

- `engine`: the steps that differ from those of one table
- `tables`: the dimensions, the row that each fact refers to, and the cuts and codes of attributes
- `keyed`: the keys and codes of a fact side by side, sums by key, and by the codes of keys
"""
