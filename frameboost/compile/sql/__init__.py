"""Trees as SQL."""
