"""Several tables as one, `frameboost.join`: facts, and what is known of their keys.

- `star`: the public face: `join`, and the `Star` that it returns
- `table_names`: the name of the table that a relation is
- `dimension`: a table that is joined by its key, and the names of its columns
- `keys`: types of keys that can be equal, and keys that occur once
- `frames`: a star of polars frames as a source
- `relations`: a star of DuckDB relations as a source
- `aggregates`: a table with many rows a key as one row a key, `frameboost.aggregate`
- `aggregation`: what is aggregated, as fits, models and queries share it
- `aggregation_sql`: aggregates as SQL
- `recorded`: the joins as a model holds them
"""
