"""The polars engine, of lazy group-bys.

- `engine`: training, in the order of its steps
- `linear`: linear leaves (``linear_tree=True``)
- `approx`: cuts for each tree or node (``tree_method="approx"``)
"""
