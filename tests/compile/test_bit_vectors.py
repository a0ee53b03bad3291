"""Lookups in place of CASEs say the same of each row, bit for bit, whatever is asked; rows come in any order."""

import random

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.sql import bit_vectors
from frameboost.compile.sql.columns import find_columns
from frameboost.compile.sql.feature_codes import feature_codes
from frameboost.compile.sql.feature_groups import feature_groups
from frameboost.compile.sql.leaf_words import words_of
from frameboost.dialects.known import get_dialect
from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType
from frameboost.trees.leaf_grid import on_leaf_grid
from tests.compile.test_dialects import grown, made
from tests.support.random_models import TYPES, naive_margins, random_model, random_values, to_duckdb, to_polars


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def bits(values) -> list[int]:
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()


def by_id(con, query) -> dict[str, list]:
    return con.sql(query).pl().sort("id").to_dict(as_series=False)


def scores(con, model, table="t", form="bitvector") -> list[float]:
    return by_id(con, model.query(table, keep=["id"], output="margin", form=form))["prediction"]


def assert_agreement(con, model, kinds, columns) -> None:
    frame = pl.DataFrame(
        [to_polars(kind, values, name) for kind, (name, values) in zip(kinds, columns.items(), strict=True)]
    )
    to_duckdb(con, frame.with_row_index("id"), "t")
    assert bits(scores(con, model)) == bits(naive_margins(model, columns))


@pytest.mark.parametrize("n_trees", [1, 12, 60])
@pytest.mark.parametrize("type_name", [*TYPES, "decimal(15,3)"])
def test_every_type_on_all_its_odd_values(con, type_name, n_trees):
    rng = random.Random(f"{type_name} {n_trees}")
    kind = FeatureType(type_name)
    model = random_model([kind], ["x"], rng, n_trees=n_trees, depth=4)
    assert_agreement(con, model, [kind], {"x": random_values(kind, 200, rng)})


@pytest.mark.parametrize("depth", [1, 3, 5, 7, 9])
def test_trees_of_any_depth(con, depth):
    rng = random.Random(depth)
    kinds = [FeatureType(name) for name in ("float32", "float64", "int32", "string", "boolean", "date")]
    names = [f"column {i}" for i in range(len(kinds))]
    model = random_model(kinds, names, rng, n_trees=40, depth=depth)
    columns = {name: random_values(kind, 200, rng) for name, kind in zip(names, kinds, strict=True)}
    assert_agreement(con, model, kinds, columns)


def complete(depth: int, rng, n_features: int = 3):
    if depth == 0:
        return rng.uniform(-1, 1)
    sides = (complete(depth - 1, rng, n_features) for _ in range(2))
    return (rng.randrange(n_features), rng.gauss(0, 1), rng.choice(["left", "right"]), *sides)


@pytest.mark.parametrize("depths", [(6,), (4, 4, 4, 4, 4), (5, 6, 5, 1, 2, 2, 6), (7,), (8, 3, 3), (3, 6, 3)])
def test_words_of_every_size(con, depths):
    rng = random.Random(str(depths))
    features = [Feature(f"x{i}", FeatureType(name)) for i, name in enumerate(("float32", "float64", "float64"))]
    model = made(features, [grown(complete(depth, rng)) for depth in depths])
    columns = {feature.name: random_values(feature.type, 500, rng) for feature in features}
    columns["x1"] = [rng.gauss(0, 1) for _ in range(500)]
    assert_agreement(con, model, [feature.type for feature in features], columns)


@pytest.mark.parametrize("depth", [1, 4, 6, 13])
def test_symmetric_trees(con, depth):
    rng = random.Random(depth)
    features = [Feature(f"x{i}", FeatureType("float64")) for i in range(3)]

    def grow(levels):
        return (*levels[0], grow(levels[1:]), grow(levels[1:])) if levels else rng.uniform(-1, 1)

    asked = [
        [(rng.randrange(3), rng.gauss(0, 1), rng.choice(["left", "right"])) for _ in range(depth)] for _ in range(9)
    ]
    model = made(features, [grown(grow(levels)) for levels in asked])
    columns = {feature.name: random_values(feature.type, 300, rng) for feature in features}
    assert_agreement(con, model, [feature.type for feature in features], columns)


def on_thresholds(thresholds, kind) -> list:
    number = np.float32 if kind == "float32" else np.float64
    exact = np.array(thresholds, dtype=number)
    near = [np.nextafter(exact, number(side * np.inf)) for side in (-1, 1)]
    odd = [-np.inf, np.inf, np.nan, 0.0, -0.0, np.finfo(number).max, np.finfo(number).min]
    return [None, *map(float, np.concatenate([exact, *near, np.array(odd, dtype=number)]))]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", ["even", "normal", "close", "skewed", "huge", "tiny"])
