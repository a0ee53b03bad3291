"""Boosting, from engines over data to an ensemble.

The algorithm, from the top down:

- `train`: a fit: columns, base margins, growth, rounds, warnings
- `boosting`: the loop over rounds
- `growths`: the ways in which the trees of a round are grown, and the choice of one
- `grower`, `open_nodes`: the growth of one tree, and the order in which its nodes are split
- `splitter`: the best splits of open nodes, from histograms, half of them by subtraction
- `tree_methods`: ``hist``, ``approx`` and ``exact``
- `base_margins`: the margins before the first tree
- `constraints`, `sampling`: limits on the splits of nodes
- `evaluation_log`: metrics, early stopping and callbacks
- `grown_trees`: trees as they are grown, and their repetition

What plugs into it:

- `approx_splitters`, `exact`, `symmetric_splitter`: other splits
- `whole_trees`: trees that an engine grows in one call each
- `vector_trees`: trees for all outputs at once
- `linear_leaves`: slopes for the leaves of a grown tree
- `look_ahead`: splits ahead of their turn, for engines that take many nodes at once
- `dart`: dropout
- `checkpoint`: rounds that are saved, their file, and which fit they are of

Before and after it:

- `class_labels`: labels of classes, and their numbers
- `data_checks`, `result_checks`: checks before training, and warnings after it
- `refit`: new leaf values for a trained model
- `calibration_kernels`: isotonic regression, for the link of a trained model
"""
