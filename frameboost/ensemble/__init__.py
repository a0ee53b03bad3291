"""A trained ensemble of trees, and the model file that holds it.

- `ensemble`: trees, features, loss and base margins, all that scoring needs, and the training record
- `metadata`: name, version, tags, and facts about training
- `baseline`: shares of training rows in bins, to measure drift
- `averaging`: several ensembles as one
- `model_file`: an ensemble as JSON or UBJSON, written and checked
- `tree_file`: the trees of that file
"""
