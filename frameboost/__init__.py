"""Gradient boosting for dataframes and SQL.

Train where the data is, as group-bys over a polars frame or as queries in DuckDB; score as a polars expression or as
SQL. The algorithm is XGBoost's (Chen & Guestrin, "XGBoost: A Scalable Tree Boosting System", KDD 2016).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import frameboost.namespace  # noqa: F401, registers `df.boost` and `lf.boost` with polars
from frameboost.api import fit, plan
from frameboost.cross_validation import cv
from frameboost.data.database_table import table
from frameboost.database.database_model import DatabaseModel
from frameboost.engines.dask.cluster import Dask
from frameboost.engines.spark.cluster import Spark
from frameboost.errors import (
    ClusterError,
    DataError,
    FrameboostError,
    FrameboostWarning,
    ModelFileError,
    ParameterError,
    TooLargeError,
)
from frameboost.joins.aggregates import aggregate
from frameboost.joins.star import join
from frameboost.loading import from_catboost, from_lightgbm, from_sklearn, from_xgboost, load
from frameboost.losses.custom import Objective
from frameboost.metrics.metric import Metric
from frameboost.model.comparison import compare
from frameboost.model.model import REPORT_WRITERS, Model
from frameboost.tuning.auto import auto
from frameboost.version import __version__

if TYPE_CHECKING:
    from frameboost import plots as plots
    from frameboost.sklearn import FrameBoostClassifier as FrameBoostClassifier
    from frameboost.sklearn import FrameBoostRanker as FrameBoostRanker
    from frameboost.sklearn import FrameBoostRegressor as FrameBoostRegressor

__all__ = [
    "ClusterError",
    "Dask",
    "DataError",
    "DatabaseModel",
    "FrameboostError",
    "FrameboostWarning",
    "Metric",
    "Model",
    "ModelFileError",
    "Objective",
    "ParameterError",
    "Spark",
    "TooLargeError",
    "__version__",
    "aggregate",
    "auto",
    "compare",
    "cv",
    "fit",
    "from_catboost",
    "from_lightgbm",
    "from_sklearn",
    "from_xgboost",
    "join",
    "load",
    "plan",
    "table",
]


def _write_report(model: Model, data: Any, path: str | Path, **options: Any) -> None:
    from frameboost.report import ReportOptions, write_report

    write_report(model, data, path, ReportOptions(**options))


REPORT_WRITERS[:] = [_write_report]

# Neither these nor `plots` are in __all__, as `from frameboost import *` must work without scikit-learn and Altair.
_ESTIMATORS = ("FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor")


def __getattr__(name: str) -> Any:
    if name == "plots":
        import frameboost.plots as charts

        return charts
    if name not in _ESTIMATORS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    import frameboost.sklearn as estimators

    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ESTIMATORS, "plots"})
