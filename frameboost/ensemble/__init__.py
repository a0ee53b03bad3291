"""A trained ensemble of trees, and the model file that holds it.

- `ensemble`: trees, features, loss and base margins, all that scoring needs; how they were trained
- `averaging`: several ensembles as one
- `model_file`: an ensemble as JSON or UBJSON, written and checked
- `tree_file`: the trees of that file
"""
