"""Small models that are exported, and their rows in DuckDB."""

from __future__ import annotations

import random
from functools import cache

import duckdb
import polars as pl

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.random_models import frame_of, random_model, random_values

__all__ = ["named", "scored", "small", "table_of", "with_categories"]


@cache
def small(**parameters) -> tuple[fb.Model, pl.DataFrame]:
    frame = pl.DataFrame({"x": [1, 2, 3, 4, None, 6], "s": ["a", "b", "a", None, "b", "c"],
                          "y": [0.0, 0.0, 8.0, 8.0, 3.0, 1.0]})  # fmt: skip
    return fb.fit(frame, "y", n_estimators=3, max_depth=2, min_child_weight=0, **parameters), frame


def named(names: list[str], seed: str = "names") -> tuple[fb.Model, pl.DataFrame]:
    """Return a model with features of those names, int32 and string by turns, and rows to score."""
    rng = random.Random(seed)
    kinds = [FeatureType(("int32", "string")[i % 2]) for i in range(len(names))]
    model = random_model(kinds, names, rng, n_trees=15, depth=4)
    return model, frame_of(model, {name: random_values(k, 40, rng) for k, name in zip(kinds, names, strict=True)})


def with_categories(categories: list[str]) -> tuple[fb.Model, pl.DataFrame]:
    """Return a model that tells each of the categories from all others."""
    frame = pl.DataFrame({"s": categories * 4, "y": [float(i) for i in range(len(categories))] * 4})
    model = fb.fit(frame, "y", n_estimators=2, max_depth=8, max_leaves=100, min_child_weight=0, cat_smooth=0)
    assert model.predict(frame).n_unique() > len(set(categories)) // 2
    return model, frame


def table_of(con: duckdb.DuckDBPyConnection, frame: pl.DataFrame, name: str = "t") -> None:
    con.register("arrived", frame.with_row_index("id"))
    con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM arrived")


def scored(con: duckdb.DuckDBPyConnection, sql: str) -> list:
    rows = sorted(con.execute(sql).fetchall())
    assert [row[0] for row in rows] == list(range(len(rows)))
    return [row[1] for row in rows]
