"""A model in one database: queries, statements, files and DuckDB functions."""
