"""Gradient boosting for dataframes and SQL.

Train where the data is, as group-bys over a polars frame or as queries in DuckDB; score as a polars expression or as
SQL. The algorithm is XGBoost's (Chen & Guestrin, "XGBoost: A Scalable Tree Boosting System", KDD 2016).
"""

from frameboost.api import fit, load
from frameboost.errors import DataError, FrameboostError, ModelFileError, ParameterError
from frameboost.metric import Metric
from frameboost.model import Model
from frameboost.objective import Objective

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "FrameboostError",
    "Metric",
    "Model",
    "ModelFileError",
    "Objective",
    "ParameterError",
    "__version__",
    "fit",
    "load",
]
