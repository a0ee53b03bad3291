"""Readers of XGBoost's, LightGBM's, CatBoost's and scikit-learn's models, and a writer for XGBoost.

- `any_file`: a model file of any library, told by its content
- `file_starts`: which library a file is from, by its first bytes
- `model_argument`: what the user passes to a reader
- `tree_builder`, `float32`: trees and thresholds of other libraries
- `ensemble_checks`: the last step of every reader
- `xgboost`, `lightgbm`, `catboost`, `sklearn`: the libraries
"""
