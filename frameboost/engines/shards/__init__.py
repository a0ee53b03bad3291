"""One engine made of many: each shard is an engine over some of the rows, and results are merged.

- `engine`: the engine of all shards, and merging of results
- `shard`: one shard, and calls of shards
- `opening`: dividing the rows of one process into shards
- `memory_plan`: the storage of shards' arrays, by available memory
- `quantiles`: quantiles over the rows of all shards
"""
