"""The engine of queries in DuckDB."""
