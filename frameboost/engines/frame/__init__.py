"""What the two engines over polars frames have in common.

- `engine`: labels, weights, margins, terms and aggregates as polars columns
- `gradients`: g and h of the tree in hand
- `ranking`: window functions over queries
"""
