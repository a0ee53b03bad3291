"""`fit` and `load`: from data or from a file to a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from frameboost.boosting import boost, evaluate
from frameboost.checks import check_rows, find_column, pick_features
from frameboost.constraints import Constraints
from frameboost.engines.choose import check_engine, make_engine
from frameboost.errors import ParameterError
from frameboost.given_cuts import bins_from_cuts
from frameboost.leaf_grid import on_leaf_grid
from frameboost.model import Model
from frameboost.model_file import read_model
from frameboost.objectives import Objective, get_objective
from frameboost.parameters import Parameters, parameter_table
from frameboost.progress import progress
from frameboost.sources import open_source

__all__ = ["fit", "load"]


def fit(
    data: Any,
    target: str,
    *,
    objective: str = "reg:squarederror",
    features: Iterable[str] | None = None,
    weight: str | None = None,
    engine: str = "auto",
    cuts: Mapping[str, Iterable[Any]] | None = None,
    verbose: bool | None = None,
    **parameters: Any,
) -> Model:
    """Train a gradient boosted model on a frame or on a table in a database."""
    settings = Parameters.from_keywords(parameters)
    loss = get_objective(objective)
    _check_base_score(loss, settings)
    if cuts is not None and settings.tree_method == "exact":
        raise ParameterError("cuts do not go with tree_method='exact', which splits between any two values")
    source = open_source(data)
    name = check_engine(engine, source, settings)
    find_column(source, target, "target")
    if weight is not None:
        find_column(source, weight, "weight")
    chosen = pick_features(source, features, target, weight)
    Constraints.of(settings, chosen)  # which raises before any work starts
    with closing(make_engine(name, source, chosen, target, weight, settings)) as rows:
        check_rows(rows, loss, target, weight)
        given = bins_from_cuts(cuts, chosen, rows.count_missing()) if cuts else {}
        metric = loss.metric
        with progress(settings.n_estimators, metric.name, lambda: evaluate(rows, metric), verbose=verbose) as on_round:
            ensemble = boost(rows, loss, settings, given, on_round)
    base_margin, trees = on_leaf_grid(ensemble.base_margin, ensemble.trees)
    return Model(loss, settings.shaping(), ensemble.features, base_margin, trees)


def load(path: str | Path) -> Model:
    """Read a model from a file that `Model.save` has written. Nothing in the file is run, and all of it is checked.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is damaged; the message says where.
    OSError
        If it can't be read.

    Examples
    --------
    >>> import frameboost as fb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> _ = path.write_text("{}")
    >>> fb.load(path)
    Traceback (most recent call last):
    frameboost.errors.ModelFileError: not a frameboost model: "format" must be "frameboost", not null
    """
    parts = read_model(Path(path).read_bytes())
    return Model(get_objective(parts.objective), parts.parameters, parts.features, parts.base_margin, parts.trees)


def _check_base_score(objective: Objective, parameters: Parameters) -> None:
    low, high = objective.score_range
    score = parameters.base_score
    if score is not None and not low < score < high:
        raise ParameterError(
            f"base_score must lie between {low:g} and {high:g} for objective {objective.name!r}, not {score!r}"
        )


fit.__doc__ = f"""Train a gradient boosted model on a frame or on a table in a database.

The model is the same whichever engine trains it, on however many threads and in whatever order the rows come.

Parameters
----------
data : polars DataFrame or LazyFrame, DuckDB relation, pandas DataFrame, Arrow table
    A row an example. A DuckDB relation may be a table, a view, a query or files
    (``con.table("flights")``, ``con.sql("..."), con.read_parquet("*.parquet")``); its rows stay in the database, and
    the connection's temporary tables that hold the state of the fit are gone afterwards.
target : str
    The column to predict: numeric or Boolean, without NULL, NaN or infinities.
objective : str, default 'reg:squarederror'
    The loss: ``'reg:squarederror'`` or ``'binary:logistic'`` (labels 0 and 1).
features : list of str, optional
    The columns to predict from; by default all but target and weight. Numbers, decimals, Booleans, dates, timestamps
    and durations are split at a threshold, strings (Enum and Categorical too) by set membership. NULL and NaN are
    missing values, and each split learns where they go.
weight : str, optional
    A column of row weights, 0 or more.
engine : {{'auto', 'numba', 'polars', 'duckdb'}}, default 'auto'
    Where the sums are taken: compiled kernels, lazy group-bys, or SQL. ``'auto'`` is duckdb for a relation and
    numba for everything else.
cuts : dict, optional
    For some columns, the values at which their bins start (instead of quantiles).
verbose : bool, optional
    Whether to show a progress bar; by default when a fit takes long at a terminal or in a notebook.
{parameter_table()}

Returns
-------
Model

Raises
------
ParameterError
    If a parameter is unknown, out of range, or does not go with another.
DataError
    If the data can't be trained on; the message names the column.

Examples
--------
>>> import polars as pl, frameboost as fb
>>> df = pl.DataFrame({{"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 1.0, 5.0, 5.0]}})
>>> model = df.pipe(fb.fit, target="y", n_estimators=1, learning_rate=1.0, reg_lambda=0.0)
>>> df.with_columns(model.expr())["prediction"].to_list()
[1.0, 1.0, 5.0, 5.0]
>>> import duckdb
>>> con = duckdb.connect()
>>> _ = con.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x, range > 4 AS late FROM range(10)")
>>> fb.fit(con.table("t"), target="late", objective="binary:logistic", n_estimators=2)
Model: binary:logistic, 2 trees (depth 1, 4 leaves), 1 feature
  x  float64
"""
