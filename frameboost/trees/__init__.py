"""Trees, whatever they are trained by or read from.

- `tree`: a tree as parallel arrays
- `linear_leaf`: leaves with slopes
- `leaf_grid`: leaf values rounded so that scores are exact in any order
- `shared_splits`: which trees ask the same questions
- `node_means`: the mean below each node, which contributions start from
"""
