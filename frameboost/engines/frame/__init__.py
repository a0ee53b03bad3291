"""What the two engines over polars frames have in common.

- `engine`: labels, weights, margins, terms and aggregates as polars columns
- `aggregation`: aggregates over the rows of any frame
- `scores`: the distinct scores of rows, for areas under curves
- `gradients`: g and h of the tree in hand
- `ranking`: window functions over queries
"""
