"""The best split of a node, from its histograms.

- `search`: the weight of a leaf and the gain of a split; the best split of each open node over all features and sets of
  categories, where ties are broken; sibling = parent - child
- `symmetric`: one split for all nodes of a level
- `vector`: one split for all outputs
- `split`: a split, and what it is chosen by
"""
