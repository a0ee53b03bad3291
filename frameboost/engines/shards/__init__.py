"""One engine made of many: each shard is an engine over some of the rows, and answers are merged.

- `engine`: the engine of all shards
- `shard`: one shard, where its rows are
- `opening`: the rows of one process divided into shards
- `gathering`: tables by key that are brought together piece by piece
- `memory_plan`: where the arrays of shards are kept, by how much memory there is
- `pool`: how shards are asked; the shards of one process
- `merging`: aggregates and histograms of all shards
- `quantiles`: quantiles over the rows of all shards
"""
