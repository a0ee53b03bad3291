"""The public functions and methods, found by introspection, each with a valid call as text."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

import frameboost as fb
from frameboost import plots
from frameboost.joins.star import Star
from frameboost.parameters.parameters import Parameters

__all__ = ["PRELUDE", "EntryPoint", "entry_points"]

# Defines the names that arguments use; the script of a case starts with it.
PRELUDE = """\
import datetime as dt, decimal, io, math, pathlib, pickle, tempfile, warnings
import duckdb, numpy as np, pandas as pd, polars as pl, pyarrow as pa, frameboost as fb
folder = pathlib.Path(tempfile.mkdtemp())
df = pl.DataFrame({"x": [0.5, 1.5, None, 2.5, 3.0, 4.0] * 5, "s": ["a", "b", None, "a", "c", "b"] * 5,
                   "y": [0, 1, 1, 0, 1, 0] * 5, "w": [1.0, 0.5, 2.0] * 10, "late": [False, True] * 15})
con = duckdb.connect()
con.register("arrived", df.to_arrow())
con.execute("CREATE TABLE t AS FROM arrived")
shape = dict(features=["x", "s"], n_estimators=2, max_depth=2, verbose=False)
model = fb.fit(df, "y", objective="binary:logistic", **shape)
classes = fb.fit(df, "y", objective="multi:softprob", **shape)
model.save(folder / "model.json")
star = fb.join(df, df.select("s").unique().drop_nulls().with_columns(n=1), on="s", name="kinds")
of_star = fb.fit(star, "y", features=["x", "n"], n_estimators=2, verbose=False)
"""

_VALID = {
    "data": "df", "X": "df.select('x', 's')", "target": "'y'", "path": "folder / 'model.json'", "table": "'t'",
    "view": "'v'", "column": "'scored'", "con": "con", "name": "'scored'", "baseline": "model.database().baseline(df)",
    "feature": "'x'", "folder": "folder / 'dbt'", "source": "'t'", "model": "model",
    "n_estimators": "2", "verbose": "False", "folds": "2", "client": "None",
}  # fmt: skip
# Arguments that only the package itself passes.
_INTERNAL_ARGUMENTS = {"fb.Metric": ("columns", "terms")}
# Valid arguments of single functions, in place of those above.
_VALID_BY_FUNCTION = {
    "FrameBoost": {"y": "df['y'].to_numpy()"},
    "create_table_sql": {"target": "'scored'"},
    "fb.compare": {"first": "model", "second": "model"},
    "fb.aggregate": {"table": "df", "by": "'s'", "columns": "{'x': 'sum'}", "time": "'w'"},
    "star.join": {"right": "df.select('s').unique().drop_nulls().with_columns(m=1)", "on": "'s'"},
    "plots.importance": {}, "plots.waterfall": {"row": "df.head(1)"},
    "plots.drift": {"data": "df.with_columns(t=dt.date(2024, 1, 1))", "time": "'t'"},
    "fb.join": {"left": "df", "right": "df.select('s').unique().drop_nulls().with_columns(n=1)", "on": "'s'"},
    "auto": {"checkpoint": "folder / 'search'", "groups": "'s'", "time": "'x'"},
    "Metric": {"name": "'mine'", "sql": "'avg(abs(label - prediction))'"},
    "Objective": {"gradient": "'margin - label'"},
    "from_catboost": {"model": "b'{}'"}, "from_lightgbm": {"model": "b'tree'"}, "from_sklearn": {"model": "None"},
    "from_xgboost": {"model": "b'{}'"}, "Dask": {"client": "None"}, "Spark": {},
}  # fmt: skip
_FIT = [name for name in inspect.signature(fb.fit).parameters if name not in ("data", "target", "parameters")]
_SETTINGS = [field.name for field in dataclasses.fields(Parameters)]
# The keywords that a ** argument of that name takes.
_KEYWORDS_OF = {
    "parameters": lambda: _SETTINGS,
    "options": lambda: [*_FIT, *_SETTINGS],
    "keywords": lambda: [*_FIT, *_SETTINGS],
}
_INSTANCES = {
    fb.Model: ["model", "classes"],
    fb.DatabaseModel: ["model.database()", "classes.database('postgres')", "model.database(base_margin='w')"],
}
_ESTIMATORS = ("FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor")
# Methods of scikit-learn, and those of metrics and losses that engines call.
_SKIPPED = ("loss", "over", "describe", "set_params", "get_params",
           "get_metadata_routing", "set_fit_request", "set_predict_request", "set_score_request",
           "set_predict_proba_request", "set_decision_function_request")  # fmt: skip


@dataclass(frozen=True)
class EntryPoint:
    """A function as text, its required arguments with valid values, its optional arguments, and its ``**`` keywords."""

    text: str
    required: tuple[tuple[str, str], ...]
    optional: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    is_estimator: bool = False


def _entry(text: str, function: Callable[..., Any], *, bound: bool, is_estimator: bool = False) -> EntryPoint:
    parameters = list(inspect.signature(function).parameters.values())
    parameters = parameters[1:] if bound and parameters and parameters[0].name == "self" else parameters
    own = next((values for key, values in _VALID_BY_FUNCTION.items() if key in text), {})
    required, optional, keywords = [], [], []
    for parameter in parameters:
        if parameter.name in _INTERNAL_ARGUMENTS.get(text, ()):
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            # A ** argument of another name is given an unknown keyword.
            keywords += _KEYWORDS_OF.get(parameter.name, lambda: ["unknown"])()
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        elif parameter.default is inspect.Parameter.empty:
            required.append((parameter.name, (_VALID | own).get(parameter.name, "None")))
        else:
            optional.append(parameter.name)
    if {"n_estimators", "verbose"} <= {*optional, *keywords}:  # keeps a fit short
        required += [("n_estimators", "2"), ("verbose", "False")]
    return EntryPoint(text, tuple(required), tuple(optional), tuple(dict.fromkeys(keywords)), is_estimator)


def entry_points() -> list[EntryPoint]:
    """Return the functions and classes of `frameboost`, their methods, those of `df.boost`, and the estimators."""
    found = []
    for name in fb.__all__:
        item = getattr(fb, name)
        if (inspect.isclass(item) and issubclass(item, BaseException)) or not callable(item):
            continue
        if item not in _INSTANCES:  # users get these from methods, not from the class
            found.append(_entry(f"fb.{name}", item, bound=False))
        if inspect.isclass(item):
            instances = _INSTANCES.get(item) or [_constructor_call(f"fb.{name}")]
            found += [_entry(f"{instance}.{method}", function, bound=True)
                      for instance in instances for method, function in _methods(item)]  # fmt: skip
    for name in plots.__all__:
        found.append(_entry(f"fb.plots.{name}", getattr(plots, name), bound=False))
    found += [_entry("star.join", Star.join, bound=True), _entry("of_star.query", fb.Model.query, bound=True),
              _entry("of_star.database", fb.Model.database, bound=True)]  # fmt: skip
    for frame, space in (("df", pl.DataFrame.boost), ("df.lazy()", pl.LazyFrame.boost)):
        found += [_entry(f"{frame}.boost.{method}", function, bound=True) for method, function in _methods(space)]
    found += [
        EntryPoint("model.__getitem__", (("rounds", "slice(1)"),), ()),
        EntryPoint("model.__eq__", (("other", "model"),), ()),
    ]
    for name in _ESTIMATORS:
        item = getattr(fb, name)
        fields = [field for field in inspect.signature(item).parameters if field != "n_estimators"]
        required = (("X", "df.select('x', 's')"), ("y", "df['y'].to_numpy()"))
        found.append(EntryPoint(f"(lambda X, y, **given: fb.{name}(**({{'n_estimators': 2}} | given)).fit(X, y))",
                                required, ("objective", "engine"), ("n_estimators", *fields), True))  # fmt: skip
        fitted = f"fb.{name}(n_estimators=2).fit(df.select('x', 's'), df['y'].to_numpy())"
        found += [_entry(f"{fitted}.{method}", function, bound=True, is_estimator=True)
                  for method, function in _methods(item)]  # fmt: skip
    return found


def _methods(item: type) -> list[tuple[str, Callable[..., Any]]]:
    members = inspect.getmembers(item, callable)
    named = [(name, function) for name, function in members if not name.startswith("_") and name not in _SKIPPED]
    return [(name, function) for name, function in named if not inspect.isclass(function) and _is_ours(function)]


def _is_ours(function: Callable[..., Any]) -> bool:
    return (getattr(function, "__module__", "") or "").startswith(("frameboost", "sklearn.base"))


def _constructor_call(text: str) -> str:
    values = next(values for key, values in _VALID_BY_FUNCTION.items() if key in text)
    return f"{text}({', '.join(f'{name}={value}' for name, value in values.items())})"
