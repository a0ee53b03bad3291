"""Trees as SQL.

- `sql_model`: a model over the columns of a table, which all others compile
- `conditions`: a split as a condition
- `case`: a tree as CASE, an ensemble as a sum of them
- `linear`: the value of a leaf
- `deep_trees`: trees that nest deeper than a database allows
- `shared_walks`: trees with the same splits, walked once
- `node_lists`: the nodes of all trees as lists, and the expression that walks them
- `forms`: the forms of a query with the trees in it, ``case``, ``lists``, ``sorted`` and ``staged``
- `sort_key`: the order of rows in which CASE skips most
- `costs`: what these forms cost in DuckDB, by which one is chosen for a number of rows
- `tree_table`: the model as a table, and the query that walks it
- `scoring_query`: the query that scores a table, in the form that the database's limits allow
- `stages`: a query as a chain of common table expressions
- `joined_tables`: the tables of a star as one source of a query
- `scores_by_key`: trees of one table of a star, scored once a row of it
- `lookups`: numbers that are looked up by a column
- `outputs`: predictions, classes and probabilities over the margins
- `size`: the size of a query beside the database's limits
- `explain`: contributions of features
- `drift`: the population stability index of each feature
"""
