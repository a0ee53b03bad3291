"""Boosting, from engines over data to an ensemble.

The algorithm, from the top down:

- `train`: a fit: columns, base margins, growth, rounds, warnings; ``hist``, ``approx`` and ``exact``
- `boosting`: the loop over rounds
- `growths`: the ways in which the trees of a round are grown, the choice of one, and the rows that are drawn for a tree
- `grower`: the growth of one tree; trees as they are grown, and their repetition
- `open_nodes`: the nodes of a tree: the order in which they are split, and what limits their splits
- `splitter`: the best splits of open nodes, from histograms, half of them by subtraction
- `evaluation_log`: metrics, early stopping and callbacks

What plugs into it:

- `approx_splitters`, `exact`, `symmetric_splitter`: other splits
- `whole_trees`: trees that an engine grows in one call each
- `vector_trees`: trees for all outputs at once
- `linear_leaves`: slopes for the leaves of a grown tree
- `look_ahead`: splits ahead of their turn, for engines that take many nodes at once
- `dart`: dropout
- `checkpoint`: rounds that are saved, their file, and which fit they are of

Before and after it:

- `data_checks`: checks before training, labels of classes as numbers, and warnings after the last round
- `refit`: new leaf values for a trained model
- `smearing`: the errors of a fit to a transformed target, by which its predictions are corrected
- `calibration_kernels`: isotonic regression, for the link of a trained model
"""
