"""The training parameters.

- `aliases`: the names that XGBoost and LightGBM have for them
- `learning_rates`: the learning rate of each round
- `parameters`: every parameter: name, default, range and documentation
- `fields`: the declaration of a parameter, and the check of its value
- `readers`: parameters with structure, such as constraints
"""
