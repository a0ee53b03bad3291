"""One engine made of many: each shard is an engine over some of the rows, and results are merged.

- `engine`: the engine of all shards, and how results are merged
- `shard`: one shard, where its rows are, and how shards are called
- `opening`: the rows of one process divided into shards
- `memory_plan`: where the arrays of shards are kept, by how much memory there is
- `quantiles`: quantiles over the rows of all shards
"""
