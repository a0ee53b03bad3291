"""Losses as data: gradient, hessian and link of each are SQL expressions.

- `loss`: what a loss consists of
- `built_in`: the table of losses by XGBoost's names, where a new one goes
- `aft`, `ranking`: the losses of survival times and of ranking
- `distributions`: the losses of a mean and a spread
- `custom`: a user's own loss, ``fb.Objective``
- `foreign`: losses of imported models
- `outputs`: predictions, margins, classes, probabilities, quantiles and intervals of a model
- `intervals`: prediction intervals, and the conformity scores behind them
- `offset`: columns that are added to the margins
- `lookups`: numbers that are looked up by a column
- `exact_sums`: aggregates over rows, and expressions on a grid
"""
