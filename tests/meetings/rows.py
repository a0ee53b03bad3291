"""The rows of a meeting: as a polars frame, and as each container that `fit` takes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import frameboost as fb
from tests.support.random_models import to_duckdb

__all__ = ["CONTAINERS", "LABELS", "feature_names", "rows"]

N_ROWS = 240
_HOSTILE = 'it\'s "x" </script> ${y} {{ z }} \x1b[31m %s'
_STRINGS = ["a", "A", "é", "e", "it's", "\\"]  # told apart by case only, by accent only, and with quotes
# Six values of each type, whose order is not that of their effects on the label.
_VALUES: dict[str, tuple[list[Any], Any]] = {
    "integers": ([3, 1, 10, 7, 2, 5], pl.Int16),
    "strings": (_STRINGS, pl.String),
    "Enum": (_STRINGS, pl.Enum(["\\", "a", "A", "é", "e", "it's"])),
    "integer categories": ([3, 1, 9, 7, 2, 5], pl.Int64),
    "Booleans": ([True, False, True, False, True, False], pl.Boolean),
    "dates": ([dt.date(2013, month, 1) for month in (3, 1, 10, 7, 2, 5)], pl.Date),
    "decimals": ([Decimal(f"{v}.25") for v in (3, 1, 10, 7, 2, 5)], pl.Decimal(9, 2)),
    "no value": ([None] * 6, pl.Float64),
}
_EFFECTS = np.array([0.0, 4.0, 2.0, 6.0, 1.0, 5.0])
# Of a kind of columns: the features beside the price, and what they hold.
_FEATURES = {
    "floats": {},
    "float32, integers": {"number": "integers"},
    "NaN, hostile names": {_HOSTILE: "strings"},
    "strings": {"kind": "strings"},
    "Enum, Booleans": {"flag": "Booleans", "kind": "Enum"},
    "integer categories": {"kind": "integer categories"},
    "dates, decimals": {"day": "dates", "amount": "decimals"},
    "no value, named prediction": {"empty": "no value", "prediction": "strings"},
}
LABELS = {"two numbers": ["y", "y2"]}  # of other labels "y"


def feature_names(columns: str) -> list[str]:
    """Return the columns that are features."""
    return ["price", *_FEATURES[columns]]


@cache
def rows(columns: str, label: str) -> pl.DataFrame:
    """Return the rows: features, labels, a weight, an offset, an exposure and a query; ``id`` numbers them."""
    rng = np.random.default_rng(7)
    price, level = (rng.integers(100, 1000, N_ROWS) / 100).round(2), rng.integers(0, 6, N_ROWS)
    features, effect = {}, np.zeros(N_ROWS)
    for name, kind in _FEATURES[columns].items():
        values, dtype = _VALUES[kind]
        held = level % 2 if kind == "Booleans" else level
        told = [None if gone else values[i] for gone, i in zip(rng.random(N_ROWS) < 0.1, held, strict=True)]
        features[name] = pl.Series(told, dtype=dtype)
        effect = _EFFECTS[level]
    absent = rng.random(N_ROWS) < 0.15
    price = np.where(absent, np.nan, price)
    signal = np.where(absent, 5.0, np.nan_to_num(price)) + effect  # 1 to 16
    offset = (rng.integers(-8, 9, N_ROWS) / 4).round(2)
    exposure = rng.integers(1, 9, N_ROWS) / 4
    scale = 1e-7 if label == "tiny number" else 1.0
    frame = pl.DataFrame({
        "id": range(N_ROWS), "price": price, "weight": rng.integers(1, 4, N_ROWS) / 1.0, "offset": offset * scale,
        "exposure": exposure, "query": np.arange(N_ROWS) // 8, "late": rng.random(N_ROWS) < 0.25,
        **_labels(rng, label, signal, offset, exposure, scale), **features,
    })  # fmt: skip
    if "NaN" not in columns:
        frame = frame.with_columns(pl.col("price").fill_nan(None))
    return frame.with_columns(pl.col("price").cast(pl.Float32)) if "float32" in columns else frame


def _labels(
    rng: np.random.Generator, label: str, signal: np.ndarray, offset: np.ndarray, exposure: np.ndarray, scale: float
) -> dict[str, Any]:
    noise = rng.normal(size=len(signal)) / 4
    if label == "count":
        return {"y": rng.poisson(exposure * np.exp(signal / 6 - 0.5))}
    if label == "grade":
        return {"y": np.digitize(signal + offset, [4.0, 7.0, 10.0])}
    if label in ("two strings", "Boolean"):
        late = signal + noise > 6
        return {"y": late if label == "Boolean" else np.where(late, "it's </b>", "${no}")}
    if label == "three numbers":
        return {"y": np.digitize(signal + noise, [6.5, 10.0])}
    if label == "two numbers":
        return {"y": signal + noise, "y2": (9 - signal) * 1e-7}  # the scale of one does not concern the other
    return {"y": (signal + offset + noise) * scale}


def _table(frame: pl.DataFrame, con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    to_duckdb(con, frame, "given_rows")
    return con.table("given_rows")


def _read_once(frame: pl.DataFrame, con: duckdb.DuckDBPyConnection, folder: Path) -> duckdb.DuckDBPyRelation:
    """Return a query of a file that has all rows when it is read first, and none afterwards."""
    con.execute("CREATE SEQUENCE readings")
    return con.read_parquet(str(_parquet(frame, folder))).filter(f"nextval('readings') <= {len(frame)}")


def _nocase(frame: pl.DataFrame, con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    _table(frame, con)
    columns = con.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'given_rows'")
    for name, kind in columns.fetchall():
        if kind == "VARCHAR":
            quoted = name.replace('"', '""')
            con.execute(f'ALTER TABLE given_rows ALTER "{quoted}" TYPE VARCHAR COLLATE NOCASE')
    return con.table("given_rows")


def _parquet(frame: pl.DataFrame, folder: Path) -> Path:
    frame.write_parquet(folder / "rows.parquet")  # by polars, whose statistics leave NaN out
    return folder / "rows.parquet"


def _dictionaries(frame: pl.DataFrame, columns: str) -> pa.Table:
    table = frame.to_arrow()
    if columns == "integer categories":
        place = table.column_names.index("kind")
        table = table.set_column(place, "kind", table.column("kind").dictionary_encode())
    return table


def _star(frame: pl.DataFrame, columns: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return facts and a dimension, which has the last feature."""
    names = feature_names(columns)[-1:]
    keys = frame.select(names).unique(maintain_order=True).with_row_index("key")
    facts = frame.join(keys, on=names, how="left", nulls_equal=True, maintain_order="left")
    return facts.drop(names), keys


