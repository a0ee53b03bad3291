"""The engine inside a database: each step is a statement from ``sql/``, run on the user's connection.

- `opening`: makes the engine for a relation, or for a frame that is sent to a database of its own
- `engine`: the steps of training in order
- `rows`: labels, weights and margins
- `gradients`: tables of g and h
- `binning`: cuts and categories
- `codes`: tables of the bins of all rows
- `cells`: where the search for a code starts
- `cell_cuts`: cuts of many rows, from counts by cells and the values near the cuts
- `histograms`: sums of g and h by node and bin, as group-bys
- `batch_sums`: the same of rows that are read in batches, and of a star by key
- `nodes`: which node each row is in
- `linear`: leaves with slopes
- `approx`: cuts for each tree or node (``tree_method="approx"``)
- `weighted_cuts`: cuts for each tree, from sums of h by fine bins
- `ranking`: aggregates over queries, and pairs of rows
- `records`: the same, with nodes and pairs of the rows in memory
- `star`: the same over a star, without its join
"""
