"""Engines: where the rows are, and all that is computed over them.

- `contract`: the interface of an engine, all that the rest of the package knows of it: what it has for plain trees, for
  leaves with slopes and for trees of all outputs; how it describes itself, so that it can be chosen
- `choose`: the table of engines, the choice of one, engines of other packages, and rows for metrics
- `query_costs`: what engines of queries read into memory after all, and add up by kernels
- `fixed_terms`: which terms expressions use, and which are the same in every round
- `frame`: labels, weights and margins of the two engines over frames
- `programs`: what is computed in each row, from SQL expressions
- `elementary`: EXP and LN in vector instructions, and whether they have the bits of the C library
- `ranking`: ranking, by the rows of each query and sums over their pairs
- `memory`: numpy arrays and compiled kernels (``engine="numba"``)
- `external_memory`: arrays in files, read in passes (``engine="numba"``, if the rows do not fit in memory)
- `polars`: lazy group-bys (``engine="polars"``)
- `duckdb`: queries in the user's database (``engine="duckdb"``)
- `sql`: queries in any SQL database (``engine="sql"``)
- `shards`: many engines as one (``shards=8``)
- `dask`: shards on the workers of a cluster (``engine=fb.Dask(client)``)
- `spark`: shards in the tasks of a Spark job (``engine=fb.Spark()``)
"""
