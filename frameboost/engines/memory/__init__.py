"""The engines in memory: numpy arrays, and kernels compiled by numba on several threads.

- `engine`, `binning`, `dense_codes`: binned columns (``hist``)
- `bundled_codes`: several features of few bins as one
- `sparse`: columns where most rows have one code
- `star`: facts whose dimensions are not joined to them (`frameboost.join`)
- `programs`: what is computed in each row, and its sums
- `histograms`, `histogram_kernels`: sums of g and h by node and bin
- `exact`, `exact_kernels`, `presorted`: columns sorted once (``exact``)
- `approx`, `proposal_kernels`: cuts for each tree or node (``approx``)
- `nodes`, `partition_kernels`, `piece_arrays`: which rows each node has
- `row_order`, `row_blocks`: rows in another order
- `linear`, `linear_kernels`: leaves with slopes
- `split_tables`: splits of several nodes
- `trees`, `tree_kernels`, `level_kernels`: a whole tree of few rows in one call, whose levels threads share
- `grown_splits`, `walk_kernels`: the values of such a tree, added to its rows and to others
- `rows`: the frame as arrays, labels and margins
- `gradients`, `gradient_kernels`: g and h on their grids
- `sampling`, `sampling_kernels`: the g and h of a tree that is grown on a sample
- `scores`, `score_kernels`: rows sorted by their score, for areas under curves
- `held_out`: rows that are evaluated but not trained on
"""
