"""Models of LightGBM, read from its text.

- `file`: the lines of the text
- `reader`: what they mean: trees, features and the loss
"""
