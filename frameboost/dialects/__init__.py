"""The dialects of SQL as data: how each database writes a query, and its limits.

- `built_in`: the dialects by name
- `dialect`: the parts of a dialect: names, literals, types, expressions, statements and limits
- `columns`: a column of a table, and its comparisons with thresholds and categories
- `draws`: random numbers by a hash of row position
- `bigquery`, `clickhouse`, `datafusion`, `duckdb`, `mysql`, `oracle`, `postgres`, `snowflake`, `spark`: the databases
- `sqlite`, `trino`, `tsql`: more of them
"""
