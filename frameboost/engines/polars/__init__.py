"""The engine of lazy group-bys in polars."""
