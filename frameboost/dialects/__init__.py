"""The dialects of SQL, as data: how each database writes a query, and how long and deep it may be.

- `built_in`: the dialects by name
- `dialect`: a dialect, which is made of the five parts below
- `names`: quoted names, and names that a database can't have
- `literals`: thresholds, leaf values and categories
- `column_types`: SQL types of the feature types
- `expressions`: conditions, sums, functions and lists
- `statements`: queries, views and tables
- `limits`: the length and depth of a query
- `bigquery`, `clickhouse`, `duckdb`, `mysql`, `oracle`, `postgres`, `snowflake`, `spark`, `sqlite`, `trino`, `tsql`:
  the databases
"""
