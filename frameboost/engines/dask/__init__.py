"""Shards on the workers of a Dask cluster.

- `cluster`: ``fit(engine=fb.Dask(client))``
- `pool`: the shards of a cluster, how they are called, and what is done when a worker is lost
- `worker`: what runs on a worker
"""
