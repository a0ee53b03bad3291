"""Ranking in memory, for the engines that hold rows there.

- `queries`: the rows of each query, and windows over them
- `rank_kernels`: the rows of each query in the order of a number
- `pairs`: sums over the pairs of a query's rows
"""
