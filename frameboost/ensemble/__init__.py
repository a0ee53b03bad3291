"""A trained ensemble of trees, and the model file that holds it.

- `ensemble`: trees, features, loss and base margins, all that scoring needs
- `model_file`: an ensemble as JSON, written and checked
- `tree_file`: the trees in that file
"""
