"""The public model: an ensemble, its history, and the methods that users call.

- `model`: `Model`: predictions, slices, files
- `summaries`: trees as a frame, importances, ``repr``, the table that notebooks show
- `tree_drawing`: a tree as SVG, HTML and text
- `comparison`: how two models differ, and which is better on rows
- `continuation`: training on from a model (``init_model``)
- `calibration`: a new link, fitted on labelled rows
- `conformal`: prediction intervals, learnt from labelled rows
- `threshold`: the threshold of the second of two classes, chosen on rows with labels
"""
