"""The user's data: frames, relations and files.

- `sources`: data of every kind as a source of rows with typed columns
- `opening`: what the user gives as such a source
- `repeatable_rows`: relations whose rows are the same each time, as they are or copied
- `sparse_matrix`: a sparse matrix with named columns
- `wrapped_tables`: tables of Ibis, narwhals and PyArrow's datasets
- `scans`: which lazy frames only read files
- `labels`: labels of classes in a column, and their numbers
- `partitions`: rows in partitions on a cluster
- `spark_source`: a Spark DataFrame as such a source
- `column_choice`: the columns of the data that the user chooses
- `feature_columns`: the columns that a model reads, found in the data to score
- `rows_to_score`: rows as dicts, and midnights for dates
- `held_out`: rows to validate on, ``fit(valid=...)``
- `shares`: rows drawn by a hash
- `folds`: parts of the rows, each of which is held out once
- `last_rows`: the last rows by a column of times
- `predicates`: conditions of the user, checked and read by polars
- `file_formats`: formats of tables by suffix and by first bytes
- `table_files`: tables in files
- `several_files`: frames and files whose rows follow each other
- `typed_files`: files of text with the column types of training
- `query_plans`: the plan of a DuckDB query: rows, their order, and whether they are the same each time
- `duckdb_tables`: tables written to DuckDB files
- `duckdb_session`: statements on a relation's connection, and temporary tables there
- `arrow_batches`: a result of DuckDB in batches
- `atomic_files`: files that are replaced once they are complete
"""
