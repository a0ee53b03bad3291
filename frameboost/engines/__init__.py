"""Engines: they hold the rows and compute over them.

- `contract`: the interface of an engine, all that the rest of the package knows about it: for plain trees, linear
  leaves and vector leaves; its description
- `choose`: the table of engines, the choice of one, engines of other packages, and rows for metrics
- `query_costs`: when engines that run queries read data into memory and use kernels
- `fixed_terms`: the terms that expressions use, and those that are constant over rounds
- `frame`: labels, weights and margins of the two engines over frames
- `programs`: row-wise computation, compiled from SQL expressions
- `elementary`: EXP and LN in vector instructions, bitwise equal to the C library
- `ranking`: ranking within queries, and sums over pairs
- `memory`: numpy arrays and compiled kernels (``engine="numba"``)
- `external_memory`: arrays in files, read in passes (``engine="numba"``, if the rows do not fit in memory)
- `polars`: lazy group-bys (``engine="polars"``)
- `duckdb`: queries in the user's database (``engine="duckdb"``)
- `sql`: queries in any SQL database (``engine="sql"``)
- `shards`: many engines as one (``shards=8``)
- `dask`: shards on the workers of a cluster (``engine=fb.Dask(client)``)
- `spark`: shards in the tasks of a Spark job (``engine=fb.Spark()``)
"""
