"""Training in any SQL database.

- `columns`: cuts and codes of a table's columns, by SELECTs
- `engine`: the rows of a fit as a table of the database, and histograms of them
- `ranking`: windows over the rows of each query, and sums over their pairs
"""
