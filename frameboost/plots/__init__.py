"""Altair charts of a model, which can be changed and saved: ``fb.plots.roc(model, df, "late").save("roc.html")``.

They need Altair (``pip install 'frameboost[plots]'``), so this package is imported on first use. Each chart draws the
numbers of a polars frame that a function of `frameboost.evaluation` or a method of `frameboost.Model` returns.

- `learning_curves`: the metrics of each round
- `importance`: the importance of features
- `tree`: the structure of a tree
- `partial_dependence`, `dependence_on_two`: partial dependence on one feature, with ICE, and on two
- `distribution`: the distribution of a feature, beside another chart
- `shap_summary`: SHAP values of many rows
- `waterfall`: SHAP values of one row
- `shap_dependence`: SHAP values by a feature's value
- `calibration`: the mean label by the prediction
- `thresholds`: ROC, precision and recall, costs of a threshold
- `residuals`: label minus prediction
- `confusion`: actual and predicted classes
- `drift`: the population stability index over time
- `gains`: cumulative gains and lift
- `theme`: colours, sizes and axes
- `names`: names and categories as text of charts, and charts in HTML
- `rows`: the rows of a chart: sampled, in values that Vega-Lite knows
- `arguments`: checks of arguments
"""

try:
    import altair  # noqa: F401
except ImportError as error:
    raise ImportError("frameboost.plots needs Altair: pip install 'frameboost[plots]'") from error

from frameboost.plots.calibration import calibration
from frameboost.plots.confusion import confusion
from frameboost.plots.drift import drift
from frameboost.plots.gains import gains, lift
from frameboost.plots.importance import importance
from frameboost.plots.learning_curves import learning_curves
from frameboost.plots.names import escape_scripts
from frameboost.plots.partial_dependence import partial_dependence
from frameboost.plots.residuals import residuals
from frameboost.plots.shap_dependence import shap_dependence
from frameboost.plots.shap_summary import shap_summary
from frameboost.plots.thresholds import precision_recall, roc, threshold_costs
from frameboost.plots.tree import tree
from frameboost.plots.waterfall import waterfall

escape_scripts()

__all__ = [
    "calibration", "confusion", "drift", "gains", "importance", "learning_curves", "lift", "partial_dependence",
    "precision_recall", "residuals", "roc", "shap_dependence", "shap_summary", "threshold_costs", "tree", "waterfall",
]  # fmt: skip
