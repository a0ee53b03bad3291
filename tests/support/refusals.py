"""Four good rows, and the message with which a fit of bad ones is refused."""

import re

import duckdb
import polars as pl
import pytest

import frameboost as fb

__all__ = ["ENGINES", "good", "is_one_sentence", "refused"]

ENGINES = ["numba", "polars", "duckdb", "relation"]


def good() -> pl.DataFrame:
    return pl.DataFrame({
        "x": [1.0, 2.0, 3.0, 4.0], "s": ["a", "b", "a", None], "y": [0.0, 1.0, 0.0, 1.0], "w": [1.0, 1.0, 2.0, 0.5]
    })  # fmt: skip


def refused(engine: str, frame: pl.DataFrame, **options) -> str:
    """Return the message with which a fit is refused; nothing may be left in the database."""
    con = duckdb.connect()
    data = frame
    if engine == "relation":
        con.register("arrived", frame)
        con.execute("CREATE TABLE t AS FROM arrived")
        data, engine = con.table("t"), "auto"
    options = {"target": "y", "engine": engine, "n_estimators": 2} | options
    with pytest.raises(ValueError) as error:
        fb.fit(data, **options)
    assert isinstance(error.value, fb.FrameboostError)
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]
    return str(error.value)


def is_one_sentence(message: str) -> bool:
    return re.search(r"\n|[^.]\. |[^.]\.$", message) is None
