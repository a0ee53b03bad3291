"""The engines, the tables they take, and the promise that their models are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.opening import open_source
from frameboost.engines import choose
from frameboost.engines.contract import EngineRequest
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.training.train import choose_tree_method
from tests.support.frames import FEATURES_BY_TYPE

__all__ = ["ENGINES", "IN_DUCKDB", "as_relation", "assert_same", "open_engine", "shuffled"]

ENGINES = ["numba", "polars", "duckdb"]
_WIDE = {pl.Int128: "HUGEINT", pl.UInt128: "UHUGEINT"}
# DuckDB has one unit of duration, microseconds, so the others come back from it as another type.
IN_DUCKDB = [name for name in FEATURES_BY_TYPE if name != "duration_ms"]


def as_relation(frame: pl.DataFrame) -> duckdb.DuckDBPyRelation:
    """Return the frame as a table of a database; wide integers go as text, which is the one way they can."""
    con = duckdb.connect()
    wide = {name: _WIDE[type(dtype)] for name, dtype in frame.schema.items() if type(dtype) in _WIDE}
    con.register("frame", frame.with_columns(pl.col(list(wide)).cast(pl.String)))
    casts = ", ".join(f'CAST("{name}" AS {type_}) AS "{name}"' for name, type_ in wide.items())
    con.execute(f"CREATE TABLE t AS SELECT * {f'REPLACE ({casts})' if wide else ''} FROM frame")
    con.unregister("frame")
    return con.table("t")


def shuffled(frame: pl.DataFrame, seed: int = 1) -> pl.DataFrame:
    return frame.sample(fraction=1, shuffle=True, seed=seed)


def assert_same(objective: str, first: fb.Model, *others: fb.Model) -> None:
    """Hold models to the promise: byte for byte, or, where the loss needs exp, leaves within 1e-9."""
    for other in others:
        if objective == "reg:squarederror":
            assert other.to_json() == first.to_json()
            continue
        exact = ["tree", "node", "feature", "threshold", "categories", "missing", "left", "right", "condition"]
        assert other.trees.select(exact).equals(first.trees.select(exact))
        np.testing.assert_allclose(other.trees["value"], first.trees["value"], rtol=1e-9)
        assert other.base_margin == pytest.approx(first.base_margin, rel=1e-9)


def open_engine(
    engine: str, data: object, features: Sequence[Feature], roles: Mapping[str, str], parameters: Parameters
) -> Any:
    """Return the engine over training rows that a fit with these parameters would open."""
    source, method = open_source(data), choose_tree_method(parameters)
    description = choose.choose_engine(engine, source, method.contract, method.setting, parameters.n_jobs)
    request = EngineRequest(source, tuple(features), roles, parameters, Workers(parameters.n_jobs))
    return choose.open_engine(description, method.contract, request)
