"""Deep trees: chains of thousands of splits, and the nesting of CASE that each database accepts."""

import math
import random
import sqlite3

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.cli import main
from frameboost.errors import ParameterError
from frameboost.losses.built_in import get_loss
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree, on_leaf_grid
from tests.support.cases import cases
from tests.support.models import grown, made, model_of_parts
from tests.support.random_models import (
    TYPES,
    chain_model,
    frame_of,
    lopsided_model,
    naive_margins,
    random_categories,
    random_values,
)
from tests.support.warehouses import ALL, ALL_BUT_SPARK, databases, open_warehouse

SPLITS = 1_200
X = [None, float("nan"), -1.0, 0.0, 0.5, 999.5, SPLITS - 1.5, SPLITS - 1.0, 1e9, *np.linspace(1, 1_190, 30).tolist()]
ROWS = pl.DataFrame({"id": range(len(X)), "x": X})


@pytest.fixture(scope="module", params=["left", "right"])
def chain(request) -> fb.Model:
    return chain_model(SPLITS, request.param)


def margins(model: fb.Model, xs: list = X) -> list[float]:
    return naive_margins(model, {"x": xs}).tolist()


# --- a chain of thousands of splits -----------------------------------------------------------------------------------


def test_a_chain_predicts_and_survives_its_file(chain, tmp_path):
    assert chain.predict(ROWS).to_list() == margins(chain)
    chain.save(tmp_path / "chain.json")
    loaded = fb.load(tmp_path / "chain.json")
    assert loaded.predict(ROWS).to_list() == margins(chain)
    assert loaded.trees["depth"].max() == SPLITS


@pytest.mark.slow
def test_a_chain_is_a_polars_expression(chain):
    assert ROWS.select(chain.expr()).to_series().to_list() == margins(chain)
    assert ROWS.lazy().select(chain.expr()).collect(engine="streaming").to_series().to_list() == margins(chain)


@pytest.mark.slow
def test_a_chain_explains_itself(chain):
    total = margins(chain)
    for approx in (True, False):
        np.testing.assert_allclose(chain.explain(ROWS, approx=approx).sum_horizontal().to_numpy(), total, rtol=1e-9)
    con = duckdb.connect()
    con.register("t", ROWS)
    found = con.sql(chain.database().explain_query("t", keep=[], approx=True)).pl()
    assert found.equals(chain.explain(ROWS, approx=True))
    reasons = con.execute(chain.database().explain_query("t", keep=["id"], top=1, approx=True)).fetchall()
    assert reasons == [(i, "x", value) for i, value in enumerate(found["x"])]


def test_a_chain_has_partial_dependence_and_is_exported(chain, tmp_path):
    dependence = chain.partial_dependence(ROWS, "x", grid=[0.0, 1_000.5])
    assert dependence["prediction"].to_list() == margins(chain, [0.0, 1_000.5])
    xgboost = pytest.importorskip("xgboost")
    chain.to_xgboost(tmp_path / "chain.json")
    booster = xgboost.Booster(model_file=tmp_path / "chain.json")
    xs = [x for x in X if x is not None]
    found = booster.predict(xgboost.DMatrix(np.array(xs).reshape(-1, 1), feature_names=["x"]))
    np.testing.assert_allclose(found, margins(chain, xs), rtol=1e-6)


def test_the_command_line_draws_a_chain(tmp_path, capsys):
    chain_model(SPLITS, "right").save(tmp_path / "chain.json")
    assert main(["show", str(tmp_path / "chain.json"), "--trees", "1"]) == 0
    drawn = capsys.readouterr().out.splitlines()
    at = drawn.index("tree 0")
    assert drawn[at + 1 : at + 5] == ['  "x" < 0.0?', "    yes: 0", '    no or missing: "x" < 1.0?', "      yes: 1"]
    assert drawn[-1] == "  " * (SPLITS + 1) + "no or missing: -5"


