"""Boosting, from engines over data to an ensemble.

The algorithm, from the top down:

- `train`: a fit: columns, base margins, growth, rounds, warnings; ``hist``, ``approx`` and ``exact``
- `boosting`: the loop over rounds
- `growths`: growing the trees of a round: the variants, the choice of one, and row sampling
- `grower`: growing one tree; grown trees and their replay
- `open_nodes`: the open nodes of a tree: the order of growth, constraints, and feature sampling
- `splitter`: the best splits of open nodes, from histograms, half of them by subtraction
- `evaluation_log`: metrics, early stopping and callbacks

Variants that plug in:

- `approx_splitters`, `exact`, `symmetric_splitter`: other split searches
- `whole_trees`: trees that an engine grows in one call each
- `vector_trees`: trees for all outputs at once
- `linear_leaves`: slopes for the leaves of a grown tree
- `look_ahead`: splits ahead of their turn, for engines that take many nodes at once
- `dart`: dropout
- `checkpoint`: saved rounds, their file, and the identity of their fit

Before and after:

- `data_checks`: checks before training, class labels as indices, and warnings after the last round
- `refit`: new leaf values for a trained model
- `smearing`: correct predictions of a transformed target by the errors of the fit
- `calibration_kernels`: isotonic regression, for the link of a trained model
"""
