"""Readers of XGBoost's, LightGBM's, CatBoost's and scikit-learn's models, and a writer for XGBoost."""
