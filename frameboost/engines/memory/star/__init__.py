"""Facts whose dimensions are not joined to them (`frameboost.join`).

- `engine`: the steps that differ from those of one table
- `tables`: the dimensions, with the row that each fact refers to
- `bins`: cuts and codes of attributes, once a row of their dimension
- `codes`, `kernels`: sums by key, and by the codes of keys
- `records`: what a histogram reads of a fact, side by side
- `gradients`, `packed`, `number_kernels`: g and h of facts as whole numbers in their records
- `packed_kernels`: sums by key of these numbers where h is the same in all rows
"""
