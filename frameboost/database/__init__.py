"""A model in one database: queries, statements, files and DuckDB functions.

- `database_model`: the object that `Model.database` returns
- `star`: the tables that the queries of a model of a star join to the rows
- `explanations`: contributions of features, reason codes
- `deployment`: views and tables of models under one lasting name
- `self_test`: the query by which a database proves its scores
- `column_check`: the query that compares the columns of a table with those of training
- `sql_budget`: the size of SQL as a budget of training
- `drift`: a baseline of training rows, and the query that compares a table with it
- `labelled_rows`: scored rows with labels as stages of a query, and the aggregates of metrics over them
- `evaluation`: metrics, calibration, gain and confusion of a table with labels
- `comparison`: two models on the same rows
- `importance`: the importance of features on the rows of a table
- `monitoring`: measures of a table by window of time, and the statements of a history of them
- `files`: the comment at the head of SQL files
- `dbt_files`, `dbt_project`: a model's files in a dbt project, and what the project has already
- `registration`, `udf`: a model as a function of a DuckDB connection
"""
