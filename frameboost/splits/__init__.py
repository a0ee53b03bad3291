"""The best split of a node, from its histograms.

- `search`: leaf weight and split gain; the best split of each open node over all features and sets of categories, with
  tie-breaking; sibling = parent - child
- `symmetric`: one split for all nodes of a level
- `vector`: one split for all outputs
- `split`: a split, its sums, penalties and limits
"""
