"""Several tables as one, `frameboost.join`: facts, and what is known of their keys.

- `star`: `join`, and the `Star` that it returns; checks of keys
- `star_sources`: facts and dimensions as the data of a fit, and the joins as a model holds them
- `aggregates`: a table with many rows a key as one row a key, `frameboost.aggregate`; in polars and as SQL
"""
