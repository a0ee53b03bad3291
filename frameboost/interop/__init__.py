"""Readers of models of XGBoost, LightGBM, CatBoost and scikit-learn, and a writer for XGBoost.

- `xgboost`, `lightgbm`, `catboost`, `sklearn`: a reader for each library
- `to_xgboost`: the writer
- `files`: the library of a file, and the arguments of readers
- `ensembles`: trees, float32 arithmetic and checks shared by readers
"""
