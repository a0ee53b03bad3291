"""The training parameters.

- `parameters`: every parameter: name, default, range and documentation
- `fields`: the declaration of a parameter, and the check of its value
- `readers`: parameters with structure, such as constraints
"""
