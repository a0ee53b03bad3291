"""The engines in memory: numpy arrays, and kernels compiled by numba on several threads.

- `engine`, `binning`, `dense_codes`: binned columns (``hist``)
- `sparse_codes`, `sparse_kernels`, `sparse_columns`: columns where most rows have one code
- `sparse_matrix`: the same over a sparse matrix
- `star`, `star_tables`, `star_bins`: facts whose dimensions are not joined to them (`frameboost.join`)
- `star_codes`, `star_kernels`: their codes by key
- `star_packed`, `star_packed_kernels`: their sums where h is the same in all rows
- `bundled_codes`, `exclusive_bundles`: several features of few bins as one; several sparse ones that exclude each other
- `histograms`, `histogram_kernels`: sums of g and h by node and bin
- `exact`, `exact_kernels`, `presorted`: columns sorted once (``exact``)
- `approx`, `proposal_kernels`: cuts for each tree or node (``approx``)
- `nodes`, `partition_kernels`, `piece_arrays`: which rows each node has
- `leaf_quantiles`: quantiles of the rows of a leaf
- `linear`, `linear_kernels`: leaves with slopes
- `split_tables`: splits of several nodes
- `trees`, `tree_kernels`, `level_kernels`: a whole tree of few rows in one call, whose levels threads share
- `rows`: the frame as arrays, labels and margins
- `gradients`, `gradient_kernels`: g and h on their grids
- `programs`, `program_kernels`, `program_arrays`: a loss compiled for a vector machine
- `sampling`, `sampling_kernels`: the g and h of a tree that is grown on a sample
- `exact_sums`: sums of expressions by such programs, as metrics take them
- `scores`, `score_kernels`: rows sorted by their score, for areas under curves
- `term_arrays`: ranks and sums within queries
- `held_out`: rows that are evaluated but not trained on
"""
