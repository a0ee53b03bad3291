"""``form="sorted"``: rows sorted by steps of features get the same scores, bit for bit, in their order."""

import math
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.random_models import to_duckdb


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def by_id(con, query) -> dict[str, list]:
    return con.sql(query).pl().to_dict(as_series=False)  # in the order of the rows


def test_rows_are_sorted_by_the_features_that_most_rows_are_asked_about():
    # Leaves have cover 1, so y < 5 and y < 7 are asked of 2/3 and 1 of the rows, x < 3 of all in two trees.
    trees = [grown(0.5), grown((0, 3.0, "right", (1, 5.0, "right", 1.0, 2.0), 4.0)), grown((1, 7.0, "right", 1.0, 2.0)),
             grown((0, 3.0, "right", 1.0, 2.0)), grown((2, {0, 2}, "right", 1.0, 2.0))]  # fmt: skip
    kind = Feature("c", FeatureType("string"), ("a", "b", "d"))
    model = made([*(Feature(name, FeatureType("float64")) for name in ("x", "y")), kind], trees)
    query = model.query("t", keep=["id"], where="id > 7", form="sorted")
    steps = [
        'CASE WHEN "x" < 3.0e0 THEN 0 ELSE 1 END', 'CASE WHEN "y" < 5.0e0 THEN 0 WHEN "y" < 7.0e0 THEN 1 ELSE 2 END',
        "CASE WHEN \"c\"::VARCHAR COLLATE C = 'a' OR \"c\"::VARCHAR COLLATE C = 'd' THEN 0 ELSE 1 END",
    ]  # fmt: skip
    columns = '"id", "x", "y", "c", ROW_NUMBER() OVER () AS "v_1"'
    stage = f'WITH stage_1 AS (\nSELECT {columns}\nFROM "t"\nWHERE id > 7\nORDER BY {", ".join(steps)}\n)\n'
    assert query.startswith(stage.removesuffix("\n") + ",\nstage_2 AS (")
    assert query.endswith('AS "prediction"\nFROM stage_2\nORDER BY "v_1"')


@cases("form", ["sorted", "staged"])
def test_comparisons_need_no_test_for_missing_values(con, form):
    # Chains end in the heavier child, so each of these trees negates its first condition, x < 2 or x >= 2.
    last = (0, 3.0, "right", 4.0, 8.0)
    trees = [grown((0, 2.0, missing, (0, 1.0, missing, 1.0, 2.0), last)) for missing in ("right", "left")]
    # Only what is missing goes left of -infinity. Numbers from 2^53 on are not compared as doubles.
    trees.append(grown((0, -math.inf, "left", 16.0, (1, 2**53, "right", 32.0, (1, 5, "left", 64.0, 128.0)))))
    features = [Feature("x", FeatureType("float64")), Feature("n", FeatureType("int64"))]
    x = [None, math.nan, -math.inf, 1.0, 2.5, math.inf]
    frame = pl.DataFrame({"id": range(6), "x": x, "n": [None, 4, None, 2**53 - 1, 2**53, 5]})
    to_duckdb(con, frame, "t")
    query = made(features, trees, base=(0.0,)).query("t", keep=["id"], form=form)
    # right, left, third: missing 8 + 1 + 16; -inf 1 + 1 + 64; 1 is 2 + 2 + 32; 2.5 is 4 + 4 + 128; inf 8 + 8 + 32.
    assert by_id(con, query)["prediction"] == [25.0, 25.0, 66.0, 36.0, 136.0, 48.0]
    scored = query.partition('"id", (')[2] if form == "sorted" else query.partition("stage_2 AS")[2]
    assert scored.count("IS NULL") + scored.count("isfinite") == 2  # both of -infinity


def test_steps_have_equal_weights_and_halves_of_what_has_no_cover():
    def without_cover(tree):
        return replace(tree, cover=(0.0,) * len(tree))

    chain = (0, 4.0, "right", 1.0, (0, 5.0, "right", 1.0, (0, 6.0, "right", 1.0, 2.0)))
    thresholds = [grown((0, float(i), "right", 1.0, 2.0)) for i in range(10)]  # each of all rows
    features = [Feature(name, FeatureType("float64")) for name in ("x", "y")]
    key = made(features, thresholds).query("t", keep=[], form="sorted")
    assert [f'"x" < {i}.0e0 THEN' in key.partition("ROW_NUMBER")[2].partition(")\nSELECT")[0] for i in range(10)] == [
        i in (1, 3, 5, 7) for i in range(10)
    ]
    # y is asked of all rows, x of 1 + 1/2 + 1/4.
    key = made(features, [without_cover(grown(chain)), *[grown((1, 0.0, "right", 1.0, 2.0))] * 2])
    assert 'ORDER BY CASE WHEN "y" < 0.0e0 THEN' in key.query("t", keep=[], form="sorted")


def test_steps_of_categories_are_the_heaviest_conditions_the_shortest_first():
    # {a, d} is asked of all rows three times, {a} twice, {b} of half the rows; there are four steps before ELSE.
    def stump(codes):
        return grown((0, codes, "right", 1.0, 2.0))

    kind = Feature("c", FeatureType("string"), ("a", "b", "d"))
    trees = [*[stump({0, 2})] * 3, *[stump({0})] * 2, grown((0, {0, 1}, "right", (0, {1}, "right", 1.0, 2.0), 3.0))]
    a, b, d = (f"\"c\"::VARCHAR COLLATE C = '{name}'" for name in "abd")
    whens = f"WHEN {a} THEN 0 WHEN {b} THEN 1 WHEN {a} OR {d} THEN 2 WHEN {a} OR {b} THEN 3 ELSE 4 END\n)"
    assert f"ORDER BY CASE {whens}" in made([kind], trees).query("t", keep=[], form="sorted")


