"""Reason codes of models of realistic size, and other queries that use a named value many times."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.warehouses import ALL, ALL_BUT_SPARK, databases, open_warehouse

N_FEATURES = 14
N_ROWS = 30


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, N_FEATURES))
    x[rng.random(x.shape) < 0.05] = np.nan
    y = np.nansum(x * np.linspace(-1, 1, N_FEATURES), axis=1) + np.nan_to_num(x[:, 0] * x[:, 1])
    frame = pl.DataFrame(x, schema=[f"x{i}" for i in range(N_FEATURES)]).fill_nan(None)
    place = pl.Series("place", rng.choice(["A", "a", "it's", None], size=800).tolist(), dtype=pl.String)
    y += 3 * (place == "A").fill_null(value=False).to_numpy()
    return frame.with_columns(place, pl.lit(1.0).alias("never"), pl.Series("y", y))


@pytest.fixture(scope="module")
def model(data) -> fb.Model:
    model = fb.fit(data, "y", n_estimators=12, max_depth=6, learning_rate=0.1)
    assert model.n_trees == 12
    assert model.trees["depth"].max() == 6
    return model


def fill(warehouse, data: pl.DataFrame, model: fb.Model) -> None:
    warehouse.fill_features("t", model, data.to_dict(as_series=False))


def expected_reasons(model: fb.Model, data: pl.DataFrame, top: int) -> list[tuple]:
    contributions = model.explain(data, approx=True).drop("bias")
    rows = []
    for i, values in enumerate(contributions.rows()):
        by_size = sorted(zip(contributions.columns, values, strict=True), key=lambda pair: -abs(pair[1]))
        rows.append((i, *(part for pair in by_size[:top] for part in pair)))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_contributions_and_reasons_of_many_features(name, model, data):
    warehouse = open_warehouse(name)
    # ClickHouse and Spark take their time.
    some, data = model[: {"clickhouse": 3, "spark": 1}.get(name, 8)], data[:N_ROWS]
    fill(warehouse, data, some)
    found = sorted(warehouse.rows(some.database(name).explain_query("t", keep=["id"], top=3, approx=True)))
    assert [tuple(row) for row in found] == expected_reasons(some, data, 3)
    found = sorted(warehouse.rows(some.database(name).explain_query("t", keep=["id"], approx=True)))
    assert [tuple(row[1:]) for row in found] == some.explain(data, approx=True).rows()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_contributions_and_reasons_over_a_table_of_trees(name, model, data, tmp_path):
    warehouse, data = open_warehouse(name), data[:N_ROWS]
    some = model[:3]
    fill(warehouse, data, some)
    warehouse.load_trees("trees", some, tmp_path, reasons=True)
    database = some.database(name)
    found = sorted(warehouse.rows(database.explain_query("t", keep=["id"], top=3, trees="trees")))
    assert [tuple(row) for row in found] == expected_reasons(some, data, 3)
    found = sorted(warehouse.rows(database.explain_query("t", keep=["id"], trees="trees")))
    assert [tuple(row[1:]) for row in found] == some.explain(data, approx=True).rows()
    # Scores are those of the table without reasons.
    scored = sorted(warehouse.rows(database.query("t", keep=["id"], form="table", trees="trees")))
    assert [score for _, score in scored] == some.predict(data).to_list()


@pytest.mark.parametrize("name", databases("duckdb", "postgres"))
def test_a_table_of_trees_explains_one_of_several_margins(name, tmp_path):
    warehouse = open_warehouse(name)
    data = pl.DataFrame({"x": [i % 7 for i in range(90)], "kind": ["abc"[i % 3] for i in range(90)]})
    data = data.with_columns(y=pl.col("x") % 3, start=pl.col("x") * 0.5)
    model = fb.fit(data, "y", features=["x", "kind"], objective="multi:softprob", n_estimators=3, max_depth=3)
    warehouse.fill_features("t", model, data.to_dict(as_series=False))
    warehouse.load_trees("trees", model, tmp_path, reasons=True)
    for output in range(3):
        query = model.database(name).explain_query("t", keep=["id"], output=output, trees="trees", where="x > 1")
        expected = model.explain(data, output=output, approx=True).rows()
        expected = [(i, *row) for i, row in enumerate(expected) if data["x"][i] > 1]
        assert sorted(map(tuple, warehouse.rows(query))) == expected


def test_offsets_constant_trees_and_linear_leaves_over_a_table_of_trees():
    data = pl.DataFrame({"id": range(60), "x": [float(i % 7) for i in range(60)], "start": [0.5, None, 2.0] * 20})
    data = data.with_columns(y=pl.col("x") * 2)
    con = duckdb.connect()
    con.register("t", data)
    known = data.drop_nulls()
    model = fb.fit(known, "y", features=["x"], base_margin="start", n_estimators=3)
    none = fb.fit(data, "y", features=["x"], gamma=1e9, n_estimators=2)
    for each in (model, none):
        con.register("trees", each.database().table_frame(reasons=True))
        found = con.sql(each.database().explain_query("t", keep=["id"], trees="trees")).pl().sort("id").drop("id")
        assert found.equals(each.explain(data, approx=True).fill_nan(None))
    with pytest.raises(fb.ParameterError, match="approx must be True or 'auto' with trees"):
        model.database().explain_query("t", trees="trees", approx=False)
    noise = pl.Series("x", np.random.default_rng(0).normal(size=600))
    linear = fb.fit(pl.DataFrame({"x": noise, "y": noise * 2}), "y", linear_tree=True, n_estimators=2)
    with pytest.raises(fb.ParameterError, match="linear"):
        linear.database().explain_query("t", trees="trees")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_predictions_may_be_called_like_a_feature(name, of_classes, data):
    warehouse = open_warehouse(name)
    some = of_classes[:1]
    columns = {"x0": "p_0", "x1": "p_1"}
    values = {columns.get(f.name, f.name): (f.type, data[:10][f.name].to_list()) for f in some.ensemble.features}
    warehouse.fill("t", values)
    query = some.query("t", name, keep=["id"], output="margin", name="p", columns=columns)
    expected = some.predict(data[:10], "margin")
    assert [list(row[1:]) for row in sorted(warehouse.rows(query))] == expected.to_list()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_all_features_are_reasons_of_a_single_row(name, model, data):
    warehouse = open_warehouse(name)
    some, data, top = model[:3], data[:1], N_FEATURES + 2
    fill(warehouse, data, some)
    [found] = warehouse.rows(some.database(name).explain_query("t", keep=["id"], top=top, approx=True))
    assert tuple(found) == expected_reasons(some, data, top)[0]
    assert ("never", 0.0) in zip(found[1::2], found[2::2], strict=True)


@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_a_model_without_splits_has_reasons_of_zero(name, data):
    warehouse = open_warehouse(name)
    nothing = fb.fit(data, "y", n_estimators=2, gamma=1e12)
    fill(warehouse, data[:2], nothing)
    found = sorted(warehouse.rows(nothing.database(name).explain_query("t", keep=["id"], top=2, approx=True)))
    assert [tuple(row) for row in found] == [(i, "x0", 0.0, "x1", 0.0) for i in range(2)]


@pytest.mark.parametrize("name", databases("duckdb", "postgres", "sqlite"))
def test_reasons_come_in_the_order_of_the_rows(name, model, data):
    expected = [row[1:] for row in expected_reasons(model[:5], data, 2)]
    warehouse = open_warehouse(name)
    fill(warehouse, data, model)
    found = warehouse.rows(model[:5].database(name).explain_query("t", keep=[], top=2, approx=True))
    assert [tuple(row) for row in found] == expected


@pytest.mark.parametrize("name", databases("postgres"))
def test_columns_that_cannot_be_grouped_by_are_kept(name, model, data):
    warehouse, some = open_warehouse(name), model[:2]
    fill(warehouse, data[:3], some)
    warehouse.run("ALTER TABLE t ADD doc json; UPDATE t SET doc = json_build_object('id', id)")
    database = some.database(name)
    found = sorted(warehouse.rows(database.explain_query("t", keep=["id", "doc"], top=1, approx=True)))
    assert [(i, doc, *reason) for i, doc, *reason in found] == [
        (i, {"id": i}, *reason) for i, *reason in expected_reasons(some, data[:3], 1)
    ]
    warehouse.load_trees("trees", some, None, reasons=True)
    over_trees = database.explain_query("t", keep=["id", "doc"], top=1, trees="trees")
    assert sorted(warehouse.rows(over_trees), key=lambda row: row[0]) == found
    found = sorted(warehouse.rows(database.query("t", keep=["id", "doc"], form="table", trees="trees")))
    assert found == [(i, {"id": i}, value) for i, value in enumerate(some.predict(data[:3]))]


@pytest.fixture(scope="module")
def of_classes(data) -> fb.Model:
    ranks = np.argsort(np.argsort(data["y"].to_numpy()))
    frame = data.with_columns(pl.Series("y", ranks * 25 // len(data)))
    return fb.fit(frame, "y", objective="multi:softprob", n_estimators=2, max_depth=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_probabilities_of_many_classes(name, of_classes, data):
    warehouse = open_warehouse(name)
    some, data = of_classes[: 1 if name == "clickhouse" else 2], data[:30]
    fill(warehouse, data, some)
    found = sorted(warehouse.rows(some.query("t", name, keep=["id"])))
    np.testing.assert_allclose([row[1:] for row in found], some.predict(data).to_numpy(), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("postgres"))
def test_plans_are_not_much_longer_than_queries(name, model, of_classes, data):
    warehouse = open_warehouse(name)
    fill(warehouse, data[:5], model)
    reasons = model.database("postgres").explain_query("t", keep=["id"], top=3, approx=True)
    for query in (reasons, of_classes.query("t", "postgres", keep=["id"])):
        plan = warehouse.rows(f"EXPLAIN (VERBOSE) {query}")
        assert len(query) > 30_000
        # Each step is shown with the whole of the expressions below it: here a dozen times.
        assert sum(len(line) for (line,) in plan) < 20 * len(query)


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("sqlite", "postgres", "duckdb"))
def test_columns_of_a_query_of_reasons_are_limited(name, data):
    wide = pl.DataFrame({f"f{i}": [0.0, 1.0, i % 2] for i in range(500)}).with_columns(y=pl.Series([0.0, 1.0, 3.0]))
    model = fb.fit(wide, "y", n_estimators=1, min_child_weight=0)
    warehouse = open_warehouse(name)
    warehouse.fill_features("wide", model, wide.to_dict(as_series=False))
    found = sorted(warehouse.rows(model.database(name).explain_query("wide", keep=["id"], top=200, approx=True)))
    assert [tuple(row) for row in found] == expected_reasons(model, wide, 200)
    with pytest.raises(fb.ParameterError, match=r"would have 1,001 columns, and a SELECT in oracle has at most 1,000"):
        model.database("oracle").explain_query("wide", keep=["id"], top=500, approx=True)
