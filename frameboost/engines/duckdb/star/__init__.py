"""The engine over a star in a database, which does not carry out its join.

- `engine`: the steps that differ from those of one table
- `plan`: which dimensions keep tables of their own
- `tables`: copies of the tables, and how often facts refer to a row
- `dimension`: keys and their codes
- `records`: codes and keys of a fact side by side in words
- `fact_nodes`: which node each fact is in, and histograms, in memory
- `moves`: splits as tables
- `chosen_facts`: facts of some nodes, one node after the other
- `kernels`: moves of facts, and sums by the codes of their keys
"""
