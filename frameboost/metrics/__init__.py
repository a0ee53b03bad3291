"""Metrics as data: each is one SQL aggregate, which an engine evaluates where its rows are.

- `metric`: what a metric consists of, and a user's own, ``fb.Metric``
- `built_in`: the table of metrics by XGBoost's names, where a new one goes
- `ranking`: the metrics of ranking
- `draws`: metrics of many draws of the same rows
- `terms`: the terms of losses and metrics as columns of an engine
"""
