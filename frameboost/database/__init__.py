"""A model in one database: queries, statements, files and DuckDB functions.

- `database_model`: the object that `Model.database` returns
- `star`: the tables that the queries of a model of a star join to the rows
- `explanations`: contributions of features, reason codes
- `drift`: a baseline of training rows, and the query that compares a table with it
- `evaluation`: metrics, calibration, gain and confusion of a table with labels, and two models on the same rows
- `files`: SQL files, and files of a dbt project
- `registration`, `udf`: a model as a function of a DuckDB connection
"""
