"""Models of XGBoost: the reader and the writer."""
