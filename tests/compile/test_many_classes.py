"""Models of hundreds of classes: sums and functions of many arguments that SQL parsers and databases accept."""

import re
import sqlite3

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import get_dialect
from frameboost.losses.built_in import get_loss
from frameboost.schema.types import Feature, FeatureType
from tests.support.models import grown, made

X = np.random.default_rng(1).normal(size=20)
ROWS = pl.DataFrame({"id": range(20), "x": X})


def of_classes(n: int) -> tuple[fb.Model, np.ndarray]:
    """Return a model of n classes, with one split for each, and its probabilities of the rows."""
    at, below, above = np.random.default_rng(0).normal(size=(3, n))
    trees = [grown((0, float(at[k]), "left", float(below[k]), float(above[k])), output=k) for k in range(n)]
    model = made([Feature("x", FeatureType("float64"))], trees, (0.0,) * n, "multi:softprob", num_class=n)
    powers = np.exp(np.where(X[:, None] < at, below, above))
    return model, powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.slow  # polars plans hundreds of fields of a struct
def test_hundreds_of_classes_in_polars_and_duckdb():
    model, expected = of_classes(120)
    con = duckdb.connect()
    con.register("t", ROWS)
    found = ROWS.select(model.expr()).to_series().to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)  # leaf values are on their grid
    queried = sorted(con.execute(model.query("t", keep=["id"])).fetchall())
    np.testing.assert_allclose([row[1:] for row in queried], found, rtol=1e-14)


@pytest.mark.slow  # compares each class with all that follow
def test_more_classes_than_a_function_takes_arguments():
    """SQLite's MAX takes 127 arguments, and MAX of a single one is an aggregate; 90 nested parentheses are too deep."""
    model, expected = of_classes(130)
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE t (id INTEGER, x REAL)")
    con.executemany("INSERT INTO t VALUES (?, ?)", enumerate(X.tolist()))
    queried = sorted(con.execute(model.query("t", "sqlite", keep=["id"], output="class")).fetchall())
    assert [row[1] for row in queried] == expected.argmax(axis=1).tolist()
    queried = sorted(con.execute(model.query("t", "sqlite", keep=["id"])).fetchall())
    np.testing.assert_allclose([row[1:] for row in queried], expected, rtol=1e-9)  # leaf values are on their grid


@pytest.mark.parametrize(
    ("n", "sizes"), [(1, [1]), (100, [100]), (101, [100, 2]), (250, [100, 100, 50, 3]), (10_001, [*[100] * 101, 2])]
)
def test_functions_of_many_arguments_are_nested(n, sizes):
    """Trino's GREATEST takes 127 arguments, SQL Server's 254."""
    for name in ("trino", "tsql", "redshift"):
        text = get_dialect(name).call("GREATEST", [f"v{i}" for i in range(n)])
        assert re.findall(r"v\d+", text) == [f"v{i}" for i in range(n)]
        found = []
        while "GREATEST" in text:  # from the inside out
            found += [inside.count(",") + 1 for inside in re.findall(r"GREATEST\(([^()]*)\)", text)]
            text = re.sub(r"GREATEST\([^()]*\)", "v", text)
        assert (found, text) == (sizes, "v")


def test_sums_of_more_than_64_terms_are_split():
    def total(n: int) -> str:
        return get_loss("multi:softprob", {"num_class": n, "scale_pos_weight": 1.0}).terms["total"].text

    assert total(3) == "power_0 + power_1 + power_2"
    assert total(64) == " + ".join(f"power_{k}" for k in range(64))
    first, second = (" + ".join(f"power_{k}" for k in range(*part)) for part in ((0, 50), (50, 100)))
    assert total(100) == f"({first}) + ({second})"
