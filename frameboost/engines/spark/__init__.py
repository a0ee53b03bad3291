"""Shards in the tasks of a Spark job.

- `cluster`: ``fit(spark_df, engine=fb.Spark(...))``
- `job`: the job, its shards, and the driver of the session
- `task`: what runs in a task
"""
