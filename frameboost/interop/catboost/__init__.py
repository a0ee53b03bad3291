"""Models of CatBoost, read from its JSON.

- `reader`: the trees and the model
- `columns`: the features, and the hashes of their categories
- `category_hash`: CatBoost's hash of a category
- `loss`: the loss, by which margins become predictions
"""
