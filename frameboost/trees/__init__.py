"""Trees, whatever they are trained by or read from.

- `tree`: a tree as parallel arrays; leaves with slopes; trees with the same splits; leaf values rounded so that scores
  are exact in any order; the trees of a model as arrays over all nodes
- `node_means`: the mean below each node, which contributions start from
"""