@pytest.mark.slow
@cases("side", ["left", "right"])
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_a_chain_runs_in_every_database(name, side):
    warehouse = open_warehouse(name)
    model = chain_model(200 if name == "clickhouse" else SPLITS, side)  # ClickHouse takes a second for each thousand
    xs = warehouse.fill_held("t", {"x": (FeatureType("float64"), X)})["x"]
    for form in ("auto", "staged", *(["sorted"] if name == "duckdb" else [])):
        found = sorted(warehouse.rows(model.query("t", name, keep=["id"], form=form)))
        assert [margin for _, margin in found] == margins(model, xs)


# --- deep trees of all questions --------------------------------------------------------------------------------------


def of_all_types(warehouse, rng: random.Random, n_trees: int, n_splits: int) -> tuple[fb.Model, dict[str, list]]:
    """Return a model that asks about columns of all types that the database has, and rows."""
    kinds = [k for k in map(FeatureType, TYPES) if warehouse.column_type(k) and not k.precision_and_scale]
    found = [Feature(f"x{i}", kind, random_categories(kind, rng)) for i, kind in enumerate(kinds)]
    found.append(Feature("zero", FeatureType("float64"), (), zero_is_missing=True))
    values = {feature.name: random_values(feature.type, 60, rng) for feature in found}
    values["zero"] = [0.0 if i % 3 == 0 else value for i, value in enumerate(values["zero"])]
    return lopsided_model(found, rng, n_trees, n_splits), values


@pytest.mark.slow
@cases("form", ["auto", "staged"])
@pytest.mark.parametrize("name", ALL)
def test_deep_trees_of_all_types_score_alike_in_every_database(name, form):
    warehouse = open_warehouse(name)
    rng = random.Random(f"{name} {form}")
    n_trees, n_splits = (1, 30) if name == "spark" else (3, 90)  # Spark plans long ones slowly
    model, drawn = of_all_types(warehouse, rng, n_trees, n_splits)
    assert model.trees["depth"].max() > n_splits / 4
    values = warehouse.fill_features("t", model, drawn)
    found = sorted(warehouse.rows(model.query("t", name, keep=["id"], form=form)))
    assert [margin for _, margin in found] == naive_margins(model, values).tolist()


def test_deep_trees_of_all_types_are_polars_expressions():
    warehouse = open_warehouse("duckdb")
    model, values = of_all_types(warehouse, random.Random(7), n_trees=3, n_splits=90)
    frame = frame_of(model, values)
    assert frame.select(model.expr()).to_series().to_list() == naive_margins(model, values).tolist()


# --- how deep CASEs nest ----------------------------------------------------------------------------------------------


def perfect(depth: int, threshold: float) -> Tree:
    """Return a tree of 2^depth leaves."""
    inner, size = 2**depth - 1, 2 ** (depth + 1) - 1
    return Tree(
        feature=tuple(i % 3 if i < inner else -1 for i in range(size)),
        threshold=tuple(threshold + i if i < inner else None for i in range(size)), categories=(None,) * size,
        missing_left=tuple(i < inner and i % 2 == 0 for i in range(size)),
        left=tuple(2 * i + 1 if i < inner else -1 for i in range(size)),
        right=tuple(2 * i + 2 if i < inner else -1 for i in range(size)), gain=(0.0,) * size, cover=(1.0,) * size,
        value=tuple(i / 8 for i in range(size)),
    )  # fmt: skip


def test_case_nesting_depth_is_the_strahler_number():
    assert perfect(4, 0.0).nestings()[0] == 4
    for side in ("left", "right"):
        assert set(chain_model(100, side).ensemble.trees[0].nestings()) == {0, 1}
    assert perfect(4, 0.0).nestings(ends={1, 2})[0] == 1


