"""The engine of lazy group-bys in polars.

- `engine`: training, in the order of its steps
- `linear`: leaves with slopes (``linear_tree=True``)
- `approx`: cuts for each tree or node (``tree_method="approx"``)
"""
