"""A trained ensemble of trees, and the model file that holds it.

- `ensemble`: trees, features, loss and base margins, all that scoring needs; how they were trained
- `metadata`: its name, and when and on what it was trained
- `baseline`: the shares of training rows in bins, which later rows are compared with
- `averaging`: several ensembles as one
- `model_file`: an ensemble as JSON or UBJSON, written and checked
- `tree_file`: the trees of that file
"""
