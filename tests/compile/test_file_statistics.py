"""Parquet files of polars, whose statistics leave NaN out, and by which DuckDB folds comparisons.

A file of 1.0 and NaN says that all its values are 1, so ``x < 3`` is true for DuckDB, of NaN too (duckdb#25521).
"""

import itertools
import math

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.schema.types import Feature, FeatureType
from tests.support.models import grown, made
from tests.support.random_models import naive_margins

NAN, INF = math.nan, math.inf
# Below, around and above all thresholds: a file has some of these, and NaN.
VALUES = {"below": (1.0, 2.0), "around": (2.0, 4.0), "above": (6.0, 7.0), "low": (-INF, 1.0)}
TREES = [
    grown((0, 3.0, "right", -1.0, 2.0)),
    grown((0, 3.0, "left", -4.0, 8.0)),
    grown((0, 4.5, "right", (1, 3.0, "left", 16.0, 32.0), (1, 3.0, "right", (0, 5.0, "left", 1.0, 2.0), 64.0))),
    grown((1, None, "right", 128.0, 256.0)),
    grown((2, {1}, "right", (0, 3.0, "right", 512.0, 0.0), (1, 5.0, "left", 1024.0, 0.0))),
]


def model_of(kind: str, trees=TREES, **parameters) -> fb.Model:
    numbers = [Feature(name, FeatureType(kind)) for name in ("x", "y")]
    return made([*numbers, Feature("c", FeatureType("string"), ("a", "b"))], trees, (0.0,), **parameters)


def rows_of(kind: str, values: tuple[float, float]) -> pl.DataFrame:
    dtype = FeatureType(kind).to_polars()
    both = list(itertools.product([*values, NAN, None], repeat=2))
    return pl.DataFrame(
        {"id": range(len(both)), "x": [x for x, _ in both], "y": [y for _, y in both], "c": ["a", "b", None, "B"] * 4},
        schema_overrides={"x": dtype, "y": dtype},
    )


@pytest.fixture(
    params=[("float64", "around"), ("float64", "above"), ("float64", "low"), ("float32", "below")], ids="-".join
)
def written(request, tmp_path):
    """A connection with a view of a file, its rows, and the model for them."""
    kind, values = request.param
    rows = rows_of(kind, VALUES[values])
    rows.write_parquet(tmp_path / "rows.parquet")
    con = duckdb.connect()
    con.execute(f"CREATE VIEW rows AS FROM '{tmp_path}/rows.parquet'")
    return con, rows, model_of(kind)


@pytest.mark.skipif(duckdb.__version__ == "2.0.0", reason="DuckDB 2.0.0 does not fold this comparison")
def test_the_file_shows_the_fault(tmp_path):
    # If this fails, DuckDB has been mended, and what stands against the fault may go.
    pl.DataFrame({"x": [1.0, NAN]}).write_parquet(tmp_path / "x.parquet")
    assert duckdb.sql(f"SELECT x < 3 FROM '{tmp_path}/x.parquet'").fetchall() == [(True,), (True,)]


def test_every_form_scores_nan_as_missing(written):
    con, rows, model = written
    expected = naive_margins(model, rows.to_dict(as_series=False)).tolist()
    database = model.database()
    for form in ("case", "staged", "sorted", "lists", "auto"):
        query = database.query("rows", keep=["id"], form=form)
        assert [v for _, v in con.sql(query).order("id").fetchall()] == expected, form
    for form in ("case", "lists"):
        found = con.sql(f"SELECT {database.sql(form=form)} FROM rows ORDER BY id").fetchall()
        assert [v for (v,) in found] == expected, form
    con.register("trees", database.table_frame())
    query = database.query("rows", keep=["id"], form="table", trees="trees")
    assert [v for _, v in con.sql(query).order("id").fetchall()] == expected
    model.register(con, "score")
    above = con.sql("SELECT id FROM rows WHERE score(x, y, c) > 300 ORDER BY id").fetchall()
    assert [i for (i,) in above] == [i for i, v in enumerate(expected) if v > 300]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "duckdb"])
def test_a_fit_on_the_file_is_that_on_the_frame(tmp_path, engine):
    rows = rows_of("float64", VALUES["below"]).with_columns(y_true=pl.col("id") * 1.5)
    rows.write_parquet(tmp_path / "rows.parquet")
    fit = {"target": "y_true", "features": ["x", "y"], "n_estimators": 2, "engine": engine, "min_child_weight": 0}
    for valid in (None, "x >= 3 AND id % 2 = 0", "NOT (y < 3) AND id < 8"):
        wanted = fb.fit(rows, **fit, valid=valid).to_json()
        assert fb.fit(duckdb.connect().read_parquet(f"{tmp_path}/*.parquet"), **fit, valid=valid).to_json() == wanted