@pytest.mark.slow
@cases("n_trees, zero_is_missing", [(1, True), (40, False), (200, True)])
def test_sqlite_runs_every_query_within_its_limits(n_trees, zero_is_missing):
    # A threshold of 1e300 is a product of six numbers, of which the parser keeps some in mind.
    for depth in (7, 8, 9, 11):
        base, trees = on_leaf_grid([0.5], [perfect(depth, 1e300), *[perfect(1, 0.5)] * (n_trees - 1)])
        features = [Feature(f"x{i}", FeatureType("float64"), (), zero_is_missing=zero_is_missing) for i in range(3)]
        model = model_of_parts(get_loss("binary:logistic", {"scale_pos_weight": 1.0}), {}, features, base, trees)
        con = sqlite3.connect(":memory:")
        con.execute("CREATE TABLE t (id INTEGER, x0 REAL, x1 REAL, x2 REAL)")
        con.execute("INSERT INTO t VALUES (1, 0.5, -0.5, NULL)")
        [prediction] = model.predict(pl.DataFrame({"x0": [0.5], "x1": [-0.5], "x2": [None]}, schema_overrides={
            "x2": pl.Float64}))  # fmt: skip
        taken = 0
        for form in ("auto", "case", "staged"):
            try:
                query = model.query("t", "sqlite", keep=["id"], form=form)
            except ParameterError as error:
                assert form == "case" and ("nest" in str(error) or "parser's stack" in str(error))
            else:
                taken += 1
                assert con.execute(query).fetchall() == [(1, pytest.approx(prediction, rel=1e-14))]
        assert taken >= 2
        assert taken == 3 or depth > 7


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("sqlite", "clickhouse", "mariadb"))
def test_a_tree_table_is_walked_to_the_limit_of_stages(name, tmp_path):
    warehouse = open_warehouse(name)
    most = warehouse.dialect.limits.stages - 2
    warehouse.fill("t", {"x": (FeatureType("float64"), [None, 1.5, 1e9])})
    model = chain_model(most, "right")
    warehouse.load_trees("trees", model, tmp_path)
    found = sorted(warehouse.rows(model.query("t", name, keep=["id"], form="table", trees="trees")))
    assert [margin for _, margin in found] == margins(model, [None, 1.5, 1e9])
    with pytest.raises(ParameterError, match=rf"would have {most + 3} stages, and {name} takes {most + 2} at most"):
        chain_model(most + 1, "right").query("t", name, keep=["id"], form="table", trees="trees")


@pytest.mark.slow
@cases("side", ["left", "right"])
@cases("name", ["tsql", "oracle", "snowflake", "bigquery", "redshift", "trino", "databricks", "mysql"])
def test_a_chain_is_one_case_everywhere(name, side):
    text = chain_model(900, side).query("t", name, keep=["id"])
    assert text.count("CASE") == 1
    assert text.count("WHEN") == 900
    assert not text.startswith("WITH")


def test_every_tree_of_duckdb_is_a_chain_of_whens():
    # Both children of the root nest one deep; the right one has more leaves, so ELSE continues there.
    right = (1, 7.0, "left", 3.0, (1, 9.0, "right", 4.0, 5.0))
    model = made([Feature(name, FeatureType("float64")) for name in ("x", "y")],
                 [grown((0, 3.0, "left", (1, 5.0, "right", 1.0, 2.0), right))], (0.0,))  # fmt: skip
    assert model.sql().endswith(
        'CASE\n    WHEN NOT ("x" >= 3.0e0 AND (isfinite("x") OR isinf("x"))) OR "x" IS NULL'
        " THEN CASE WHEN nullif(\"y\", 'NaN'::FLOAT) < 5.0e0 THEN 1.0e0 ELSE 2.0e0 END"
        '\n    WHEN NOT ("y" >= 7.0e0 AND (isfinite("y") OR isinf("y"))) OR "y" IS NULL THEN 3.0e0'
        "\n    WHEN nullif(\"y\", 'NaN'::FLOAT) < 9.0e0 THEN 4.0e0\n    ELSE 5.0e0 END\n)"
    )
    rows = pl.DataFrame({
        "x": [1.0, 3.0, 3.0, 3.0, None, math.nan, 4.0, 4.0], "y": [5.0, 6.0, 8.0, 9.0, 4.0, None, None, math.nan],
    })  # fmt: skip
    found = duckdb.sql(model.query("rows", keep=[])).fetchall()
    assert found == [(value,) for value in (2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 3.0)]
    assert len(rows) == len(found)
