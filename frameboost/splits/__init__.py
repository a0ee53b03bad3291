"""The best split of a node, from its histograms.

- `gain`: the weight and the score of a leaf, the gain of a split
- `search_kernels`: the best split of each open node over all features, where ties are broken
- `numeric_kernels`: the best cut of a numeric feature
- `category_kernels`: the best set of categories
- `symmetric_kernels`: one split for all nodes of a level
- `vector_kernels`: one split for all outputs
- `subtraction_kernels`: sibling = parent - child
- `split`: a split, and what it is chosen by
- `categorical`: the categories that a split names
"""
