"""Narrow columns in DuckDB: what is read from them is what was to be stored, to the bit."""

import struct

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.engines.duckdb.widths import narrow_number, narrow_roles, narrowest_integer, read_role
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import grid_offset
from frameboost.losses.exact_sums import Rounded
from tests.support.cases import cases

INF, NAN = float("inf"), float("nan")


def stored_and_read(numbers: list[float], rounded: Rounded) -> tuple[str, list[bytes], list[bytes]]:
    """Return the type that numbers are stored in, what is read from there, and what was to be stored."""
    con = duckdb.connect()
    con.register("frame", pl.DataFrame({"x": numbers}).to_arrow())
    column = narrow_number(rounded, "g", {"x": "x"})
    con.execute(f"CREATE TABLE t AS SELECT {column.stored} AS g, {rounded.to_sql({'x': 'x'})} AS wide FROM frame")
    ((kind,),) = con.execute("SELECT column_type FROM (DESCRIBE t) WHERE column_name = 'g'").fetchall()
    rows = con.execute(f"SELECT {column.read}, wide FROM t").fetchall()
    return kind, [struct.pack("d", read) for read, _ in rows], [struct.pack("d", wide) for _, wide in rows]


@cases("largest", [0.0, 5e-324, 1e-300, 0.25, 1.0, 1.0000001, 3e5, 1e200])
@cases(("n_rows", "kind"), [(2**21, "DOUBLE"), (2**21 + 1, "INTEGER"), (10**12, "INTEGER")])
def test_gradients_of_many_rows_are_integers_and_read_as_they_were(largest, n_rows, kind):
    shares = [0.0, -0.0, 1.0, -1.0, 0.5, 1 / 3, -1 / 7, 1e-9, 0.999999999, -(2.0**-31)]
    rounded = Rounded(Expression("x", ("x",)), grid_offset(largest, n_rows), largest)
    found, read, wide = stored_and_read([largest * share for share in shares], rounded)
    # Below 1e-292 or so the grid is coarser than it need be: a number has fewer steps.
    assert found == ("INTEGER" if largest < 1e-292 else kind)
    assert read == wide


@pytest.mark.parametrize(("numbers", "largest"), [([INF, 1.0], INF), ([NAN, 1.0], NAN), ([1.0, 2.0], INF)])
def test_numbers_without_bounds_stay_as_they_are(numbers, largest):
    found, read, wide = stored_and_read(numbers, Rounded(Expression("x", ("x",)), grid_offset(2.0, 2**30), largest))
    assert (found, read) == ("DOUBLE", wide)


@cases(
    ("source", "kind"),
    [("TRUE", "BOOLEAN"), ("200::UTINYINT", "UTINYINT"), ("-70000", "INTEGER"), ("0.1::FLOAT", "FLOAT"),
     ("0.1::DOUBLE", "DOUBLE"), ("5000000000", "DOUBLE"), ("0.1::DECIMAL(4,2)", "DOUBLE"), ("7::HUGEINT", "DOUBLE")],
)  # fmt: skip
def test_labels_keep_a_narrow_type_of_their_own(source, kind):
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT {source} AS y UNION ALL SELECT NULL")
    roles = {"label": "CAST(source.y AS DOUBLE)", "qid": "source.y"}
    narrow = narrow_roles(DuckDBSession(con.table("t")), roles, {"label": '"y"'})
    assert con.execute(f"SELECT DISTINCT typeof({narrow['label']}) FROM t AS source").fetchall() == [(kind,)]
    assert narrow["qid"] == "source.y"
    read = f"SELECT {read_role('label')} FROM (SELECT {narrow['label']} AS label FROM t AS source)"
    assert con.execute(read).fetchall() == con.execute("SELECT CAST(y AS DOUBLE) FROM t").fetchall()


def test_nodes_have_the_narrowest_type_that_numbers_them():
    largest = [0, 255, 256, 65_535, 65_536]
    assert [narrowest_integer(n) for n in largest] == ["UTINYINT", "UTINYINT", "USMALLINT", "USMALLINT", "INTEGER"]


def test_a_tree_on_integers_is_the_tree_on_doubles():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT (hash(i) % 50)::UTINYINT AS x, (hash(-i) % 40)::UTINYINT AS z, "
                "(x::INTEGER * z % 17 + hash(i + 7) % 3)::UTINYINT AS y, (1 + i % 3 / 4)::FLOAT AS w "
                "FROM range(2097153) AS r(i)")  # fmt: skip
    for more in ({}, {"weight": "w", "subsample": 0.5}):
        shape = {"n_estimators": 2, "max_depth": 3, "verbose": False} | more
        model = fb.fit(con.table("t"), "y", engine="duckdb", **shape)
        assert model == fb.fit(con.table("t"), "y", engine="numba", **shape)


def test_more_nodes_than_a_byte_can_number():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i % 1024 AS x, i % 1024 AS y FROM range(4096) AS r(i)")
    shape = {"n_estimators": 1, "max_depth": 10, "min_child_weight": 0, "reg_lambda": 0, "max_bin": 1024}
    model = fb.fit(con.table("t"), "y", engine="duckdb", **shape)
    assert len(model.trees) > 1024
    assert model == fb.fit(con.table("t"), "y", engine="numba", **shape)
