"""Shards on the workers of a Dask cluster.

- `cluster`: ``fit(engine=fb.Dask(client))``
- `packing`: histograms without their empty bins
- `pool`: the shards of a cluster, and what is done when a worker is lost
- `reduction`: the tree along which sums come from many workers
- `replay`: the calls that bring a new shard to where a lost one was
- `worker`: what runs on a worker
"""
