"""Metrics as data: each is one SQL aggregate, which an engine evaluates where its rows are.

- `metric`: a metric, ``fb.Metric``, its value over an engine's rows, and terms as columns of an engine; the table
  of metrics by XGBoost's names, where a new one goes
- `functions`: metrics that are Python functions or scorers of scikit-learn's
- `draws`: metrics of many draws of the same rows
"""
