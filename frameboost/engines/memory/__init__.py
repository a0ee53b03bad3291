"""The engines in memory: numpy arrays, and kernels compiled by numba on several threads.

What a fit with ``tree_method="hist"`` reads, from the top:

- `engine`: the frame as arrays, labels and margins, the base class of all engines here; the engine over binned columns
- `terms`: g and h on their grids, ranks and sums within queries, sums of expressions as metrics take them
- `columns`: what features are read from, their cuts and codes, and their histograms
- `histograms`: the kernels of these
- `partition`: which rows each node has
- `trees`: a whole tree of few rows in one call
- `limits`: where one thing or the other is done, with units and measurements

Besides:

- `sampling`: the g and h of a tree that is grown on a sample
- `sparse`: columns where most rows have one code; several features as one
- `sparse_matrix`: the columns of a sparse matrix
- `database`: the columns of a table in a database, which are cut and coded there (`frameboost.table`)
- `star`: facts whose dimensions are not joined to them (`frameboost.join`)
- `linear`: leaves with slopes
- `exact`: columns sorted once (``exact``)
- `approx`: cuts for each tree or node (``approx``)
- `held_out`: rows that are evaluated but not trained on
- `scores`: rows sorted by their score, for areas under curves
"""
