"""Boosting, from data to an ensemble.

- `boosting`: the loop over rounds and trees
- `gradients`, `base_margins`: gradients of a round, and the margins before the first
- `grower`, `node`, `grow_policies`: the growth of a tree, in the order of ``grow_policy``
- `whole_trees`, `grown_arrays`: trees that an engine grows in one call each
- `vector_trees`: trees for all outputs at once
- `linear_leaves`: slopes for the leaves of a grown tree
- `tree_methods`: ``hist``, ``approx`` and ``exact``
- `splitter`, `approx_splitters`, `symmetric_splitter`, `vector_splitter`: the best splits of open nodes
- `histograms`: histograms of open nodes, half of them by subtraction
- `look_ahead`: splits ahead of their turn, for engines that take many nodes at once
- `pruning`, `constraints`, `sampling`, `dart`: as the parameters of these names ask
- `evaluation_log`: metrics, early stopping and callbacks
- `checkpoint`, `checkpoint_file`, `checkpoint_facts`: rounds that are saved, their file, and which fit they are of
- `class_labels`: labels of classes, and their numbers
- `data_checks`, `ranking_checks`, `result_checks`: checks before training, and warnings after it
- `refit`, `calibration`, `calibration_kernels`: new leaf values and a new link for a trained model
- `conformal`: prediction intervals for a trained model, from scores of rows that it has not seen
"""
