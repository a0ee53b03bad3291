"""Ranking in memory, for the engines that hold rows there.

- `queries`: the rows of each query, and windows over them
- `pair_sums`, `pair_kernels`: sums over the pairs of a query's rows
"""
