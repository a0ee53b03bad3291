"""The engine in DuckDB: each step is a statement of ``sql/`` on the user's connection.

- `engine`: training, in the order of its steps
- `binning`: cuts, categories and codes
- `opening`: opens the engine over a relation, or over a frame in a new database
- `linear`: linear leaves (``linear_tree=True``)
- `approx`: cuts for each tree or node (``tree_method="approx"``)
- `memory`: this engine with codes, nodes, margins, g and h in memory
- `star`: this engine over a star schema, without the join
"""
