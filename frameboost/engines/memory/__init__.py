"""The in-memory engines: numpy arrays, and numba kernels on several threads.

The modules of a fit with ``tree_method="hist"``, from the top:

- `engine`: the frame as arrays, labels and margins, the base class of all engines here; the engine over binned columns
- `terms`: g and h on their grids, ranks and sums within queries, sums of expressions as metrics take them
- `columns`: the sources of features, their cuts and codes, and their histograms
- `histograms`: the histogram kernels
- `partition`: the rows of each node
- `trees`: growth of a whole tree in one call, for few rows
- `limits`: the thresholds between alternative algorithms, with units and measurements

Further modules:

- `sampling`: g and h of a tree grown on a sample
- `sparse`: sparse columns, where most rows have one code; feature bundling
- `sparse_matrix`: the columns of a sparse matrix
- `database`: columns of a database table that are binned in the database (`frameboost.table`)
- `star`: star schemas, without the join (`frameboost.join`)
- `linear`: linear leaves
- `exact`: presorted columns (``exact``)
- `approx`: cuts for each tree or node (``approx``)
- `held_out`: evaluation sets
- `scores`: rows sorted by score, for areas under curves
"""
