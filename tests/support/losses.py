"""Fits of the losses, and what an engine takes for their derivatives."""

from __future__ import annotations

import numpy as np
import polars as pl

import frameboost as fb
from frameboost.expressions.expression import Expression
from frameboost.losses.built_in import get_loss
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from frameboost.training.boosting import compute_gradients
from tests.support.engines import open_engine
from tests.support.objectives import FEATURES, Case

__all__ = ["RENEWED", "as_rows", "derivatives", "fit", "loss_of"]


def fit(case: Case, rows, **options) -> fb.Model:
    given = {"objective": case.objective, "features": FEATURES, "n_estimators": 5, "max_depth": 3, "verbose": False}
    return fb.fit(rows, case.label, **given | case.parameters | case.columns | options)


def loss_of(case: Case):
    parameters = Parameters(**case.parameters)
    step = 0.7 if parameters.max_delta_step is None else parameters.max_delta_step
    values = {name: getattr(parameters, name) for name in Parameters.__dataclass_fields__}
    return get_loss(case.objective, values | {"max_delta_step": step})


def derivatives(case: Case, rows: pl.DataFrame, engine: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what an engine takes for g and h of rows ``label``, ``upper`` and ``m0`` .., a column an output."""
    loss = loss_of(case)
    roles = {"label": "label"} | ({"upper": "upper"} if case.columns else {})
    roles |= {f"base_{name}": f"m{i}" for i, name in enumerate(loss.margins)}
    made = open_engine(engine, rows, [Feature("x", FeatureType("int64"))], roles, Parameters(**case.parameters))
    made.bin_columns(made.propose_bins(256, {}))
    made.start_margins({name: Expression(f"base_{name}", (f"base_{name}",)) for name in loss.margins})
    compute_gradients(made, loss)
    names = [f"{kind}_{i}" for kind in "gh" for i in range(loss.n_outputs)]
    if engine == "duckdb":
        found = np.array(made.session.rows(f"SELECT {', '.join(names)} FROM {made.gradients.table}"), dtype=float)
    else:
        found = made.gradients.select(names).to_numpy()
    made.close()
    return found[:, : loss.n_outputs], found[:, loss.n_outputs :]


def as_rows(y, *margins, **more) -> pl.DataFrame:
    given = {"x": np.arange(len(y)), "label": y} | {f"m{i}": m for i, m in enumerate(margins)} | more
    return pl.DataFrame(given)


RENEWED = ("reg:absoluteerror", "reg:quantileerror")
