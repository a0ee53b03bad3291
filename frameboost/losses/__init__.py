"""Losses as data: gradient, hessian and link of each are SQL expressions.

- `loss`: what a loss consists of, and the terms that it may have; columns that are added to the margins
- `built_in`: the table of losses by XGBoost's names, where a new one goes; that of the parameters that adjust any loss
- `custom`: losses that users write, ``fb.Objective``, and losses of imported models
- `functions`: how Python functions of users are called, objectives and metrics
- `transforms`: functions of the target that a loss may be fitted to, and their inverses as links
- `outputs`: predictions, margins, classes, probabilities, quantiles and intervals of a model
- `classes`: what rows of each class count for, and the threshold of the second of two
"""
