"""The user's data: frames, relations and files.

- `sources`: data of every kind as a source of rows with typed columns
- `scans`: which lazy frames only read files
- `partitions`: rows in partitions on a cluster
- `spark_source`: a Spark DataFrame as such a source
- `feature_columns`: the columns that a model reads, found in the data to score
- `held_out`: rows to validate on, ``fit(valid=...)``
- `predicates`: conditions of the user, checked and read by polars
- `table_files`: tables in files
- `atomic_files`: files that are replaced once they are complete
"""
