"""Tables of labels against predictions, as polars frames; row weights count in all of them.

- `evaluation`: `Evaluation`: metrics, confusion matrix, curves and interval coverage, computed where the data is
- `metrics_by_group`: the metrics that fit a model, by group
- `bootstrap`: confidence intervals of metrics, and of the differences between two models
- `scored_rows`: labels, predictions and weights of the rows of a model's data
- `history`: the metrics of each round, as a long frame
- `threshold_curves`: ROC, precision and recall, costs, gains and lift
- `calibration_curve`: mean label by mean prediction
- `confusion`: actual and predicted classes
- `residuals`: quantiles of the residuals by prediction
- `importance`: importance of features on rows, by permutation and by Shapley values
- `drift`: the population stability index of each feature, overall or by period
- `weighted`: optional weights, and weighted histograms
"""
