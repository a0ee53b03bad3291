"""Trees, whatever they are trained by or read from.

- `linear_leaves`: leaves with slopes, one by one and as arrays
- `tree`: a tree as parallel arrays; trees with the same splits; leaf values rounded so that scores are exact in any
  order; the trees of a model as arrays over all nodes
- `node_means`: the mean below each node, which contributions start from
"""
