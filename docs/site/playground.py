"""The playground: a page that scores and explains rows in the browser, by plain JavaScript over the model file.

DuckDB-WASM would run the model's SQL itself, with 34 MB of code (7.6 MB compressed), and not from a folder without a
server. ``playground.js`` walks the trees in a few kilobytes; tests hold its numbers to those of Python.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl

import frameboost as fb

__all__ = ["SCRIPT", "data_of", "playground"]

SCRIPT = Path(__file__).with_name("playground.js")
_OBJECTIVES = ("reg:squarederror", "binary:logistic", "count:poisson")
_FIELDS = {"feature", "threshold", "categories", "missing_left", "left", "right", "gain", "cover", "value"}
_MOST_FEATURES = 8  # of a tree, whose subsets are all valued
_MOST_INTEGER = 2**53  # that JavaScript tells from its neighbours


def playground(model: fb.Model, rows: pl.DataFrame) -> str:
    """Return the HTML of a playground; names and values are data in it."""
    # Within a script element nothing but `<` ends it or begins a comment.
    data = json.dumps(data_of(model, rows)).replace("<", "\\u003c")
    embedded = f'<script type="application/json">{data}</script>'
    return f'<div class="playground">{embedded}</div>\n<script src="{SCRIPT.name}"></script>'


def data_of(model: fb.Model, rows: pl.DataFrame) -> dict[str, Any]:
    """Return what the script reads: the model file, the rows and their other column, and the model's SQL.

    Raises
    ------
    ValueError
        If the script can't score such a model or row as Python does.
    """
    file = json.loads(model.to_json())
    if file["objective"] not in _OBJECTIVES or file.keys() & {"calibration", "interval", "joins", "offset", "labels"}:
        raise ValueError(f"the playground scores models of {', '.join(_OBJECTIVES)}, without offset or calibration")
    for tree in file["trees"]:
        if tree.keys() != _FIELDS or len(set(tree["feature"]) - {-1}) > _MOST_FEATURES:
            raise ValueError(f"the playground has trees of at most {_MOST_FEATURES} features, with constant leaves")
    read = pl.DataFrame([rows[name] for name in model.features])  # `select` takes "*" for all
    for name, kind in read.schema.items():
        if not (kind.is_numeric() or kind in (pl.String, pl.Boolean)) or kind.is_decimal():
            raise ValueError(f"column {name!r} is of type {kind}; the playground has numbers, strings and Booleans")
        if kind.is_integer() and (read[name].cast(pl.Int128).abs() > _MOST_INTEGER).any():
            raise ValueError(f"column {name!r} has an integer beyond 2^53, which JavaScript does not tell from others")
    others = [name for name in rows.columns if name not in model.features]
    return {
        "model": file,
        "sql": model.query("rows", "duckdb"),
        "label": others[0] if others else None,
        "rows": [[_value(value) for value in row] for row in read.iter_rows()],
        "labels": [_value(value) for value in rows[others[0]]] if others else [],
    }


def _value(value: Any) -> Any:
    """Return a value as JSON has it, infinities as in the model file; NaN is missing."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
