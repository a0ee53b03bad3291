"""The factors of a meeting and their values; and which values do not go together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import frameboost as fb

__all__ = ["COMMONEST", "DATABASES", "DEAR", "FACTORS", "GROWTHS", "LOSSES", "Loss", "go_together"]


@dataclass(frozen=True)
class Loss:
    """An objective and the kind of label that it takes; ``exact`` if the loss needs only + - × ÷ and √."""

    objective: Any
    label: str
    exact: bool = False
    options: Mapping[str, Any] | None = None


def squared(label, margin):
    """Return the derivatives of squared error, over arrays."""
    return margin - label, 0.0 * margin + 1.0


LOSSES = {
    "squared": Loss("reg:squarederror", "number", exact=True),
    "absolute": Loss("reg:absoluteerror", "number", exact=True),
    "quantiles": Loss("reg:quantileerror", "number", exact=True, options={"quantile_alpha": [0.1, 0.5, 0.9]}),
    "own": Loss(fb.Objective("margin - label", "1", "margin", "rmse"), "tiny number", exact=True),
    "function": Loss(fb.Objective(squared), "number", exact=True),
    "logarithm": Loss("reg:squarederror", "count", options={"target_transform": "log1p"}),
    "poisson": Loss("count:poisson", "count"),
    "yes or no": Loss("binary:logistic", "two strings", options={"class_weight": "balanced", "threshold": 0.4}),
    "Boolean": Loss(None, "Boolean"),
    "three numbers": Loss("multi:softmax", "three numbers"),
    "two targets": Loss("reg:squarederror", "two numbers", exact=True),
    "normal": Loss("dist:normal", "number"),
    "ranks": Loss("rank:ndcg", "grade", options={"group": "query"}),
}
GROWTHS: dict[str, dict[str, Any]] = {
    "depthwise": {},
    "leafwise, few bins": {"grow_policy": "lossguide", "max_leaves": 12, "max_bin": 5, "min_child_samples": 4},
    "symmetric": {"grow_policy": "symmetric"},
    "slopes": {"linear_tree": True},
    "vector": {"multi_strategy": "multi_output_tree", "min_child_samples": 4},
    "vector with slopes": {"multi_strategy": "multi_output_tree", "linear_tree": True},
    "dart": {"booster": "dart", "rate_drop": 0.3},
    "forest": {"num_parallel_tree": 2, "subsample": 0.8, "colsample_bynode": 0.8, "min_child_samples": 4},
    "approx": {"tree_method": "approx"},
    "exact": {"tree_method": "exact"},
    "monotone": {"monotone_constraints": {"price": 1}},
}
SLOPES, VECTORS = ("slopes", "vector with slopes"), ("vector", "vector with slopes")
DATABASES = ("postgres", "sqlite", "clickhouse", "mariadb", "spark")
FACTORS: dict[str, tuple[str, ...]] = {
    "loss": tuple(LOSSES),
    # what reads it: a model is read in three ways, one of each of these factors
    "output": ("predict", "expr", "case", "lists", "staged", "table", "view"),
    "consumer": ("explain", "macro", "udf", "drift", "report", "dbt"),
    "database": ("none", *DATABASES),
    "container": (
        "polars", "pandas", "arrow", "relation", "shuffled query", "Parquet read once", "NOCASE table",
        "Parquet file", "two lazy frames", "star", "star of relations",
    ),
    "columns": (
        "floats", "float32, integers", "NaN, hostile names", "strings", "Enum, Booleans", "integer categories",
        "dates, decimals", "no value, named prediction",
    ),
    "growth": tuple(GROWTHS),
    "afterwards": ("nothing", "file", "pickle", "slice", "refit", "calibrate", "conform", "continue", "XGBoost"),
    "extra": ("none", "weights", "offset", "exposure", "valid"),
    "engine": ("auto", "numba", "polars", "duckdb", "shards"),
    "maker": ("fit", "folds", "auto", "estimator"),
}  # fmt: skip
# Values that take long: where others meet as many for the first time, these are not chosen.
DEAR = frozenset((
    "report", "auto", "folds", "forest", "dart", "shards", "spark", "quantiles", "three numbers",
    "shuffled query", "star of relations",
))  # fmt: skip
# Every three of these meet as well.
COMMONEST = {
    "loss": ("squared", "Boolean"), "output": ("predict", "case"), "container": ("polars", "relation"),
    "columns": ("floats", "strings"), "afterwards": ("nothing", "file"),
}  # fmt: skip

_IN_DUCKDB = ("relation", "shuffled query", "Parquet read once", "NOCASE table", "star of relations")
_TWO_CLASSES = ("yes or no", "Boolean")
_SEVERAL_MARGINS = ("quantiles", "three numbers", "two targets", "normal")
_REGRESSIONS = ("squared", "absolute", "quantiles", "own", "function", "logarithm", "poisson", "normal")
# Two factors, and whether two values of them do not go together.
_APART: list[tuple[str, str, Callable[[str, str], bool]]] = [
    # what does not exist
    ("loss", "extra", lambda loss, extra: extra == "exposure" and loss != "poisson"),
    ("loss", "extra", lambda loss, extra: extra == "offset" and loss in (*_SEVERAL_MARGINS, "poisson", "logarithm")),
    ("loss", "extra", lambda loss, extra: extra == "weights" and loss == "ranks"),  # weights of queries
    ("engine", "container", lambda e, k: e == "duckdb" and k not in _IN_DUCKDB),
    ("engine", "container", lambda e, k: e == "shards" and "star" in k),
    ("growth", "afterwards", lambda g, a: g in VECTORS and a == "calibrate"),
    ("growth", "afterwards", lambda g, a: g == "vector with slopes" and a == "conform"),
    ("growth", "extra", lambda g, e: g in VECTORS and e in ("offset", "exposure")),
    ("extra", "afterwards", lambda e, a: e == "exposure" and a == "calibrate"),
    ("maker", "engine", lambda m, e: m == "estimator" and e in ("duckdb", "shards")),
    # what is refused, as the documentation says
    ("loss", "growth", lambda loss, g: g == "slopes" and loss in ("absolute", *_SEVERAL_MARGINS, "ranks")),
    ("loss", "growth", lambda loss, g: g == "vector" and loss not in ("three numbers", "two targets", "quantiles")),
    ("loss", "growth", lambda loss, g: g == "vector with slopes" and loss not in ("three numbers", "two targets")),
    ("growth", "engine", lambda g, e: e == "shards" and g in ("approx", "exact", *SLOPES, "vector")),
    ("growth", "engine", lambda g, e: g == "exact" and e in ("polars", "duckdb")),
    ("growth", "container", lambda g, k: g == "exact" and k in _IN_DUCKDB),
    ("growth", "afterwards", lambda g, a: g == "dart" and a in ("refit", "continue")),
    ("growth", "afterwards", lambda g, a: g in SLOPES and a in ("refit", "XGBoost")),
    ("growth", "output", lambda g, o: g in SLOPES and o in ("table", "lists")),
    ("loss", "afterwards", lambda loss, a: a == "calibrate" and loss not in _TWO_CLASSES),
    ("loss", "afterwards", lambda loss, a: a == "conform" and loss not in _REGRESSIONS),
    ("loss", "afterwards", lambda loss, a: a == "XGBoost" and loss in ("own", "function", "logarithm", "normal",
                                                                       "yes or no")),
    ("loss", "afterwards", lambda loss, a: a == "refit" and loss == "function"),
    ("maker", "growth", lambda m, g: m == "auto" and g in ("dart", "exact", "approx", "symmetric",
                                                                      "leafwise, few bins", *VECTORS)),
    ("maker", "extra", lambda m, e: m in ("auto", "folds") and e == "valid"),
    ("maker", "extra", lambda m, e: m in ("auto", "estimator") and e in ("offset", "exposure")),
    ("maker", "extra", lambda m, e: m == "estimator" and e == "valid"),
    ("maker", "loss", lambda m, loss: m == "estimator" and loss in ("ranks", "two targets", "own")),
    ("maker", "container", lambda m, k: m == "estimator" and k not in ("polars", "pandas")),
    ("maker", "afterwards", lambda m, a: m in ("folds", "auto") and a in ("slice", "refit", "continue")),
    ("extra", "afterwards", lambda e, a: e in ("offset", "exposure") and a == "XGBoost"),
    ("columns", "afterwards", lambda c, a: a == "XGBoost" and c in ("dates, decimals", "NaN, hostile names",
                                                                            "integer categories")),
    ("columns", "database", lambda c, d: c == "NaN, hostile names" and d == "spark"),  # which replaces "${"
]  # fmt: skip


def go_together(meeting: Mapping[str, str]) -> bool:
    """Whether the values of a meeting, of some factors or all, go together."""
    return not any(
        one in meeting and other in meeting and apart(meeting[one], meeting[other]) for one, other, apart in _APART
    )
