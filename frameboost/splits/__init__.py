"""The best split of a node, from its histograms.

- `gain`: the weight and the score of a leaf, the gain of a split
- `search`: the best split of each open node over all features, where ties are broken; sibling = parent - child
- `categories`: the best set of categories
- `symmetric`: one split for all nodes of a level
- `vector`: one split for all outputs
- `split`: a split, and what it is chosen by
"""
