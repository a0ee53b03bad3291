"""Shards on the workers of a Dask cluster.

- `cluster`: ``fit(engine=fb.Dask(client))``
- `pool`: the shards of a cluster: calls, and recovery from lost workers
- `worker`: the code on a worker
"""
