"""A trained ensemble of trees, and the model file that holds it.

- `ensemble`: trees, features, loss and base margins, all that scoring needs
- `categories`: ensembles of other rows over one set of categories
- `averaging`: several ensembles as one
- `model_file`: an ensemble as JSON or UBJSON, written and checked
- `interval_file`: what a model knows of its intervals, in JSON
- `joins_file`: the tables that a model's rows are joined to, in JSON
- `training_record`: metrics of rounds, a search's trials and a hint, in JSON too
- `tree_file`: the trees in JSON, checked node by node
- `linear_file`: linear leaves in both forms
- `tree_columns`, `plain_trees`: the trees in UBJSON, checked all at once
"""
