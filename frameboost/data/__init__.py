"""The user's data: frames, relations and files.

- `opening`: open the user's data as a source of rows: the table of all kinds of data; rows to score
- `sources`: frames and relations as such sources, with typed columns
- `sparse_matrix`: a sparse matrix with named columns
- `matrix`: an array with named columns, to be scored
- `arrow_batches`: the memory of a frame's columns
- `database_table`: a table of any SQL database, `frameboost.table`, whose rows stay there
- `connections`: database drivers: running queries, types of results
- `spark_source`, `dask_source`: DataFrames of Spark and Dask, whose rows stay there
- `foreign_tables`: tables of other libraries: pandas, Arrow, Ibis, narwhals
- `feature_columns`: the features: columns of the data to train on, and of the data to score
- `fingerprints`: hashes of queries and of rows
- `held_out`: held-out rows, ``fit(valid=...)``, folds, and rows drawn by a hash
- `predicates`: conditions of the user, checked and read by polars
- `file_formats`: the table of formats, by suffix and by first bytes
- `table_files`: tables in one or several files
- `text_files`: faults of text files
- `written_files`: write texts and tables atomically
- `plans`: facts from query plans: the number of rows, their order, and whether they repeat
- `duckdb_session`: statements on a relation's connection, temporary tables there, and results in batches
"""
