"""Rows with labels for every objective, and for each objective its label, parameters and columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import polars as pl
import xgboost

__all__ = ["ARITHMETIC", "CASES", "FEATURES", "Case", "labelled_rows", "matrix", "train_xgboost"]

FEATURES = ["x0", "x1", "x2", "x3"]
# Losses that need only + - * / and √, which round the same everywhere.
ARITHMETIC = ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror", "reg:pseudohubererror", "binary:hinge")


@dataclass(frozen=True)
class Case:
    """An objective with its label, parameters and columns; ``outputs`` is the number of margins for each row."""

    objective: str
    label: str
    parameters: dict = field(default_factory=dict)
    columns: dict = field(default_factory=dict)
    outputs: int = 1

    def __str__(self) -> str:
        return " ".join([self.objective, *map(str, self.parameters.values())])


_AFT = {"label_upper_bound": "latest"}
CASES = [
    Case("reg:squarederror", "amount"),
    Case("reg:squaredlogerror", "size"),
    Case("reg:logistic", "share"),
    Case("reg:pseudohubererror", "amount", {"huber_slope": 0.75}),
    Case("reg:absoluteerror", "amount"),
    Case("reg:quantileerror", "amount", {"quantile_alpha": 0.25}),
    Case("reg:quantileerror", "amount", {"quantile_alpha": [0.125, 0.5, 0.875]}, outputs=3),
    Case("binary:logistic", "late"),
    Case("binary:logitraw", "late"),
    Case("binary:hinge", "late"),
    Case("count:poisson", "count"),
    Case("count:poisson", "count", {"max_delta_step": 0.25}),
    Case("reg:gamma", "size"),
    Case("reg:tweedie", "cost", {"tweedie_variance_power": 1.25}),
    Case("multi:softprob", "kind", {"num_class": 3}, outputs=3),
    Case("multi:softprob", "late", {"num_class": 2}, outputs=2),
    Case("multi:softmax", "kind", {"num_class": 3}, outputs=3),
    Case("survival:cox", "time"),
    Case("survival:aft", "earliest", {}, _AFT),
    Case("survival:aft", "earliest",
         {"aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 1.5}, _AFT),
    Case("survival:aft", "earliest",
         {"aft_loss_distribution": "extreme", "aft_loss_distribution_scale": 1.25}, _AFT),
]  # fmt: skip


@cache
def labelled_rows(n: int = 300, seed: int = 1) -> pl.DataFrame:
    """Return rows with a tenth of the features missing; all floats are float32 values, as XGBoost stores them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    present = np.nan_to_num(x, nan=0.7)
    signal = present[:, 0] + np.sin(2 * present[:, 1]) + np.isnan(x[:, 2]) + rng.normal(size=n) / 2
    life = np.exp(signal / 2 + rng.normal(size=n) / 2)
    known = rng.integers(0, 4, n)  # 0 uncensored, 1 right-, 2 left-, 3 interval-censored
    earliest = np.where(known == 2, 0, np.where(known == 3, life * 0.75, life))
    latest = np.where(known == 0, life, life * 1.5)
    labels = {
        "amount": signal * 3,
        "size": np.exp(signal / 2) + 0.125,
        "share": 1 / (1 + np.exp(-signal)),
        "late": signal > 0.3,
        "count": rng.poisson(np.exp(signal / 2)),
        "cost": np.maximum(signal * 2, 0),
        "kind": np.digitize(signal, [-0.5, 1.0]),
        "time": life * rng.choice([-1, 1, 1], n),
        "earliest": earliest,
        "w": rng.uniform(0.25, 2, n),
        "m0": rng.uniform(-0.5, 0.5, n),
        "m1": rng.uniform(-0.5, 0.5, n),
        "m2": rng.uniform(-0.5, 0.5, n),
    }
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(4)})
    floats = [pl.Series(name, values.astype(np.float32)).cast(pl.Float64) for name, values in labels.items()]
    upper = pl.Series("latest", latest.astype(np.float32)).cast(pl.Float64)
    return frame.with_columns(*floats, upper).with_columns(
        latest=pl.when(pl.Series(known == 0)).then("earliest").when(pl.Series(known != 1)).then("latest")
    )


def matrix(case: Case, rows: pl.DataFrame, weight: str | None = None, base_margin: list[str] | None = None):
    """Return the rows as an XGBoost `DMatrix`."""
    given = xgboost.DMatrix(rows.select(FEATURES).to_numpy(), nthread=1)
    label = rows[case.label].to_numpy()
    if case.objective == "survival:aft":
        given.set_float_info("label_lower_bound", label)
        given.set_float_info("label_upper_bound", rows["latest"].fill_null(np.inf).to_numpy())
    else:
        given.set_label(label)
    if weight is not None:
        given.set_weight(rows[weight].to_numpy())
    if base_margin is not None:
        given.set_base_margin(rows.select(base_margin).to_numpy().squeeze())
    return given


def train_xgboost(case: Case, data: xgboost.DMatrix, rounds: int, watched=None, **settings):
    """Train XGBoost on the case; return the booster and its `evals_result`."""
    history: dict = {}
    parameters = {"objective": case.objective, "tree_method": "exact", "eta": 0.3, "nthread": 1, "verbosity": 0}
    booster = xgboost.train(
        parameters | case.parameters | settings, data, rounds,
        evals=watched or [], evals_result=history, verbose_eval=False,
    )  # fmt: skip
    return booster, history
