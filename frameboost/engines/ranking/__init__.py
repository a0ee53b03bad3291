"""Ranking in memory, for engines with rows in memory.

- `queries`: the rows of each query, and windows over them
- `rank_kernels`: the rows of each query, sorted by a number
- `pairs`: sums over the pairs of a query's rows
"""