def test_values_on_thresholds_and_beside_them(con, kind, shape):
    rng = np.random.default_rng(7)
    drawn = rng.normal(size=120)
    thresholds = {
        "even": np.linspace(-3, 3, 120), "normal": drawn, "close": 1 + drawn * 1e-6, "skewed": np.exp(6 * drawn),
        "huge": drawn * 1e38, "tiny": drawn * 1e-39,
    }[shape]  # fmt: skip
    number = np.float32 if kind == "float32" else np.float64
    thresholds = [float(number(threshold)) for threshold in thresholds]
    trees = [grown((0, t, ("left", "right")[i % 2], float(i), -float(2**i % 97))) for i, t in enumerate(thresholds)]
    model = made([Feature("x", FeatureType(kind))], trees)
    assert_agreement(con, model, [FeatureType(kind)], {"x": on_thresholds(thresholds, kind)})


@pytest.mark.parametrize("kind", ["int8", "int64", "uint64", "int128"])
def test_integers_on_thresholds_and_beside_them(con, kind):
    rng = random.Random(kind)
    values = [value for value in random_values(FeatureType(kind), 400, rng) if value is not None]
    thresholds = sorted(set(values[:60]) | {rng.randrange(120) for _ in range(40)})
    trees = [grown((0, t, ("left", "right")[i % 2], float(i), -float(2**i % 97))) for i, t in enumerate(thresholds)]
    model = made([Feature("x", FeatureType(kind))], trees)
    assert_agreement(con, model, [FeatureType(kind)], {"x": [*values, None, *thresholds, *range(127)]})


def test_columns_of_wider_types_are_compared_as_they_are(con):
    rng = np.random.default_rng(3)
    thresholds = [float(np.float32(t)) for t in rng.normal(size=100)]
    trees = [grown((0, t, "left", float(i), -float(i))) for i, t in enumerate(thresholds)]
    model = made([Feature("x", FeatureType("float32"))], trees)
    near = np.concatenate([np.nextafter(thresholds, side * np.inf) for side in (-1, 1)] + [np.array(thresholds)])
    con.register("wide", pl.DataFrame({"x": [*near, 1e300, -1e300, np.inf, np.nan, None]}).with_row_index("id"))
    assert bits(scores(con, model, "wide")) == bits(scores(con, model, "wide", form="case"))


def test_missing_from_many_thresholds_to_none(con):
    features = [Feature("x", FeatureType("float64")), Feature("n", FeatureType("int32"))]
    trees = [grown((f, None, "right", 0.5, -0.25)) for f in (0, 1)] + [grown((0, float("inf"), "left", 1.0, 2.0))]
    assert_agreement(
        con,
        made(features, trees),
        [feature.type for feature in features],
        {"x": [1.0, None, float("nan"), float("inf"), -1.0], "n": [1, 2, None, None, 5]},
    )


# --- sources, and small tables ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> tuple[fb.Model, pl.DataFrame]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300_000, 5)).astype(np.float32)
    frame = pl.DataFrame(x, schema=[f"x{i}" for i in range(5)])
    frame = frame.with_columns(pl.Series("id", range(len(frame))), y=pl.Series(np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]))
    features = [f"x{i}" for i in range(5)]
    return fb.fit(frame[:5_000], "y", features=features, n_estimators=40, max_depth=5, verbose=False), frame


@pytest.mark.parametrize("size", [0, 1, 2, 7, 300, 5_000, 300_000])
@pytest.mark.parametrize("source", ["table", "frame", "view", "parquet"])
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
    found = by_id(con, model.query(table, keep=["id"], form="bitvector"))
    assert found == {"id": some["id"].to_list(), "prediction": model.predict(some).to_list()}


def test_a_condition_chooses_rows(con, fitted):
    model, frame = fitted
    con.register("arrived", frame)
    for where in ("id = 7", "id < 3", "id % 1000 = 5", "x0 > 1 AND arrived.x1 < 0", "FALSE"):
        query = model.query("arrived", keep=["id"], where=where, form="bitvector")
        some = frame.filter(pl.sql_expr(where.replace("arrived.", "")))
        assert by_id(con, query) == {"id": some["id"].to_list(), "prediction": model.predict(some).to_list()}


def test_all_columns_stay_where_none_is_named(con, fitted):
    model, frame = fitted
    con.register("arrived", frame[:100])
    found = con.sql(model.query("arrived", form="bitvector")).pl().sort("id")
    assert found.columns == [*frame.columns, "prediction"]
    assert found["prediction"].to_list() == model.predict(frame[:100]).to_list()


