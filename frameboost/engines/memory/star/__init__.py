"""Facts whose dimensions are not joined to them (`frameboost.join`).

- `columns`: the columns that an engine reads, and g and h in records
- `tables`: the dimensions, the row that each fact refers to, and the cuts and codes of attributes
- `keyed`: sums by key, and by the codes of keys
- `records`: what a histogram reads of a fact, side by side: keys, codes, g and h as whole numbers
- `packed`: sums by key of these numbers where h is the same in all rows
"""
