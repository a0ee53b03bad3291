"""What the engines over a polars frame share: rows, terms, windows and aggregates."""
