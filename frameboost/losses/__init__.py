"""Losses as data: gradient, hessian and link of each are SQL expressions.

- `loss`: the parts of a loss, and the kinds of its terms; offsets
- `built_in`: the table of losses by XGBoost's names, where a new one goes, and of parameters that adjust any loss
- `custom`: users' losses, ``fb.Objective``, and losses of imported models
- `functions`: calling users' Python functions, objectives and metrics
- `transforms`: transforms of the target, with their inverses as links
- `outputs`: predictions, margins, classes, probabilities, quantiles and intervals of a model
- `classes`: class weights, and the classification threshold
"""
