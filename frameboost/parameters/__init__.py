"""The training parameters.

- `parameters`: every parameter: name, default, range and documentation; which go together; the learning rate of a round
- `fields`: the declaration of a parameter, and the check of its value
- `aliases`: the names that XGBoost and LightGBM have for them
"""
