"""Models of XGBoost: the reader and the writer.

- `reader`: from a booster, an estimator or a file
- `document`: the document that XGBoost saves, as JSON or UBJSON
- `trees`, `features`, `objectives`: its parts
- `writer`: a document that XGBoost loads
"""
