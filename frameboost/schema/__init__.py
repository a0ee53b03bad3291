"""Features and their column types.

- `types`: the table of column types, where a new one goes; features, the columns that a model reads; polars columns by
  name, and as physical values
"""