def test_many_words_are_worked_on_in_turn(con, fitted, monkeypatch):
    model, frame = fitted
    monkeypatch.setattr(bit_vectors, "_WORDS_AT_A_TIME", 7)
    con.register("arrived", frame[:100])
    assert scores(con, model, "arrived") == model.predict(frame[:100], output="margin").to_list()


# --- which form -------------------------------------------------------------------------------------------------------


def test_only_who_asks_for_it_has_rows_in_any_order(fitted):
    model, _ = fitted
    assert model.query("t") == model.query("t", form="case") != model.query("t", form="bitvector")


def test_other_databases_refuse_it(fitted):
    with pytest.raises(fb.ParameterError, match=r"^form='bitvector' is SQL of DuckDB's, not of postgres$"):
        fitted[0].query("t", "postgres", form="bitvector")


# --- its parts --------------------------------------------------------------------------------------------------------


def test_few_codes_make_one_number_together():
    # 3, 1 and 600 thresholds, and two codes more each: 3 * 5 = 15 numbers, and 15 * 602 would be more than 1,024.
    features = [Feature(name, FeatureType("float64")) for name in ("a", "b", "c")]
    edges = [(0, 1.0), (0, 2.0), (0, 3.0), (1, 5.0), *((2, float(i)) for i in range(600))]
    _, trees = on_leaf_grid((0.0,), [grown((f, at, "left", 1.0, 2.0)) for f, at in edges])
    groups = feature_groups(feature_codes(trees, find_columns(features, get_dialect("duckdb"))))
    assert [(list(group.codes), group.count) for group in groups] == [([1, 0], 15), ([2], 602)]
    assert [(feature, stride) for feature, _, stride in groups[0].strides()] == [(1, 1), (0, 3)]


def test_thresholds_that_lie_close_take_finer_cells_or_several_comparisons():
    features = [Feature(name, FeatureType("float64")) for name in ("even", "near", "nearer")]
    even = [i / 20 for i in range(21)]
    edges = {0: even, 1: [*even, 0.501], 2: [*even, 0.500001]}
    _, trees = on_leaf_grid((0.0,), [grown((f, at, "left", 1.0, 2.0)) for f, own in edges.items() for at in own])
    codes = feature_codes(trees, find_columns(features, get_dialect("duckdb")))
    grids = [codes[feature].grid for feature in range(3)]
    assert [grid.most_inside for grid in grids if grid is not None] == [1, 1, 2]
    cells = [len(grid.cells) for grid in grids if grid is not None]
    # As wide again as all thresholds, and the cells below, above and of missing values.
    assert cells[0] == cells[2] == 2 * 64 + 4
    assert 2 * 512 < cells[1] <= 2 * 4096 + 4


@pytest.mark.parametrize("most", [1, 4, 10])
def test_places_of_several_trees_make_one_number(con, monkeypatch, most):
    rng = random.Random(most)
    monkeypatch.setattr(bit_vectors, "_MOST_BITS", most)
    features = [Feature(f"x{i}", FeatureType("float64")) for i in range(3)]
    model = made(features, [grown(complete(depth, rng)) for depth in (4, 1, 2, 3, 4, 2, 5, 6, 1, 1)])
    columns = {feature.name: [rng.gauss(0, 1) for _ in range(500)] for feature in features}
    assert_agreement(con, model, [feature.type for feature in features], columns)


def test_words_say_which_leaf_a_row_comes_to():
    rng = random.Random(1)
    features = [Feature(f"x{i}", FeatureType("float64")) for i in range(3)]
    _, trees = on_leaf_grid((0.5,), [grown(complete(depth, rng)) for depth in (2, 3, 6)])
    codes = feature_codes(trees, find_columns(features, get_dialect("duckdb")))
    for word in words_of(trees):
        masks = word.masks(codes)
        for _ in range(200):
            code = {feature: rng.randrange(codes[feature].count) for feature in codes}
            left = -1
            for feature, mask in masks.items():
                left &= int(mask[code[feature]])
            for one, shift in zip(word.fields, word.shifts(), strict=True):
                node = 0
                while not one.tree.is_leaf(node):
                    goes_left = codes[one.tree.feature[node]].goes_left(one.tree, node)[code[one.tree.feature[node]]]
                    node = one.tree.left[node] if goes_left else one.tree.right[node]
                place = one.leaves.index(node)
                assert left >> shift & ((1 << one.bits) - 1) == (1 << place if place < one.bits else 0)
