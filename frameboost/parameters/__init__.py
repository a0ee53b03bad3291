"""The training parameters.

- `parameters`: every parameter: name, default, range and documentation; which go together; the
  learning rate of a round; how a value is checked; the names that XGBoost and LightGBM have for them
"""
