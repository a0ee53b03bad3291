"""Shards in the tasks of a Spark job.

- `cluster`: ``fit(spark_df, engine=fb.Spark(...))``
- `driver`: the driver of the session, in this process or behind Spark Connect
- `job`: the job, and the Dask scheduler that its tasks connect to
- `pool`: the shards, each in the task that holds its rows
- `task`: what runs in a task
"""
