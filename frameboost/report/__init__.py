"""A report of a model on one page of HTML, which opens without the network (`frameboost.Model.report`).

It needs Altair, and vl-convert, which has Vega's JavaScript (``pip install 'frameboost[report]'``), so this package is
imported on first use. A section is a function of `Material` that returns a `Section`, or None where it says nothing.

- `report`: the sections in their order, and the file
- `material`: what the sections are made of: the model, its metrics, rows of the data
- `page`: the page around the sections, with styles, scripts and Vega
- `markup`: text, tables and charts as HTML, in which all that comes from the data is escaped

Sections:

- `about`: what the model is
- `quality`: metrics with intervals, and their charts
- `weak_segments`: where it is bad: a tree fitted to the loss of each row
- `calibration`: whether probabilities are frequencies, and quantiles quantiles
- `importance`: which features matter
- `response`: partial dependence
- `over_time`: the metric and the drift by period
- `drift`: features in these rows against training
- `training`: learning curves
- `sql`: the model as SQL
- `parameters`: parameters, features and the hash of the model file

Helpers of sections:

- `conditions`: the path to a leaf in words and as SQL
- `training_shares`: the shares of training rows that a model file holds
"""

try:
    import altair  # noqa: F401
    import vl_convert  # noqa: F401
except ImportError as error:
    raise ImportError(
        "a report needs Altair and vl-convert, which has Vega's JavaScript: pip install 'frameboost[report]'"
    ) from error

from frameboost.report.material import Wanted
from frameboost.report.report import report_html, write_report

__all__ = ["Wanted", "report_html", "write_report"]
