"""Predictions and explanations of an ensemble, computed in Python.

- `predictor`: predictions by compiled kernels or polars expressions
- `outputs`: outputs of few or of some thousand rows, without a query
- `contributions`: contributions of features (SHAP, Saabas, interactions)
- `reasons`: the features with the largest contributions, by their texts
- `dependence`: predictions as a function of one or two features
"""
