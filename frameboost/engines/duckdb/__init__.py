"""The engine inside a database: each step is a statement from ``sql/``, run on the user's connection.

- `engine`: training, in the order of its steps
- `binning`: cuts, categories and codes
- `opening`: makes the engine for a relation, or for a frame that is sent to a database of its own
- `linear`: leaves with slopes (``linear_tree=True``)
- `approx`: cuts for each tree or node (``tree_method="approx"``)
- `records`: the same engine with nodes, g and h of the rows in memory
- `star`: the same over a star, without its join
"""
