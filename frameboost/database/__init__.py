"""A model in one database: queries, statements, files and DuckDB functions.

- `database_model`: the object that `Model.database` returns
- `star`: the dimensions that queries join, for a model trained on a star
- `explanations`: contributions of features, reason codes
- `deployment`: deployments of models behind one view
- `self_test`: the query that tests whether a database scores like Python
- `column_check`: the query that compares the column types of a table with training
- `sql_budget`: limits on the size of a model's SQL in training
- `drift`: a baseline of training rows, and the query that compares a table with it
- `labelled_rows`: scored and labelled rows as stages of a query, and aggregates of metrics over them
- `evaluation`: metrics, calibration, gain and confusion of a table with labels
- `comparison`: two models on the same rows
- `importance`: the importance of features on the rows of a table
- `monitoring`: measures of a table by time window, and statements for their history
- `files`: the comment at the head of SQL files
- `dbt_files`, `dbt_project`: a model's files in a dbt project, and the project's existing files
- `registration`, `udf`: a model as a function of a DuckDB connection
"""
