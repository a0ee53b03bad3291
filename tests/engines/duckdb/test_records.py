"""Nodes and pairs of rows that DuckDB keeps are in memory, where they fit and can be shown to it."""

from contextlib import closing

import duckdb
import numpy as np
import pytest

import frameboost as fb
from frameboost.data.duckdb_session import SHOWN, DuckDBSession
from frameboost.engines.duckdb.records import engine
from frameboost.engines.duckdb.records.engine import PartitionedNodes, WordLayout
from tests.support.stars import random_star, without_joins


def test_codes_and_keys_in_words():
    records = WordLayout({"a": 200, "b": 70_000, "c": 9, "d": 70_000, "e": 300})
    fields = {name: (field.word, field.shift, np.dtype(field.dtype).itemsize) for name, field in records.fields.items()}
    assert fields == {"a": (0, 0, 1), "b": (0, 8, 4), "c": (0, 40, 1), "d": (1, 0, 4), "e": (1, 32, 2)}
    largest = {"a": 255, "b": 2**32 - 1, "c": 255, "d": 2**32 - 1, "e": 2**16 - 1}  # no bit goes elsewhere
    columns = ", ".join(f"{value} AS {name}" for name, value in largest.items())
    (row,) = duckdb.sql(f"SELECT {', '.join(records.sql())} FROM (SELECT {columns})").fetchall()
    assert row == (2**48 - 1, 2**48 - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    ["SET threads = 2", f"CREATE TABLE {SHOWN} (node INTEGER)", "SET python_enable_replacements = false",
     "SET preserve_insertion_order = false", "SET memory_limit = '500MB'"],
)  # fmt: skip
def test_where_nothing_can_be_held_in_memory_or_read_from_it(monkeypatch, setting):
    """Nodes are in a table then (in memory where nothing is set); the model is the same."""
    monkeypatch.setattr("frameboost.engines.duckdb.star.tables._MIN_FACTS", 0)
    star, made = random_star(11), []
    monkeypatch.setattr(
        engine, "PartitionedNodes", lambda *args, **kwargs: made.append(args) or PartitionedNodes(*args, **kwargs)
    )
    how = {"n_estimators": 2, "max_depth": 3, "features": star.features()}
    expected = fb.fit(star.by_hand(), "y", engine="numba", **how)
    with duckdb.connect() as con:
        tables = star.of_relations(con)
        con.execute(setting)
        monkeypatch.setattr(engine, "_SHARE", 1e-6 if "memory_limit" in setting else 1 / 8)  # facts are few
        assert without_joins(fb.fit(tables, "y", **how)) == expected.to_json()
    assert bool(made) == (setting == "SET threads = 2")


def test_a_variable_is_shown_as_a_table():
    with duckdb.connect() as con, closing(DuckDBSession(con.sql("SELECT 1 AS one"))) as session:
        assert session.can_show()
        session.show(node=np.array([3, 1], np.uint16), value=np.array([0.5, -0.0]))
        assert session.rows(f"SELECT * FROM {SHOWN}") == [(3, 0.5), (1, 0.0)]
        session.hide("node", "value")
        with pytest.raises(duckdb.Error):
            session.rows(f"SELECT node FROM {SHOWN}")
        con.execute("SET memory_limit = '1GiB'")
        assert session.memory_limit == 2**30
