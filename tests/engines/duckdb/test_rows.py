"""Queries over the rows name what is asked for, whatever else is defined."""

import duckdb
import pytest

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate


@pytest.fixture
def engine():
    """Return three rows with a label, and terms of it, of which one uses another."""
    rows = duckdb.connect().sql("SELECT * FROM (VALUES (1.0, 7.0), (2.0, 8.0), ('NaN'::DOUBLE, 9.0)) AS t (y, z)")
    engine = DuckDBEngine(DuckDBSession(rows), (), (), {"label": "y", "upper": "z"})
    engine.add_columns({"twice": Expression("2 * label"), "more": Expression("twice + 1", ("twice",))})
    engine.add_columns({"aside": Expression("5 * upper", ("upper",))})
    yield engine
    engine.close()


def total(engine, name):
    return engine.aggregate({"found": Aggregate("sum", Expression(name, (name,)))})["found"]


def test_terms_are_the_same_stored_and_not(engine):
    names = ("twice", "more", "aside", "label", "weight")
    expected = [6.0, 8.0, 120.0, 3.0, 3.0]  # a NULL has no part in a sum
    assert [total(engine, name) for name in names] == expected
    engine.store_terms()
    assert [total(engine, name) for name in names] == expected
    engine.add_columns({"more": Expression("aside - upper", ("aside", "upper"))})
    assert total(engine, "more") == 96.0


def test_a_query_has_only_the_terms_that_are_used(engine):
    wanted = [Expression("more", ("more",))]
    for _ in range(2):
        query, names = engine.query(wanted)
        assert "aside" not in names
        assert "aside" not in query
        assert names["more"] == "more"
        engine.store_terms()
