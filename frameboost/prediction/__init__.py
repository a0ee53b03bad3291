"""Predictions and explanations of an ensemble, computed in Python.

- `predictor`: predictions by compiled kernels or polars expressions
- `lookups`: the column by which an output looks a number up
- `few_outputs`: outputs of a few rows, number by number
- `array_outputs`: outputs of some thousand rows, by numpy
- `contributions`: contributions of features (SHAP, Saabas, interactions)
- `shap_explanation`: contributions as the object that SHAP's plots take
- `partial_dependence`: the mean prediction as a function of one feature
- `individual_dependence`: each row's prediction as a function of one or two features
"""
