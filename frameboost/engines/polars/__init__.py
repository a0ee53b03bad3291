"""The engine of lazy group-bys in polars.

- `engine`: the steps of training in order
- `binning`: cuts and codes
- `gradients`: g and h as expressions on their grids
- `histograms`: sums of g and h by node and bin, as group-bys
- `nodes`: the node of every row
- `linear`: leaves with slopes
- `approx`: cuts for each tree or node (``tree_method="approx"``)
"""
