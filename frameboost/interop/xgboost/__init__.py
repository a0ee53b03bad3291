"""Models of XGBoost, in and out."""
