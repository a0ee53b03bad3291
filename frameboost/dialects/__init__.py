"""The dialects of SQL, as data: how each database writes a query, and how long and deep it may be.

- `built_in`: the dialects by name
- `dialect`: what a dialect consists of: names, literals, types, expressions, statements and limits
- `columns`: a column of a table, as a dialect compares it with thresholds and categories
- `draws`: random numbers by a hash of a row's position
- `bigquery`, `clickhouse`, `datafusion`, `duckdb`, `mysql`, `oracle`, `postgres`, `snowflake`, `spark`: the databases
- `sqlite`, `trino`, `tsql`: more of them
"""
