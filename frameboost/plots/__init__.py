"""Altair charts of a model, to modify and save: ``fb.plots.roc(model, df, "late").save("roc.html")``.

They need Altair (``pip install 'frameboost[plots]'``), so this package is imported on first use. Each chart draws the
numbers of a polars frame that a function of `frameboost.evaluation` or a method of `frameboost.Model` returns.

- `model_charts`: charts of a model alone: learning curves, importance, trees
- `dependence`: partial dependence on one feature, with ICE, and on two
- `shap_values`: SHAP values: beeswarm, dependence, waterfall
- `quality`: labels against predictions: ROC, precision and recall, costs, gains, confusion, calibration, residuals
- `drift`: the population stability index over time

Shared by charts:

- `inputs`: the model and its rows: checked, sampled, scored, as Vega-Lite values
- `theme`: colours, sizes, axes and tooltips
- `names`: names and categories as text of charts, and charts in HTML
"""

try:
    import altair  # noqa: F401
except ImportError as error:
    raise ImportError("frameboost.plots needs Altair: pip install 'frameboost[plots]'") from error

from frameboost.plots.dependence import partial_dependence
from frameboost.plots.drift import drift
from frameboost.plots.model_charts import importance, learning_curves, tree
from frameboost.plots.names import escape_scripts
from frameboost.plots.quality import (
    calibration,
    confusion,
    gains,
    lift,
    precision_recall,
    residuals,
    roc,
    threshold_costs,
)
from frameboost.plots.shap_values import shap_dependence, shap_summary, waterfall

escape_scripts()

__all__ = [
    "calibration", "confusion", "drift", "gains", "importance", "learning_curves", "lift", "partial_dependence",
    "precision_recall", "residuals", "roc", "shap_dependence", "shap_summary", "threshold_costs", "tree", "waterfall",
]  # fmt: skip
