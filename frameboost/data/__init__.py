"""The user's data: frames, relations and files.

- `opening`: the user's data opened as a source of rows: the table of all kinds of data; rows to score
- `sources`: frames and relations as such sources, with typed columns
- `sparse_matrix`: a sparse matrix with named columns
- `database_table`: a table of any SQL database, `frameboost.table`, whose rows stay there
- `connections`: how drivers of databases run queries, and what types the results have
- `spark_source`, `dask_source`: DataFrames of Spark and Dask, whose rows stay there
- `foreign_tables`: tables of other libraries: pandas, Arrow, Ibis, narwhals
- `feature_columns`: the features: columns of the data to train on, and of the data to score
- `fingerprints`: hashes of queries and of rows
- `held_out`: rows to validate on, ``fit(valid=...)``, folds, and rows drawn by a hash
- `predicates`: conditions of the user, checked and read by polars
- `file_formats`: the table of formats, by suffix and by first bytes
- `table_files`: tables in files, whose rows follow each other
- `text_files`: what may be wrong with tables of text
- `written_files`: texts and tables that are written, atomically
- `plans`: what the plans of queries say of rows: their number, their order, and whether they are the same each time
- `duckdb_session`: statements on a relation's connection, temporary tables there, and results in batches
"""
