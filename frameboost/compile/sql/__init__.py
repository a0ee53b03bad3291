"""Trees as SQL.

- `conditions`: a column of a feature, and a split as a condition on it
- `simplified_trees`: trees without redundant branches
- `row_conditions`: row conditions as data, which prune branches
- `case`: a tree as CASE, an ensemble as a sum of them
- `symmetric_tables`: symmetric trees as tables over the intervals of their features
- `linear_lists`: linear leaves as lists, which are looked up by the row's leaf
- `sql_model`: a model over the columns of a table, and its outputs over the margins
- `shapley`: Shapley values of trees, over stages
- `forms`: the query that scores a table; the choice of its form by the database's limits
- `costs`: the costs of forms in DuckDB, to choose one for a number of rows
- `stages`: a query as a chain of common table expressions
- `staged_trees`: trees too deep for one expression, and trees with the same splits, over stages
- `node_lists`: the nodes of all trees as lists, and the expression that walks them
- `tree_table`: the model as a table, and the query that walks it
"""
