"""The engine over arrays in files, for rows that do not fit in memory: passes over all rows, a block at a time.

- `engine`: the engine
- `blocks`: rows that are read at a time
- `codes`: binned columns by row
- `node_numbers`, `node_kernels`: the node of every row
- `gradients`: g and h of a block, computed again where they are used
- `roles`: labels and weights in as few bytes as hold them
"""
