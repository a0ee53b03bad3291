"""Random objectives with suitable labels, weights, groups, bounds, base margins and metrics."""

from __future__ import annotations

import numpy as np

from frameboost.losses.built_in import LOSSES
from frameboost.metrics.metric import METRICS
from tests.fuzz.columns import Column

__all__ = ["draw_labels"]

_KINDS = {
    "number": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-3, 4),
    "small integer": lambda rng, n: rng.integers(-3, 4, n).astype(float),
    "wide": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-200, 100, n),
    "positive": lambda rng, n: np.exp(rng.normal(size=n)),
    "count": lambda rng, n: rng.integers(0, 6, n).astype(float),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "share": lambda rng, n: rng.random(n),
    "class": lambda rng, n: rng.integers(0, 3, n).astype(float),
    "signed time": lambda rng, n: np.exp(rng.normal(size=n)).round(2) * rng.choice([-1, 1], n),
}
_KINDS_BY_OBJECTIVE = {
    "reg:squarederror": ["number", "small integer", "wide", "class"],
    "reg:squaredlogerror": ["positive", "count"],
    "reg:logistic": ["share", "binary"],
    "reg:gamma": ["positive"],
    "reg:tweedie": ["positive", "count"],
    "count:poisson": ["count", "positive"],
    "dist:normal": ["number", "small integer"],
    "dist:lognormal": ["positive"],
    "dist:negbinomial": ["count", "positive"],
    "survival:cox": ["signed time"],
    "survival:aft": ["positive"],
} | {name: ["class"] for name in LOSSES if name.startswith(("multi:", "rank:"))}
# Custom losses, as the arguments of `fb.Objective`, with + - * / only, so that all engines agree exactly.
_CUSTOM_OBJECTIVES = [
    ("CASE WHEN margin > label THEN 0.75 ELSE -0.25 END", "1"),
    ("(margin - label) * 3", "3"),
    ("(margin - label) / (1 + ABS(margin - label))", "1 / (1 + ABS(margin - label))"),
]
# What labels are called; sorted, the first is not always the first.
_LABELS = [["no", "yes", "maybe"], ["it's", 'a "b"', "é"], ["1", "0", "10"], ["z", "", "A"], ["nan", "NULL", "true"]]
_KINDS_BY_FAMILY = {"binary": ["binary"], "reg": ["number", "small integer"]}


def draw_labels(rng: np.random.Generator, n_rows: int) -> tuple[list[Column], dict]:
    """Draw the columns that are not features, and the keywords of `fb.fit` that name them."""
    # At least two in five fits use squared error, for which engines must agree exactly.
    objective = "reg:squarederror" if rng.random() < 0.4 else str(rng.choice(list(LOSSES)))
    kinds = _KINDS_BY_OBJECTIVE.get(objective) or _KINDS_BY_FAMILY[objective.partition(":")[0]]
    kind = str(rng.choice(kinds if rng.random() < 0.95 else list(_KINDS)))
    with np.errstate(over="ignore"):
        target = _KINDS[kind](rng, n_rows)
    if rng.random() < 0.03:
        target[rng.integers(n_rows)] = rng.choice([np.nan, np.inf, 1e300, -1.0])
    columns, options = [_column("target", target)], {"target": "target", "objective": objective}
    if objective.startswith("multi:") and rng.random() < 0.5:
        options["num_class"] = int(rng.integers(2, 6))
    if objective == "reg:quantileerror":
        options["quantile_alpha"] = [0.5] if rng.random() < 0.5 else [0.1, 0.5, 0.75]
    if objective == "survival:aft":
        upper = np.where(rng.random(n_rows) < 0.3, np.inf, target * rng.choice([1.0, 1.5], n_rows))
        columns.append(_column("upper", upper))
        options |= {"label_upper_bound": "upper",
                    "aft_loss_distribution": str(rng.choice(["normal", "logistic", "extreme"]))}  # fmt: skip
    if objective.startswith("rank:"):
        if objective == "rank:map":
            columns[0] = _column("target", np.minimum(target, 1.0))
        queries = np.sort(rng.integers(0, 1 + n_rows // 5, n_rows))
        columns.append(Column("group", "int32", tuple(queries.tolist())))
        options["group"] = "group"
    elif rng.random() < 0.3:
        columns.append(_column("w", rng.choice([0.0, 0.1, 1.0, 1e-20, 1e20] if rng.random() < 0.3 else [0.5, 1.0, 2.0],
                                               n_rows)))  # fmt: skip
        options["weight"] = "w"
    if objective.startswith("reg:") and "quantile_alpha" not in options:
        if rng.random() < 0.1:
            columns.append(_column("base", rng.normal(size=n_rows).round(2)))
            options["base_margin"] = "base"
        elif objective == "reg:squarederror" and rng.random() < 0.1:
            columns.append(_column("target_2", _KINDS["number"](rng, n_rows)))
            options["target"] = ["target", "target_2"]
    if rng.random() < 0.3:
        names = list(METRICS)
        if objective.startswith("rank:"):
            names = ["ndcg", "ndcg@3", "map", "map@2-", "pre@2", "auc"]
        options["eval_metric"] = str(rng.choice(names))
    if objective == "reg:squarederror" and rng.random() < 0.1:
        options["objective"] = _CUSTOM_OBJECTIVES[int(rng.integers(len(_CUSTOM_OBJECTIVES)))]
    if objective.startswith(("binary:", "multi:")) and kind in ("binary", "class") and rng.random() < 0.5:
        columns[0] = _labelled(rng, columns[0], options)
    return columns, options


def _labelled(rng: np.random.Generator, target: Column, options: dict) -> Column:
    """Return the classes as Booleans or strings; the target's type may then decide the objective."""
    codes = [int(value) if 0 <= value < 3 else None for value in target.values]
    if rng.random() < 0.4:
        options.pop("objective")
        options.pop("num_class", None)
    if max((code for code in codes if code is not None), default=0) < 2 and rng.random() < 0.4:
        return Column("target", "boolean", tuple(codes))
    labels = _LABELS[int(rng.integers(len(_LABELS)))]
    if rng.random() < 0.4:
        options["positive"] = labels[int(rng.integers(2))]
    casts = ["", "", "pl.Categorical", f"pl.Enum({labels!r})"]
    names = tuple(None if code is None else labels[code] for code in codes)
    return Column("target", "string", names, casts[int(rng.integers(len(casts)))])


def _column(name: str, values: np.ndarray) -> Column:
    return Column(name, "float64", tuple(values.tolist()))