def test_duckdb_sorts_before_it_scores(con):
    # An optimizer may drop the order of a subquery; then the form would be no faster than CASE.
    model = made([Feature("x", FeatureType("float64"))], [grown((0, 3.0, "right", 1.0, 2.0))])
    con.execute("CREATE OR REPLACE TABLE few AS SELECT i AS id, i::DOUBLE AS x FROM range(10) r(i)")
    [(_, plan)] = con.execute("EXPLAIN " + model.query("few", keep=["id"], form="sorted")).fetchall()
    assert "Order By" in plan
    assert "CTE" not in plan  # a materialized one is read by a single thread


# --- sources, conditions, outputs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> tuple[fb.Model, pl.DataFrame]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(130_000, 5)).astype(np.float32)
    frame = pl.DataFrame(x, schema=[f"x{i}" for i in range(5)])
    frame = frame.with_columns(pl.Series("id", range(len(frame))), y=pl.Series(np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]))
    features = [f"x{i}" for i in range(5)]
    return fb.fit(frame[:5_000], "y", features=features, n_estimators=15, max_depth=5, verbose=False), frame


@pytest.mark.parametrize("size", [0, 1, pytest.param(130_000, marks=pytest.mark.slow)])
@cases("source", ["table", "frame", "view", "parquet"])
def test_every_row_comes_once(con, fitted, tmp_path, size, source):
    model, frame = fitted
    some = frame[:size]
    con.register("arrived", some)
    if source == "table":
        con.execute("CREATE OR REPLACE TABLE rows AS FROM arrived")
    elif source == "view":
        con.execute("CREATE OR REPLACE TABLE stored AS FROM arrived")
        con.execute("CREATE OR REPLACE TEMP VIEW seen AS SELECT * FROM stored WHERE id >= 0 AND x0 = x0")
    elif source == "parquet":
        some.write_parquet(tmp_path / "rows.parquet")
        con.execute(f"CREATE OR REPLACE TEMP VIEW filed AS FROM '{tmp_path}/rows.parquet'")
    table = {"table": "rows", "frame": "arrived", "view": "seen", "parquet": "filed"}[source]
    found = by_id(con, model.query(table, keep=["id"], form="sorted"))
    assert found == {"id": some["id"].to_list(), "prediction": model.predict(some).to_list()}


@pytest.fixture(scope="module")
def classes(con) -> fb.Model:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    frame = pl.DataFrame(
        {"id": range(300), "node": x[:, 0], "lists": x[:, 1], "kind": rng.choice(["a", "b", None], 300)}
    )
    frame = frame.with_columns(y=pl.Series((x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)))
    con.register("classes", frame)
    features = ["node", "lists", "kind"]
    return fb.fit(frame, "y", features=features, objective="multi:softprob", num_class=3, n_estimators=2)


@pytest.mark.slow
@cases("form", ["lists", "sorted"])
def test_outputs_columns_conditions_and_margins_are_those_of_other_forms(con, classes, form):
    for how in (
        {}, {"output": "margin"}, {"output": "class"}, {"output": "leaf"}, {"keep": ["id"]}, {"where": "id % 7 = 3"},
        {"base_margin": ["node", "lists", "node"]},
    ):  # fmt: skip
        found, expected = (con.sql(classes.query("classes", form=each, **how)).pl() for each in (form, "staged"))
        assert found.columns == expected.columns
        assert found.equals(expected)
    if form == "lists":
        for output in ("mean", "margin", "class"):
            found, expected = (con.sql(f"SELECT {classes.database().sql(output, form=each)} AS v FROM classes").pl()
                               for each in (form, "auto"))  # fmt: skip
            assert found.equals(expected)
    with pytest.raises(fb.ParameterError, match=rf"^form='{form}' is .* DuckDB only, so postgres has no such form$"):
        classes.query("t", "postgres", form=form)


def test_a_model_without_splits_sorts_nothing(con):
    model = made([Feature("x", FeatureType("float64"))], [grown(0.5), grown(0.25)])
    assert model.query("t", keep=["id"], form="sorted") == model.query("t", keep=["id"], form="case")


# --- which form -------------------------------------------------------------------------------------------------------


def test_rows_are_sorted_where_there_are_many(fitted):
    model, _ = fitted
    in_order = model.query("t", form="sorted")
    assert model.query("t", rows=10_000_000) == in_order
    assert in_order not in (model.query("t"), model.query("t", rows=1_000))


def test_a_connection_knows_how_many_rows_its_table_has(con, fitted):
    model, _ = fitted
    columns = ", ".join(f"i::FLOAT AS x{k}" for k in range(5))
    con.execute(f"CREATE OR REPLACE TABLE many AS SELECT {columns} FROM range(1_000_000) r(i)")
    con.execute("CREATE OR REPLACE VIEW turned AS SELECT * EXCLUDE (x0), x0 FROM many")
    con.execute("CREATE OR REPLACE TABLE few AS FROM many LIMIT 30")
    for table, rows in {"many": 1_000_000, "turned": 1_000_000, "few": 30, "none_yet": None}.items():
        assert model.query(table, rows=con) == model.query(table, rows=rows)
    # What a condition leaves is a guess of the planner's, which is not used.
    con.execute("CREATE OR REPLACE VIEW turned AS FROM many WHERE x0 % 2 = 0")
    assert model.query("turned", rows=con) == model.query("turned")
    assert model.query("many", rows=con, where="x0 % 2 = 0") == model.query("many", where="x0 % 2 = 0")
    with pytest.raises(
        fb.ParameterError, match=r"^rows must be an integer from 0 to 9223372036854775807 or a DuckDB connection that "
    ):
        model.query("many", rows="many")