def _pandas(frame: pl.DataFrame, columns: str) -> Any:
    # numpy has no integers, Booleans, dates and decimals with missing values: pandas would store other types.
    retyped = {"integers", "Booleans", "dates", "decimals", "integer categories"} & {*_FEATURES[columns].values()}
    converted = frame.to_pandas(use_pyarrow_extension_array=bool(retyped))
    return converted.astype({"kind": "category"}) if columns == "integer categories" else converted


def _joined_relations(frame: pl.DataFrame, columns: str, con: duckdb.DuckDBPyConnection) -> Any:
    facts, keys = _star(frame, columns)
    to_duckdb(con, facts.drop("position", strict=False), "facts")
    to_duckdb(con, keys.drop("position", strict=False), "keys")
    return fb.join(con.table("facts"), con.sql("SELECT * EXCLUDE (position) FROM keys"), on="key")


# Of a frame, the kind of its columns, a connection and a folder.
CONTAINERS: dict[str, Callable[[pl.DataFrame, str, duckdb.DuckDBPyConnection, Path], Any]] = {
    "polars": lambda frame, columns, con, folder: frame,
    "pandas": lambda frame, columns, con, folder: _pandas(frame, columns),
    "arrow": lambda frame, columns, con, folder: _dictionaries(frame, columns),
    "relation": lambda frame, columns, con, folder: _table(frame, con),
    "shuffled query": lambda frame, columns, con, folder: _table(frame, con).query(
        "shuffled", "SELECT * FROM shuffled ORDER BY random()"
    ),
    "Parquet read once": lambda frame, columns, con, folder: _read_once(frame, con, folder),
    "NOCASE table": lambda frame, columns, con, folder: _nocase(frame, con),
    "Parquet file": lambda frame, columns, con, folder: _parquet(frame, folder),
    "two lazy frames": lambda frame, columns, con, folder: [frame[:100].lazy(), frame[100:].lazy()],
    "star": lambda frame, columns, con, folder: fb.join(*_star(frame, columns), on="key"),
    "star of relations": lambda frame, columns, con, folder: _joined_relations(frame, columns, con),
}
