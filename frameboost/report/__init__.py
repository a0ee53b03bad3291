"""A report of a model as one self-contained HTML page (`frameboost.Model.report`).

It needs Altair, and vl-convert, for Vega's JavaScript (``pip install 'frameboost[report]'``), so this package is
imported on first use.

- `report`: the sections in their order, most of them, and the file
- `groups`: the section of the metrics by group
- `thresholds`: the section of precision, recall and costs by threshold
- `data_check`: the section of suspicious features and duplicate rows
- `segments`: the section of weak segments, from a tree fitted to the loss of each row
- `drift`: the sections of drift since training, and of metric and drift by period
- `conditions`: the path to a leaf in words and as SQL
- `material`: the inputs of sections: the model, its metrics, rows of the data
- `page`: the page, and text, tables and charts as HTML, with all data escaped
"""

try:
    import altair  # noqa: F401
    import vl_convert  # noqa: F401
except ImportError as error:
    raise ImportError(
        "a report needs Altair and vl-convert, for Vega's JavaScript: pip install 'frameboost[report]'"
    ) from error

from frameboost.report.material import ReportOptions
from frameboost.report.report import report_html, write_report

__all__ = ["ReportOptions", "report_html", "write_report"]
