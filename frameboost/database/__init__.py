"""A model in one database: queries, statements, files and DuckDB functions.

- `database_model`: the object that `Model.database` returns
- `scoring_options`: the options of a scoring query
- `lookup_columns`: the column by which an output looks a number up
- `star_tables`: the tables that the queries of a model join to the rows
- `explanation_query`: contributions of features, reason codes
- `registration`, `functions`, `udf`: a model as a function of a DuckDB connection
- `file_header`, `dbt`: SQL files, and files of a dbt project
- `drift`: a baseline of training rows, and the query that compares a table with it
"""
