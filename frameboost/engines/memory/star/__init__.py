"""Star schemas without the join: facts and their dimensions (`frameboost.join`).

- `columns`: the feature columns, and g and h in records
- `tables`: the dimensions, the row that each fact refers to, and the cuts and codes of attributes
- `keyed`: sums by key, and by the codes of the keys
- `records`: the data of a fact that a histogram reads, contiguous: keys, codes, g and h as integers
- `packed`: sums by key of these integers if h is constant
"""
