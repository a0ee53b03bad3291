"""Nodes and pairs of rows that DuckDB keeps are in memory, where they fit and can be shown to it."""

from contextlib import closing

import duckdb
import numpy as np
import pytest

import frameboost as fb
from frameboost.data.duckdb_session import SHOWN, DuckDBSession
from frameboost.engines.duckdb import memory
from frameboost.engines.duckdb.memory import PartitionedNodes
from tests.support.stars import random_star, without_joins


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
        memory, "PartitionedNodes", lambda *args, **kwargs: made.append(args) or PartitionedNodes(*args, **kwargs)
    )
    how = {"n_estimators": 2, "max_depth": 3, "features": star.features()}
    expected = fb.fit(star.by_hand(), "y", engine="numba", **how)
    with duckdb.connect() as con:
        tables = star.of_relations(con)
        con.execute(setting)
        monkeypatch.setattr(memory, "_SHARE", 1e-6 if "memory_limit" in setting else 1 / 8)  # facts are few
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
