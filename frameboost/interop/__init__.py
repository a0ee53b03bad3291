"""Readers of XGBoost's, LightGBM's, CatBoost's and scikit-learn's models, and a writer for XGBoost.

- `xgboost`, `lightgbm`, `catboost`, `sklearn`: a reader for each library
- `to_xgboost`: the writer
- `files`: which library wrote a file, and what the user passes to a reader
- `ensembles`: trees, float32 arithmetic and checks that the readers share
"""
