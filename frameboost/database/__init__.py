"""A model as one database runs it: queries, statements, files and functions."""
