"""Tables of databases as data: binned there, trained here, and the model is that of the same rows in memory."""

import contextlib
import hashlib
import json
import math
import random
import re
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.binning import bins as binning
from frameboost.dialects.sqlite import SQLITE
from frameboost.engines import external_memory
from frameboost.expressions.expression import Expression
from frameboost.runtime import storage
from frameboost.schema.types import FeatureType, physical_values
from tests.support.frames import FEATURES_BY_TYPE, every_type
from tests.support.warehouses import databases, open_warehouse

ROOT = Path(__file__).parents[3]
ALL = databases("postgres", "sqlite", "mariadb", "clickhouse", "datafusion", "duckdb", "spark")
SHAPE = {"n_estimators": 3, "max_depth": 5, "learning_rate": 0.5, "min_child_weight": 0, "verbose": False}


def connection_of(database):
    return {"clickhouse": lambda: database.session, "spark": lambda: database.spark}.get(
        database.name, lambda: database.con
    )()


def shape_by_queries(name):
    """Return the shape of trees that are grown by queries, a few a level: one takes a third of a second in Spark."""
    return {**SHAPE, "n_estimators": 1, "max_depth": 2} if name == "spark" else SHAPE


def stored(database, table, frame):
    """Store a frame as a table with a column id; return the frame without what the database can't hold."""
    frame = frame.select(
        name for name, dtype in frame.schema.items()
        if database.column_type(FeatureType.from_polars(dtype)) is not None
    )  # fmt: skip
    kinds = {name: FeatureType.from_polars(dtype) for name, dtype in frame.schema.items()}
    columns = {name: (kind, physical_values(frame[name], kind).to_list()) for name, kind in kinds.items()}
    database.fill(table, columns)
    return frame


def in_types_of(frame, table):
    """Return a frame in the types that a table's columns have."""
    types = {name: kind.to_polars() for name, kind in table.types().items() if name in frame.columns and kind}
    return frame.select(pl.col(name).cast(dtype) for name, dtype in types.items())


def model_in(model):
    """Return what a model's file holds besides when and of what it was trained."""
    return {key: value for key, value in json.loads(model.to_json()).items() if key != "metadata"}


def assert_same(of_table, frame, *args, **options):
    assert model_in(of_table) == model_in(fb.fit(frame, *args, **options))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_columns_of_all_types_give_the_model_of_the_rows_in_memory(name):
    database = open_warehouse(name)
    # Drivers read no durations, and SQLite's texts have no zone.
    others = ("duration", "datetime_tz") if name == "sqlite" else ("duration",)
    dropped = [name for name in FEATURES_BY_TYPE if name.startswith(others)]
    frame = stored(database, "every_type", every_type(500, seed=3).drop(dropped))
    # Spark has no temporary tables.
    table = fb.table(connection_of(database), "every_type", scratch="default" if name == "spark" else None)
    rows = in_types_of(frame, table)
    features = [name for name in FEATURES_BY_TYPE if name in rows.columns]
    assert len(features) > 10
    options = {"features": features, "weight": "w", "max_bin": 40, **SHAPE}
    model = fb.fit(table, "amount", **options)
    assert_same(model, rows, "amount", **options)
    options |= {"objective": "binary:logistic", "valid": "w > 1.9", "eval_metric": ["logloss", "auc"]}
    options |= shape_by_queries(name)
    of_queries, expected = fb.fit(table, "late", engine="sql", **options), fb.fit(rows, "late", **options)
    exact = expected.trees.drop("value", "gain", "cover")
    assert of_queries.trees.drop("value", "gain", "cover").equals(exact)  # EXP of a database may have another last bit
    np.testing.assert_allclose(of_queries.trees["value"], expected.trees["value"], rtol=1e-9)
    for metric in expected.history.columns:
        np.testing.assert_allclose(of_queries.history[metric], expected.history[metric], rtol=1e-9)
    if name != "spark":
        both = {"features": features, "max_bin": 40, "multi_strategy": "multi_output_tree", **SHAPE}
        of_both = fb.fit(table, ["amount", "w"], engine="sql", **both)
        assert_same(of_both, rows, ["amount", "w"], **both)
    split_on = set(model.trees["feature"])
    families = {f.type.family for f in model.ensemble.features}
    assert {f.type.family for f in model.ensemble.features if f.name in split_on} >= families - {"boolean"}


# Types by their names in a database, each with that of a feature.
NATIVE = {
    "postgres": {"numeric": "float64", "numeric(3,-2)": "float64", "numeric(50,40)": "float64",
                 "numeric(9,2)": "decimal(9,2)", "smallint": "int16"},
    "mariadb": {"decimal(9,2)": "decimal(9,2)", "decimal(9,2) unsigned": "decimal(9,2)", "decimal(20)": "decimal(20,0)",
                "decimal(65,30)": "float64", "float": "float64", "bit(9)": "uint64", "tinyint(1)": "int8",
                "bigint unsigned": "uint64", "smallint unsigned": "uint16"},
    "clickhouse": {"LowCardinality(UInt32)": "uint32", "LowCardinality(Nullable(Int16))": "int16",
                   "Nullable(Decimal(9,2))": "decimal(9,2)", "LowCardinality(String)": "string",
                   "LowCardinality(Nullable(FixedString(1)))": "string", "UInt8": "uint8"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", databases(*NATIVE))
def test_types_of_one_database(name):
    database = open_warehouse(name)
    types = NATIVE[name]
    database.run("DROP TABLE IF EXISTS native")
    defined = ", ".join(f"c{number} {kind}" for number, kind in enumerate(types))
    if name == "clickhouse":
        database.run("SET allow_suspicious_low_cardinality_types = 1")
        defined += ") ENGINE = MergeTree ORDER BY (c0"
    database.run(f"CREATE TABLE native ({defined})")
    digits = [0, 1, 1, 2, 3, 5, 8, 9]
    table = fb.table(connection_of(database), "native")
    for digit in digits:
        values = (100 if "-2" in kind else 1 for kind in types)
        database.run(f"INSERT INTO native VALUES ({', '.join(str(digit * value) for value in values)})")
    rows = pl.DataFrame(
        [
            (pl.Series(f"c{number}", digits) * (100 if "-2" in kind else 1)).cast(FeatureType(feature).to_polars())
            for number, (kind, feature) in enumerate(types.items())
        ]
    )
    options = {"features": rows.columns[:-1], **SHAPE}
    for engine in ("auto", "sql"):
        model = fb.fit(table, rows.columns[-1], engine=engine, **options)
        assert [f.type.name for f in model.ensemble.features] == list(types.values())[:-1]
        assert_same(model, rows, rows.columns[-1], **options)
    for feature in rows.columns[:-1]:
        one = SHAPE | {"features": [feature], "n_estimators": 1}
        assert_same(fb.fit(table, rows.columns[-1], **one), rows, rows.columns[-1], **one)


@pytest.fixture(scope="module")
def orders():
    """Return rows with names and values that mean something in SQL."""
    rng = np.random.default_rng(5)
    n = 600
    kinds = np.array(["it's", "a%sb", "back\\slash", "ß", "A", "a", "a "])
    frame = pl.DataFrame({
        "x": rng.normal(size=n).round(2), "value_0": rng.integers(0, 300, n), "select": rng.choice(kinds, n),
        "100%": rng.normal(size=n), "w": rng.integers(1, 4, n).astype(float), "day": rng.integers(0, 30, n),
    })  # fmt: skip
    noise = pl.Series(rng.normal(size=n))
    frame = frame.with_columns(score=(pl.col("x") * 3 + pl.col("value_0") / 100 + noise).round(2))
    label = pl.when(pl.col("score") + noise > 2).then(pl.lit("it's late")).otherwise(pl.lit("in time"))
    return frame.with_columns(outcome=label, x=pl.when(pl.col("day") == 3).then(None).otherwise(pl.col("x")))


ROLES = ["w", "day", "score", "outcome", "id"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_labels_held_out_rows_and_hostile_names(name, orders):
    database = open_warehouse(name)
    if name == "postgres":  # whose driver takes % in the test's INSERT for a parameter
        orders = orders.rename({"100%": "'"})
    called = "orders" if name == "spark" else "or'ders -- x"
    stored(database, called, orders)
    table = fb.table(connection_of(database), called)
    rows = in_types_of(orders, table).with_columns(id=pl.int_range(len(orders)))
    options = {"exclude": ROLES, "valid": "day >= 20", "early_stopping_rounds": 2, **SHAPE, "n_estimators": 20}
    model = fb.fit(table, "outcome", weight="w", **options)
    expected = fb.fit(rows, "outcome", weight="w", **options)
    assert model.trees.drop("value", "gain", "cover", strict=False).equals(
        expected.trees.drop("value", "gain", "cover", strict=False)
    )
    np.testing.assert_allclose(model.predict(rows), expected.predict(rows), rtol=1e-9)
    assert model.ensemble.labels == expected.ensemble.labels
    assert model.history.height == expected.history.height < 20
    start = fb.fit(rows, "score", exclude=ROLES, **SHAPE)
    continued = fb.fit(table, "score", exclude=ROLES, init_model=start, **SHAPE)
    assert continued.n_rounds == 6
    assert_same(continued, rows, "score", exclude=ROLES, init_model=start, **SHAPE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_shards_are_ranges_of_a_key(name, orders, monkeypatch):
    database, rng = open_warehouse(name), random.Random(6)
    texts = [f"{rng.choice('aBß_')}{number}'" for number in rng.sample(range(1_000), len(orders))]
    day = pl.datetime(2024, 1, 31) + pl.duration(hours=pl.int_range(len(orders)).shuffle(7) - 300)
    keys = {"text": pl.Series(texts), "day": day, "whole": pl.int_range(len(orders)).shuffle(8) - 300}
    rows = orders.select("value_0", "w", "score", kind="select", number="x").with_columns(**keys)
    stored(database, "ranges", rows)
    ways = list(zip(keys, ({"subsample": 0.5}, {"valid": 0.2}, {"objective": "reg:absoluteerror"}), strict=True))
    for key, more in ways[: 1 if name == "spark" else None]:  # where a statement takes half a second
        table = fb.table(connection_of(database), "ranges", key=key)
        options = {"features": ["value_0", "kind", "number"], "weight": "w", **more, **SHAPE}
        expected = model_in(fb.fit(in_types_of(rows, table).sort(key), "score", **options))
        assert model_in(fb.fit(table, "score", shards=3, **options)) == expected
        with monkeypatch.context() as patched:
            patched.setattr(storage, "available_memory", lambda: 0)
            patched.setattr(external_memory, "ROWS", 64)
            assert model_in(fb.fit(table, "score", shards=3, **options)) == expected
        parts = table.divided([100, 250])
        of_parts = pl.concat(part.to_frame([key]).collect() for part in parts)[key]
        assert [part.count_rows() for part in parts] == [100, 150, len(rows) - 250]
        assert of_parts.equals(table.to_frame([key]).collect()[key])
        assert of_parts.is_sorted()


def test_rows_of_a_query_are_in_one_shard(sqlite, monkeypatch):
    con, rows = sqlite
    monkeypatch.setattr(storage, "available_memory", lambda: 0)
    rows = rows.with_columns(session=pl.int_range(len(rows)) // 7, grade=pl.col("day") % 4)
    marks = ", ".join("?" * rows.width)
    con.execute(f"CREATE TABLE sessions ({', '.join(map(SQLITE.quote, rows.columns))})")
    con.executemany(f"INSERT INTO sessions VALUES ({marks})", rows.rows())
    con.commit()
    options = {"features": ["x", "value_0", "select"], "group": "session", "objective": "rank:ndcg", **SHAPE}
    of_shards = fb.fit(fb.table(con, "sessions", key="id"), "grade", shards=4, **options)
    assert_same(of_shards, rows, "grade", **options)


def test_rows_without_ranges_are_not_divided(sqlite):
    con, _ = sqlite
    with pytest.raises(fb.ParameterError, match=r"^the rows of a database are divided by ranges of a key, "):
        fb.fit(fb.table(con, "orders"), "score", shards=2, verbose=False)
    mixed = fb.table(con, "SELECT *, CASE WHEN id > 5 THEN id ELSE 'text' || id END AS mixed FROM orders", key="mixed")
    with pytest.raises(fb.ParameterError, match=r"^the rows can't be divided by ranges of key 'mixed', which has"):
        fb.fit(mixed, "score", features=["x"], shards=2, verbose=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_zeros_of_both_signs_are_one_value(name):
    rng, n = np.random.default_rng(8), 400
    zeros = np.where(rng.random(n) < 0.5, -0.0, 0.0)
    values = {f"x{i}": np.where(rng.random(n) < 0.3, zeros, rng.normal(size=n).round(i)) for i in range(3)}
    frame = pl.DataFrame({**values, "z": zeros}).with_columns(pl.all().cast(pl.Float32).name.suffix("_32"))
    frame = frame.with_columns(y=rng.normal(size=n).round(3))
    database = open_warehouse(name)
    stored(database, "zeros", frame)
    table = fb.table(connection_of(database), "zeros", scratch="default" if name == "spark" else None)
    rows = in_types_of(frame, table)
    options = {"features": frame.columns[:8]}
    for engine, max_bin, shape in (("auto", 3, SHAPE), ("auto", 16, SHAPE), ("sql", 256, shape_by_queries(name))):
        of_table = fb.fit(table, "y", max_bin=max_bin, engine=engine, **options, **shape)
        assert_same(of_table, rows, "y", max_bin=max_bin, **options, **shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("postgres", "clickhouse"))
def test_cuts_of_many_columns_and_bins_by_quantiles(name):
    rng, n = np.random.default_rng(8), 4_000
    values = {f"x{i}": rng.normal(size=n).round(1 + i % 4).astype([np.float64, np.float32][i % 2]) for i in range(18)}
    frame = pl.DataFrame(values).with_columns(y=rng.normal(size=n).round(3))
    frame = frame.with_columns(pl.when(pl.col("x3") > 0.9).then(None).otherwise(pl.col("x3")).alias("x3"))
    database = open_warehouse(name)
    stored(database, "wide", frame)
    table = fb.table(connection_of(database), "wide", key="id")
    rows = in_types_of(frame, table).with_columns(id=pl.int_range(n))
    # Of so many bins the quantiles of one column are longer than a query of ClickHouse may be.
    for max_bin in (16, 1_500, 3_900):
        options = {"exclude": "id", "max_bin": max_bin, **SHAPE}
        assert_same(fb.fit(table, "y", **options), rows, "y", **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("clickhouse", "duckdb", "datafusion"))
@pytest.mark.parametrize(("n_features", "max_depth"), [(62, 2), (2, 9)])
def test_codes_of_one_to_four_bytes_and_more_columns_than_a_query_has_sets(name, n_features, max_depth):
    # Codes of 1 and 2 bytes, and keys of 4 of 128 nodes and 601 codes.
    rng, n = np.random.default_rng(8), 700
    values = {f"x{i}": rng.permutation(n) // (1 if i == 1 else 100) for i in range(n_features)}
    frame = pl.DataFrame({**values, "y": rng.normal(size=n).round(3)})
    database = open_warehouse(name)
    stored(database, "many", frame)
    table = fb.table(connection_of(database), "many")
    options = {"features": list(values), "max_bin": 600, **SHAPE, "n_estimators": 1, "max_depth": max_depth}
    model = fb.fit(table, "y", engine="sql", **options)
    assert_same(model, in_types_of(frame, table), "y", **options)
    assert model.trees["depth"].max() == max_depth


@pytest.fixture(scope="module")
def searches():
    """Return rows of queries of 1 to 25 rows, in any order, many equal margins, and names that collations mix up."""
    rng = np.random.default_rng(11)
    called = ["a", "A", "a ", "ä", "it's", "", "100%", "back\\slash", *map(str, range(25))]
    query = rng.permutation(np.concatenate([np.repeat(range(24), 12), np.repeat(range(24, 30), 3), [30, 31, 32]]))
    x = rng.integers(0, 5, size=(len(query), 3))
    grade = np.where(query == 23, 2, np.clip(x[:, 0] + rng.integers(-2, 2, len(query)), 0, 4))
    frame = pl.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2] / 4, "grade": grade, "click": grade // 3})
    names, weights = pl.Series([called[k] for k in query]), pl.Series(1.0 + query % 3)
    # Of equal margins the first row comes first, and keys are no numbers in its order.
    key = pl.Series(rng.permutation(len(query)))
    return frame.with_columns(search=names, number=pl.Series(query), weight=weights, key=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_rankings_by_queries_of_the_database(name, searches):
    database = open_warehouse(name)
    stored(database, "searches", searches)
    table = fb.table(connection_of(database), "searches", key="key", scratch="default" if name == "spark" else None)
    rows = in_types_of(searches, table).sort("key")
    options = {"group": "search", "features": ["x0", "x1", "x2"], "weight": "weight", "valid": "number % 4 = 1"}
    options |= SHAPE | {"early_stopping_rounds": 2, "n_estimators": 12, "lambdarank_num_pair_per_sample": 3}
    few = {"n_estimators": 1, "max_depth": 2, "valid": None, "early_stopping_rounds": None, "eval_metric": "ndcg"}
    few = few if name == "spark" else {}  # where a statement takes half a second
    ways = [
        ("grade", {"objective": "rank:ndcg", "eval_metric": ["ndcg@3", "ndcg"]}),
        ("click", {"objective": "rank:map", "eval_metric": ["map@2-", "pre@3", "auc"], "subsample": 0.8}),
        ("grade", {"objective": "rank:pairwise", "lambdarank_score_normalization": False, "valid": 0.3}),
    ]
    for target, more in ways[: 1 if few else None]:
        model = fb.fit(table, target, engine="sql", **options | more | few)
        expected = fb.fit(rows, target, **options | more | few)
        assert few or expected.history.height < 12
        assert expected.trees["feature"].drop_nulls().len() > 0
        if name not in ("clickhouse", "spark"):  # whose EXP may have another last bit
            assert model_in(model) == model_in(expected)
        trees, of_rows = (each.trees.drop("value", "gain", "cover") for each in (model, expected))
        assert trees.equals(of_rows)
        np.testing.assert_allclose(model.trees["value"], expected.trees["value"], rtol=1e-9, atol=1e-12)
        for metric in expected.history.columns:
            np.testing.assert_allclose(model.history[metric], expected.history[metric], rtol=1e-9)


@pytest.mark.parametrize("name", databases("postgres", "mariadb"))
def test_queries_that_floats_do_not_tell_apart_are_an_error(name):
    database, digits = open_warehouse(name), {"postgres": "NUMERIC(40)", "mariadb": "DECIMAL(40)"}[name]
    options = {"objective": "rank:map", "group": "query", "features": ["x"], **SHAPE}

    def of_names(first):
        selected = f"SELECT id, x, y, CAST(CAST({first} AS {digits}) + query AS {digits}) AS query FROM long_names"
        return fb.table(connection_of(database), selected, key="id")

    frame = pl.DataFrame({"x": range(40), "y": [0, 1] * 20, "query": [k // 4 for k in range(40)]})
    stored(database, "long_names", frame)
    expected = fb.fit(frame, "y", **options)
    for engine in ("auto", "sql"):
        assert fb.fit(of_names(10**15), "y", engine=engine, **options).trees.equals(expected.trees)
    table, is_told = of_names(10**30), {"match": r"group column 'query' has 10 values of type .* are 1 as float64"}
    for use in (
        lambda: fb.fit(table, "y", **options), lambda: fb.fit(table, "y", engine="sql", **options),
        lambda: fb.cv(table, "y", folds=2, **options), lambda: expected.evaluate(table, "y", group="query"),
    ):  # fmt: skip
        with pytest.raises(fb.DataError, **is_told):
            use()


@pytest.fixture(scope="module")
def sqlite(orders):
    """Return a table in SQLite with the rows in any order, and the same rows in the order of its key."""
    con = sqlite3.connect(":memory:")
    late = (pl.col("score") > 2).cast(pl.Int64).alias("late")
    rows = orders.select("x", "value_0", "select", "100%", "w", "day", "score", late).with_row_index("id")
    con.execute("CREATE TABLE orders (id, x, value_0, `select`, `100%`, w, day, score, late)")
    shuffled = rows.sample(fraction=1, shuffle=True, seed=1)
    con.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", shuffled.rows())
    con.commit()
    return con, rows.with_columns(pl.col("id").cast(pl.Int64))


OPTIONS = {"exclude": ["w", "day", "id", "late"], **SHAPE}


@pytest.mark.slow
def test_rows_are_drawn_by_their_position_in_the_order_of_a_key(sqlite, monkeypatch):
    con, rows = sqlite
    table = fb.table(con, "orders", key="id")
    assert_same(fb.fit(table, "score", subsample=0.5, **OPTIONS), rows, "score", subsample=0.5, **OPTIONS)
    for held_out in ({"valid": 0.3}, {"valid": "last 20%", "time": "day"},
                     {"valid": "last 1%", "time": "id", "group": "day"}):  # fmt: skip
        assert_same(fb.fit(table, "score", **held_out, **OPTIONS), rows, "score", **held_out, **OPTIONS)
    of_all = fb.fit(table, "score", max_bin=16, **OPTIONS)
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 128)  # fewer rows than there are
    model = fb.fit(table, "score", max_bin=16, **OPTIONS)
    assert model_in(model) != model_in(of_all)
    assert_same(model, rows, "score", max_bin=16, **OPTIONS)
    with pytest.raises(fb.ParameterError, match=r"cuts of more than .* come from a sample .*key='id'"):
        fb.fit(fb.table(con, "orders"), "score", **OPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"tree_method": "exact"}, {"tree_method": "approx"}, {"linear_tree": True}, {"max_bin": 2}, {"cuts": {"x": [0.5]}},
     {"objective": "reg:quantileerror"}, {"grow_policy": "symmetric"}, {"booster": "dart", "rate_drop": 0.5},
     {"objective": "rank:ndcg", "group": "day", "target": "late", "weight": None, "eval_metric": "ndcg"},
     {"objective": "rank:pairwise", "group": "select", "target": "late", "weight": None, "eval_metric": "map"},
     {"target": ["score", "value_0"], "multi_strategy": "multi_output_tree"},
     {"objective": "survival:aft", "target": "w", "weight": None, "label_upper_bound": "upper",
      "eval_metric": None}],
    ids=str,
)  # fmt: skip
def test_parameters_that_need_values_or_bins_give_the_same_model(sqlite, options):
    con, rows = sqlite
    options = {**OPTIONS, "weight": "w", "valid": "id < 250", "eval_metric": "rmse", **options}
    target = options.pop("target", "score")
    options["exclude"] = [*options["exclude"], "upper"]
    key = "id" if "group" in options else None
    query = "SELECT *, CASE WHEN id % 3 > 0 THEN w + id % 2 END AS upper FROM orders;"
    rows = rows.with_columns(upper=pl.when(pl.col("id") % 3 > 0).then(pl.col("w") + pl.col("id") % 2))
    model, expected = (fb.fit(data, target, **options) for data in (fb.table(con, query, key=key), rows))
    assert model_in(model) == model_in(expected)
    assert model.history.equals(expected.history)


def test_other_functions_read_the_rows(sqlite):
    con, rows = sqlite
    table = fb.table(con, "orders", key="id")
    model = fb.fit(table, "score", **OPTIONS)
    assert model.predict(table).equals(model.predict(rows))
    assert str(model.evaluate(table, "score")) == str(model.evaluate(rows, "score"))
    assert fb.cv(table, "score", folds=3, **OPTIONS).equals(fb.cv(rows, "score", folds=3, **OPTIONS))
    assert_same(fb.fit(rows, "score", valid=table, **OPTIONS), rows, "score", valid=rows, **OPTIONS)
    assert_same(fb.fit(table, "score", valid=rows, **OPTIONS), rows, "score", valid=rows, **OPTIONS)


@pytest.mark.slow
def test_rows_to_validate_on_may_be_anywhere(sqlite):
    con, rows = sqlite
    table = fb.table(con, "orders")
    relation = duckdb.from_arrow(rows.to_arrow())
    half = fb.table(con, "SELECT * FROM orders WHERE id % 2 = 0")
    here = rows.filter(pl.col("id") % 2 == 0)
    expected = fb.fit(rows, "score", valid={"all": rows, "half": here}, eval_metric=["rmse", "mae"], **OPTIONS)
    for engine in ("auto", "sql"):
        for valid in ({"all": rows, "half": half}, {"all": relation, "half": here}, {"all": table, "half": half}):
            model = fb.fit(table, "score", valid=valid, engine=engine, eval_metric=["rmse", "mae"], **OPTIONS)
            assert model_in(model) == model_in(expected)
            assert model.history.equals(expected.history)
    with pytest.raises(fb.ParameterError, match=r"engine 'sql' trains on tables of databases, .* fb\.cv, fb\.auto"):
        fb.cv(table, "score", engine="sql", **OPTIONS)


def test_sql_of_the_user_may_end_in_comments_and_name_columns_as_functions_are(sqlite):
    con, rows = sqlite
    table = fb.table(con, "-- orders\nWITH o AS (SELECT *, x AS rand FROM orders) SELECT * FROM o -- all")
    rows = rows.with_columns(rand=pl.col("x"))
    options = OPTIONS | {"eval_metric": "rmse"}
    model = fb.fit(table, "score", valid="id < 100 -- the first", **options)
    assert_same(model, rows, "score", valid="id < 100", **options)
    assert model.metadata.query == hashlib.sha256(table.name.encode()).hexdigest()


def test_a_plan_says_what_leaves_the_database(sqlite):
    con, _ = sqlite
    table = fb.table(con, "orders")
    [bins, values, sums] = [
        re.search(r"leaves +(.*)", str(fb.plan(table, "score", weight="w", **options)))[1]
        for options in ({}, {"tree_method": "exact"}, {"engine": "sql"})
    ]
    assert bins == "'orders' of sqlite: of each row the numbers of its bins, 'score', 'w'; and the cuts"
    assert values == "'orders' of sqlite: of each row its values, 'score', 'w'; and the cuts"
    assert sums == "'orders' of sqlite: cuts, and sums by bin; temporary tables are made there, and dropped"
    options = {"features": ["x", "select", "day"], "weight": "w"}
    [of_bins, of_values, of_levels] = [
        re.search(r"scans +(.*)", str(fb.plan(table, "score", **options, **more)))[1]
        for more in ({}, {"tree_method": "exact"}, {"engine": "sql"})
    ]
    text = "and the characters of 'select'"
    bins = f"features three times, other columns twice: {8 * (2 * 3 + 2 * 2)} bytes of a row, {text}"
    assert of_bins == bins
    assert of_values == f"each column once: {8 * (2 + 2)} bytes of a row, {text}"
    assert of_levels == f"{bins}; for each level of a tree, the codes of all rows"


@pytest.mark.slow
def test_a_fit_in_a_database_goes_on_from_its_checkpoint(sqlite, tmp_path):
    con, rows = sqlite
    path = tmp_path / "fit.ckpt"
    of_sql(con, "score", checkpoint=path, checkpoint_every=1, **OPTIONS | {"n_estimators": 2})
    model = of_sql(con, "score", checkpoint=path, **OPTIONS | {"n_estimators": 9})
    assert_same(model, rows, "score", **OPTIONS | {"n_estimators": 9})
    recorded = Recorded(con)
    again = of_sql(recorded, "score", checkpoint=path, **OPTIONS | {"n_estimators": 10})
    assert_same(again, rows, "score", **OPTIONS | {"n_estimators": 10})
    # Codes, margins, four trees; four more and the gradients of the ninth, which is grown again; those of the tenth.
    assert sum(statement.startswith("CREATE") for statement in recorded.statements) == 5


class Cursor:
    def __init__(self, cursor, methods):
        self.cursor = cursor
        vars(self).update(methods)

    @property
    def description(self):
        return self.cursor.description


class Recorded:
    """A connection that records its statements, and may run something before one of them."""

    def __init__(self, con, before=lambda statement: None):
        self.con, self.before, self.statements = con, before, []

    def cursor(self):
        cursor = self.con.cursor()

        def recorded(statement):
            self.statements.append(statement)
            self.before(statement)
            return cursor.execute(statement)

        names = ("fetchall", "fetchmany", "close")
        methods = {name: getattr(cursor, name) for name in names} | {"execute": recorded}
        return Cursor(cursor, methods)


Recorded.__module__ = "sqlite3"


def test_rows_that_change_while_they_are_read_are_an_error(sqlite):
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE t (x REAL, y REAL)")
    con.executemany("INSERT INTO t VALUES (?, ?)", [(i, i % 7) for i in range(50)])

    def change(statement):
        if "CASE WHEN `x` <" in statement:
            con.execute("UPDATE t SET y = y + 1 WHERE x = 3")

    with pytest.raises(fb.DataError, match="the rows of 't' changed while they were read"):
        fb.fit(fb.table(Recorded(con, change), "t"), "y", **SHAPE)


@pytest.mark.parametrize("changing", ["SELECT *, random() AS y FROM t", "SELECT *, x AS y FROM t WHERE random() > 0"])
@pytest.mark.parametrize("engine", ["auto", "sql"])
def test_a_view_of_other_rows_each_time_is_an_error(changing, engine):
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE t (x REAL, z REAL)")
    con.executemany("INSERT INTO t VALUES (?, ?)", [(i, i % 7) for i in range(300)])
    con.execute(f"CREATE VIEW changing AS {changing}")
    with pytest.raises(fb.DataError, match="the rows of 'changing' changed while they were read"):
        fb.fit(fb.table(con, "changing"), "y", features=["x", "z"], engine=engine, **SHAPE)
    assert con.execute("SELECT name FROM sqlite_temp_master").fetchall() == []


@pytest.mark.parametrize(
    "changing", ["x AS id, abs(random()) % 40 AS q", "random() AS id, CAST(x % 40 AS INTEGER) AS q"]
)
@pytest.mark.parametrize("engine", ["auto", "sql"])
def test_a_view_of_other_queries_or_in_another_order_each_time_is_an_error(changing, engine):
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE t (x REAL, y INTEGER)")
    con.executemany("INSERT INTO t VALUES (?, ?)", [(i, i * i % 7 % 3) for i in range(300)])
    con.execute(f"CREATE VIEW changing AS SELECT x, y, {changing} FROM t")
    options = {"group": "q", "objective": "rank:ndcg", "features": ["x"], "engine": engine, **SHAPE}
    with pytest.raises(fb.DataError, match="the rows of 'changing' changed while they were read"):
        fb.fit(fb.table(con, "changing", key="id"), "y", **options)


def test_values_stay_in_the_database(sqlite):
    con, _ = sqlite
    recorded = Recorded(con)
    fb.fit(fb.table(recorded, "orders"), "score", weight="w", **OPTIONS)
    selected = [re.match("SELECT (.*?) FROM", statement)[1] for statement in recorded.statements]
    assert len(selected) < 15
    assert not [text for text in selected if re.search("(?<!TYPEOF\\()`(x|value_0|100%)` AS", text)]


def test_bad_tables_are_one_sentence(sqlite):
    con, _ = sqlite
    for arguments, options, message in (
        ((con, "nothing"), {}, "source='nothing' can't be read in sqlite"),
        ((con, "SELECT nothing FROM orders"), {}, "source='SELECT nothing FROM orders' can't be read in sqlite"),
        ((con, "SELECT * FROM orders WHERE random() > 5"), {}, "source calls 'random', so its rows change"),
        ((con, "orders"), {"key": "idd"}, "key column 'idd' is not in the table; did you mean 'id'"),
        ((con, "orders"), {"dialect": "sqlit"}, "dialect must be one of"),
        ((object(), "orders"), {}, "connection is a 'builtins.object'; it must be a connection of PEP 249"),
        ((Asynchronous(), "orders"), {}, "Asynchronous', which is asynchronous; pass a synchronous connection"),
        ((con, 3), {}, "source must be the name of a table or a query, not 3"),
    ):
        with pytest.raises(fb.FrameboostError) as error:
            fb.table(*arguments, **options)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(fb.DataError, match=r"data is a Connection, not one of its tables; pass fb\.table"):
        fb.fit(con, "score", **OPTIONS)
    with pytest.raises(fb.DataError, match="X is a table of a database, whose rows have no order"):
        fb.FrameBoostRegressor().fit(fb.table(con, "orders"), [1.0] * 600)
    table = fb.table(con, "orders", key="day")
    with pytest.raises(fb.DataError, match="key column 'day' has 30 distinct values in 600 rows"):
        fb.fit(table, "score", **OPTIONS)
    for options, message in (
        ({"subsample": 0.5}, "subsample=0.5 draws rows by their positions"),
        ({"valid": 0.2}, "valid=0.2 depends on the order of the rows"),
        ({"valid": "nothing > 1"}, "neither a column of the data nor a SQL predicate"),
        ({"valid": "random() > 1"}, "calls 'random'"),
        ({"objective": "rank:ndcg", "group": "day"}, "a ranking objective puts rows of equal margins in order by"),
        ({"engine": "sql", "objective": "rank:map", "group": "day"}, "a ranking objective puts rows of equal margins"),
        ({"engine": "sql", "subsample": 0.5}, "subsample=0.5 draws rows by their positions"),
        ({"engine": "sql", "tree_method": "exact"}, "tree_method='exact' needs engine='numba', not 'sql'"),
        ({"engine": "duckdb"}, "engine 'duckdb' trains on DuckDB relations, not on tables of databases"),
    ):
        with pytest.raises(fb.FrameboostError, match=re.escape(message)):
            fb.fit(fb.table(con, "orders"), "score", **OPTIONS, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("postgres"))
def test_connections_to_one_database(name, orders):
    database = open_warehouse(name)
    import adbc_driver_postgresql.dbapi
    import psycopg
    import sqlalchemy.orm

    rows = stored(database, "orders", orders.rename({"100%": "p"}))
    uri = database.server.get_uri()
    expected = None
    with contextlib.ExitStack() as stack:
        engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(uri))
        stack.callback(engine.dispose)
        in_transaction = stack.enter_context(psycopg.connect(uri))
        arrow = stack.enter_context(adbc_driver_postgresql.dbapi.connect(uri))
        session = stack.enter_context(sqlalchemy.orm.Session(engine))
        pooled = stack.enter_context(contextlib.closing(engine.raw_connection()))
        others = (stack.enter_context(engine.connect()), session, pooled, arrow)
        for con in (database.con, in_transaction, engine, *others):
            model = fb.fit(fb.table(con, "public.orders"), "score", exclude=ROLES, **SHAPE)
            expected = model_in(model) if expected is None else expected
            assert model_in(model) == expected
        with pytest.raises(fb.DataError, match="column 'a' occurs more than once"):
            fb.table(in_transaction, "SELECT 1 AS a, 2 AS a")
        with pytest.raises(fb.DataError, match="can't be read in postgres"):
            fb.table(in_transaction, "nothing")
        in_transaction.rollback()
        in_transaction.execute("CREATE ROLE reader")
        in_transaction.execute("SET ROLE reader")
        with pytest.raises(fb.DataError, match="permission denied for table orders"):
            fb.table(in_transaction, "orders")
        in_transaction.rollback()
    assert expected == model_in(
        fb.fit(in_types_of(rows, fb.table(database.con, "orders")), "score", exclude=ROLES[:-1], **SHAPE)
    )


def as_dictionary(cursor, row):
    return dict(zip([column[0] for column in cursor.description], row, strict=True))


class Asynchronous:
    async def execute(self, query):
        raise NotImplementedError


def test_columns_of_types_that_frames_do_not_have_are_only_named():
    con = duckdb.connect()
    con.execute(
        'CREATE TABLE t AS SELECT i % 3 AS "a\'b", INTERVAL 1 DAY AS i, '
        "[INTERVAL 1 DAY] AS l, union_value(n := i) AS u, "
        "CAST(['interval', 'union'][1 + i % 2] AS ENUM('interval', 'union')) AS e, i / 2 AS y FROM range(20) r(i)"
    )
    table = fb.table(con, "t")
    assert table.names() == ["a'b", "i", "l", "u", "e", "y"]
    kinds = {name: kind.name for name, kind in table.types().items() if kind is not None}
    assert kinds == {"a'b": "int64", "e": "string", "y": "float64"}
    frame = pl.DataFrame({"a'b": range(20), "e": ["interval", "union"] * 10, "y": range(20)})
    frame = frame.with_columns(pl.col("a'b") % 3, pl.col("y") / 2)
    assert_same(fb.fit(table, "y", exclude=["i", "l", "u"], **SHAPE), frame, "y", **SHAPE)
    with pytest.raises(fb.DataError, match="'l' has type INTERVAL\\[\\]"):
        table.to_frame(["l"])
    assert fb.table(con, "SELECT i, u FROM t").types() == {"i": None, "u": None}
    datafusion = open_warehouse("datafusion")
    in_arrow = fb.table(datafusion.con, "SELECT 1 AS x, INTERVAL '1' DAY AS i, 2 AS y")
    assert [kind is not None for kind in in_arrow.types().values()] == [True, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("postgres", "mariadb", "sqlite"))
def test_rows_of_a_connection_may_be_dictionaries(name):
    database = open_warehouse(name)
    days = [datetime(2026, 3, 1).date() + timedelta(i % 5) for i in range(20)]
    frame = pl.DataFrame(
        {"day": days, "due": days[::-1], "kind": ["a", "b"] * 10, "y": [float(i % 3) for i in range(20)]}
    )
    stored(database, "dictionaries", frame)
    with contextlib.ExitStack() as stack:
        if name == "postgres":
            import psycopg

            uri = database.server.get_uri()
            factories = (psycopg.rows.dict_row, psycopg.rows.namedtuple_row)
            opened = [stack.enter_context(psycopg.connect(uri, row_factory=factory)) for factory in factories]
        elif name == "mariadb":
            import pymysql

            options = {"unix_socket": f"{database.folder}/socket", "user": "root", "database": "d"}
            cursors = (pymysql.cursors.DictCursor, pymysql.cursors.SSDictCursor)
            opened = [stack.enter_context(pymysql.connect(cursorclass=cursor, **options)) for cursor in cursors]
        else:
            database.con.commit()
            opened = [stack.enter_context(contextlib.closing(sqlite3.connect(":memory:"))) for _ in range(3)]
            for con in opened:
                database.con.backup(con)
            opened[0].row_factory, opened[1].row_factory = as_dictionary, sqlite3.Row
            opened[2].text_factory = bytes
        for con in opened:
            table = fb.table(con, "dictionaries")
            read = table.to_frame(["day", "due", "kind", "y"]).collect()
            assert_frame_equal(read, frame, check_row_order=False)
            options = {"features": ["day", "due", "kind"], **SHAPE}
            for engine in ("auto", "sql"):
                assert_same(fb.fit(table, "y", engine=engine, **options), frame, "y", **options)


@pytest.mark.parametrize("missing", [pl.String, pl.Float64, pl.Boolean])
def test_a_feature_without_a_value(missing):
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=missing), "y": [0.0, 1.0]})
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    for engine in ("auto", "sql"):
        with pytest.warns(fb.FrameboostWarning, match="no tree has a split"):
            model = fb.fit(fb.table(con, "t"), "y", engine=engine, **SHAPE)
        assert model.predict(frame).to_list() == [0.5, 0.5]


@pytest.mark.parametrize("name", databases("postgres", "sqlite"))
def test_values_that_the_type_of_their_column_does_not_have(name):
    database = open_warehouse(name)
    kind, bad = {"postgres": ("NUMERIC(9, 2)", "'NaN'"), "sqlite": ("DATE", "'2026-02-30'")}[name]
    good = {"postgres": "1.25", "sqlite": "'2026-02-03'"}[name]
    database.run("DROP TABLE IF EXISTS wrong")
    database.run(f"CREATE TABLE wrong (x {kind}, y INTEGER)")
    database.run(f"INSERT INTO wrong VALUES ({good}, 1), ({bad}, 2)")
    for engine in ("auto", "sql"):
        with pytest.raises(fb.DataError, match=r"column 'x' has a value that is no (date|decimal)"):
            fb.fit(fb.table(connection_of(database), "wrong"), "y", engine=engine, **SHAPE)
    with pytest.raises(fb.DataError, match=r"column 'x' has a value that is no (date|decimal)"):
        fb.table(connection_of(database), "wrong").to_frame(["x"])


def of_sql(con, *args, key=None, scratch=None, **options):
    return fb.fit(fb.table(con, "orders", key=key, scratch=scratch), *args, engine="sql", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"objective": "reg:absoluteerror"}, {"objective": "reg:quantileerror", "quantile_alpha": 0.9},
     {"num_parallel_tree": 9, "subsample": 0.9, "n_estimators": 2}, {"num_parallel_tree": 3, "max_depth": 11},
     {"objective": "reg:absoluteerror", "weight": "w"}, {"objective": "reg:absoluteerror", "subsample": 0.6},
     {"objective": "count:poisson", "target": "value_0"}, {"target": "value_0", "target_transform": "log1p"},
     {"objective": "multi:softprob", "target": "w"}, {"target": ["score", "value_0"]},
     {"objective": "binary:logistic", "target": "late", "eval_metric": ["logloss", "auc", "aucpr"], "valid": "day < 9",
      "min_child_samples": 30, "class_weight": "balanced"},
     {"objective": "rank:ndcg", "group": "select", "target": "day", "ndcg_exp_gain": False, "min_child_samples": 9},
     {"objective": "rank:map", "group": "select", "target": "late", "lambdarank_normalization": False},
     {"objective": "binary:logistic", "group": "day", "target": "late", "eval_metric": ["ndcg@4", "logloss"]},
     {"objective": "survival:cox", "target": "value_0"}, {"subsample": 0.6, "valid": 0.3},
     {"subsample": 0.3, "sampling_method": "gradient_based", "min_child_samples": 8},
     {"grow_policy": "lossguide", "max_leaves": 9},
     {"num_parallel_tree": 3, "colsample_bynode": 0.6}, {"booster": "dart", "rate_drop": 0.9},
     {"monotone_constraints": {"x": 1}, "max_bin": 8}, {"grow_policy": "symmetric"}, {"base_margin": "day"},
     {"objective": "multi:softprob", "target": "w", "multi_strategy": "multi_output_tree"},
     {"target": ["score", "value_0"], "multi_strategy": "multi_output_tree", "subsample": 0.6,
      "min_child_samples": 20},
     {"target": ["score", "value_0"], "multi_strategy": "multi_output_tree", "subsample": 0.6,
      "sampling_method": "gradient_based"}],
    ids=str,
)  # fmt: skip
def test_an_engine_of_queries_grows_the_same_trees(sqlite, options):
    con, rows = sqlite
    options = dict(options)
    target = options.pop("target", "score")
    exclude = {"exclude": ["w", "day", "id", "score", "value_0", "late"]}
    models = [
        fit(data, target, **SHAPE | exclude | options)
        for fit, data in ((fb.fit, rows), (lambda data, *args, **more: of_sql(data, *args, key="id", **more), con))
    ]
    assert model_in(models[0]) == model_in(models[1])
    assert models[0].history.equals(models[1].history)


FUNCTIONS = {
    "SIGN(x)": lambda x: (x > 0) - (x < 0), "ABS(x)": abs, "FLOOR(x)": math.floor, "-x": lambda x: -x,
    "GREATEST(x, 0.5, -2)": lambda x: max(x, 0.5), "LEAST(x, 0.5, 2)": lambda x: min(x, 0.5),
    "SQRT(x * x + 1)": lambda x: math.sqrt(x * x + 1), "LN(x * x + 0.5)": lambda x: math.log(x * x + 0.5),
    "EXP(x)": math.exp, "POWER(2, x)": lambda x: 2**x, "1 / (x + 5)": lambda x: 1 / (x + 5),
    "CASE WHEN x IS NULL OR NOT (x > 0 AND x <= 3) THEN 7 ELSE x END": lambda x: x if 0 < x <= 3 else 7,
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_functions_of_expressions_are_those_of_the_database(name):
    database, x = open_warehouse(name), [-2.5, -1.0, -0.0, 0.0, 1e-9, 0.75, 3.0, 31.0]
    stored(database, "functions", pl.DataFrame({"x": x}))
    table = fb.table(connection_of(database), "functions", key="id")
    columns = {f: Expression(f, ("x",)).to_sql({"x": table.dialect.quote("x")}, table.dialect) for f in FUNCTIONS}
    read = table.rows(columns, dict.fromkeys(FUNCTIONS, FeatureType("float64")), table.in_order)
    for called, function in FUNCTIONS.items():
        np.testing.assert_allclose(read[called], list(map(function, x)), rtol=1e-15, err_msg=called)


def test_quantiles_need_no_function_that_not_every_sqlite_has(sqlite):
    recorded = Recorded(sqlite[0])
    fb.fit(fb.table(recorded, "orders"), "score", objective="reg:absoluteerror", engine="sql", **OPTIONS)
    assert any(" AS `quantile`" in statement for statement in recorded.statements)
    assert not [statement for statement in recorded.statements if "FLOOR(" in statement]


def test_codes_that_are_too_much_for_one_query(sqlite, monkeypatch):
    con, rows = sqlite
    limited = replace(SQLITE, limits=replace(SQLITE.limits, text=16_000))
    expected = model_in(fb.fit(rows, "score", **OPTIONS))
    recorded = Recorded(con)
    keyed, table = (replace(fb.table(recorded, "orders", key=key), dialect=limited) for key in ("id", None))
    recorded.statements.clear()
    assert model_in(fb.fit(keyed, "score", **OPTIONS)) == expected
    assert sum("CASE WHEN `" in statement and "THEN CASE" in statement for statement in recorded.statements) > 1
    assert model_in(fb.fit(table, "score", engine="sql", **OPTIONS)) == expected
    assert max(len(statement) for statement in recorded.statements) <= 16_000
    with pytest.raises(fb.ParameterError, match="a query of the codes of 4 features is larger than"):
        fb.fit(table, "score", **OPTIONS)


def tables_of(con):
    return con.execute("SELECT name FROM sqlite_master UNION ALL SELECT name FROM sqlite_temp_master").fetchall()


@pytest.mark.parametrize("at", range(1, 30, 4))
def test_nothing_is_left_after_an_error(sqlite, at):
    con, _ = sqlite
    before = tables_of(con)

    class InterruptError(Exception):
        pass

    def interrupt(statement):
        if len(recorded.statements) == at:
            raise InterruptError

    recorded = Recorded(con, interrupt)
    with pytest.raises((InterruptError, fb.DataError)):
        of_sql(recorded, "score", valid="day < 3", **OPTIONS)
    assert tables_of(con) == before
    if at > 20:
        assert any("CREATE TEMPORARY TABLE" in statement for statement in recorded.statements)


class Counted:
    """A connection of ours that counts its statements."""

    def __init__(self, connection):
        self.connection, self.n = connection, 0

    def __getattr__(self, name):
        def call(*args):
            self.n += 1
            return getattr(self.connection, name)(*args)

        return call if name in ("frame", "run") else getattr(self.connection, name)

    def one_session(self):
        return contextlib.nullcontext(self)


def statements_of_a_tree(table, max_depth, **more):
    """Return the statements of each of three trees, behind the first two, in which the largest gradient doubles."""
    counts = []
    options = {"objective": "binary:logistic", "max_depth": max_depth, "min_child_weight": 0, "learning_rate": 0.1}
    options |= more
    for n_estimators in (2, 5):
        counted = replace(table, connection=Counted(table.connection))
        model = fb.fit(counted, "late", engine="sql", n_estimators=n_estimators, verbose=False, **options)
        assert model.trees.filter(tree=n_estimators - 1)["depth"].max() == max_depth
        counts.append(counted.connection.n)
    return (counts[1] - counts[0]) / 3


def rows_of_two_outcomes():
    rng = np.random.default_rng(3)
    x = rng.permutation(200)
    return pl.DataFrame({"x": x, "late": (np.sin(x / 3) + rng.normal(size=200) > 0).astype(int)})


# A new state, the old one dropped, and each level; a level that is a table is made, read and dropped.
STATEMENTS_OF_A_TREE = {"postgres": 8, "sqlite": 8, "clickhouse": 8, "duckdb": 8, "mariadb": 20, "datafusion": 20}


@pytest.mark.slow
@pytest.mark.parametrize("name", databases(*STATEMENTS_OF_A_TREE))
def test_a_tree_is_a_few_statements(name):
    database = open_warehouse(name)
    stored(database, "outcomes", rows_of_two_outcomes())
    table = fb.table(connection_of(database), "outcomes")
    assert statements_of_a_tree(table, 6) == STATEMENTS_OF_A_TREE[name]


@pytest.mark.parametrize("name", databases("sqlite", "mariadb"))
def test_a_tree_of_a_ranking_is_two_statements_more(name):
    database = open_warehouse(name)
    stored(database, "outcomes", rows_of_two_outcomes())
    table = fb.table(connection_of(database), "SELECT x, late, x % 10 AS query FROM outcomes", key="x")
    of_queries = {"group": "query", "features": ["x"], "objective": "rank:ndcg", "learning_rate": 1e-3}
    assert statements_of_a_tree(table, 6, **of_queries) == STATEMENTS_OF_A_TREE[name] + 2


class Printing:
    """A connection whose driver returns floats of 15 digits, as those that read the text of some databases do."""

    def __init__(self, con):
        self.con = con

    def cursor(self):
        cursor = self.con.cursor()

        def printed(fetch):
            def fetched(*args):
                return [tuple(float(f"{v:.15g}") if isinstance(v, float) else v for v in row) for row in fetch(*args)]

            return fetched

        methods = {name: printed(getattr(cursor, name)) for name in ("fetchall", "fetchmany")}
        return Cursor(cursor, methods | {name: getattr(cursor, name) for name in ("execute", "close")})


Printing.__module__ = "sqlite3"


# The largest gradient has many digits; it is the number behind a power of two, and printed as that power; it is a power
# of two, and printed as a larger number.
@pytest.mark.parametrize(
    ("largest", "printed"),
    [(2 / 3, 0.666666666666667), (1 + 2**-52, 1.0), (0.25 + 2**-54, 0.25), (2.0**-21, 4.76837158203125e-7)],
)
def test_no_driver_rounds_sums(largest, printed):
    assert float(f"{largest:.15g}") == printed
    rng = np.random.default_rng(4)
    x = rng.integers(0, 40, 300)
    y = np.round(np.sin(x) * largest / 3, 12)
    y[7] = largest
    frame = pl.DataFrame({"x": x, "y": y, "w": rng.integers(1, 4, 300)})
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE orders (x INTEGER, y REAL, w INTEGER)")
    con.executemany("INSERT INTO orders VALUES (?, ?, ?)", frame.rows())
    options = {"base_score": 0.0, "features": ["x"], **SHAPE}
    assert_same(of_sql(Printing(con), "y", **options), frame, "y", **options)


def test_gradients_whose_sums_are_not_finite_are_an_error():
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE orders (x, y, m)")
    con.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(i, i % 3, 900.0 if i == 7 else 0.0) for i in range(40)])
    with pytest.raises(fb.DataError, match="the gradients of 'count:poisson' are not finite in round 1"):
        of_sql(con, "y", base_margin="m", objective="count:poisson", base_score=1.0, **SHAPE)


def test_tables_of_a_fit_are_in_the_schema_that_is_named():
    con = sqlite3.connect(":memory:")
    con.execute("ATTACH ':memory:' AS scratch")
    con.execute("CREATE TABLE orders (x, score)")
    con.executemany("INSERT INTO orders VALUES (?, ?)", [(float(i), i % 5) for i in range(40)])
    recorded = Recorded(con)
    of_sql(recorded, "score", scratch="scratch", **SHAPE)
    made = [statement for statement in recorded.statements if statement.startswith("CREATE")]
    assert made
    assert all(statement.startswith("CREATE TABLE `scratch`.`frameboost_") for statement in made)
    assert con.execute("SELECT COUNT(*) FROM scratch.sqlite_master").fetchall() == [(0,)]


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("postgres", "clickhouse"))
def test_cuts_are_those_of_memory_whatever_repeats(name):
    database = open_warehouse(name)
    rng = np.random.default_rng(2)
    n = 4000
    frame = pl.DataFrame({
        "few_repeat": rng.normal(size=n).round(3), "many_repeat": rng.integers(0, 90, n),
        "none_repeats": rng.normal(size=n),
        "half_zero": np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n)), "tail": np.exp(rng.normal(size=n) * 5),
        "both_signs": rng.choice([-5, -(2**40), 2**40, 2**33, 0, 7], n),
        "with_missing": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n).round(2)),
    }).with_columns(pl.col("with_missing").fill_nan(None), whole=pl.col("many_repeat") * 10**12)  # fmt: skip
    frame = frame.with_columns(y=(pl.sum_horizontal(frame.columns[:4]) + pl.Series(rng.normal(size=n))).round(2))
    frame = stored(database, "cuts", frame)
    table = fb.table(connection_of(database), "cuts")
    rows = in_types_of(frame, table)
    for max_bin in (2, 16, 89, 256):
        options = {"features": rows.columns[:-1], "max_bin": max_bin, **SHAPE, "max_depth": 8}
        assert_same(fb.fit(table, "y", **options), rows, "y", **options)


@pytest.mark.parametrize("name", databases("postgres"))
def test_a_query_whose_connection_was_lost_is_run_once_more(name):
    database = open_warehouse(name)
    import psycopg
    import sqlalchemy

    database.run(
        "DROP TABLE IF EXISTS lost; CREATE TABLE lost AS SELECT i AS x, i % 5 AS y FROM generate_series(1, 60) AS i"
    )
    uri, name_of = database.server.get_uri(), "frameboost_lost"
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(uri, application_name=name_of), pool_size=1
    )
    table = fb.table(engine, "lost")
    expected = model_in(fb.fit(table, "y", **SHAPE))
    lost = f"SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{name_of}'"
    assert database.rows(lost) == [(1,)]
    assert model_in(fb.fit(table, "y", **SHAPE)) == expected
    engine.dispose()
    # A pool whose connections take turns: temporary tables are those of one.
    turns = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(uri), pool_size=3)
    opened = [turns.connect() for _ in range(3)]
    for con in opened:
        con.close()
    assert model_in(fb.fit(fb.table(turns, "lost"), "y", engine="sql", **SHAPE)) == expected
    turns.dispose()


@pytest.mark.parametrize("name", databases("postgres"))
def test_tables_in_a_schema_go_although_the_connection_was_lost(name):
    database = open_warehouse(name)
    import psycopg
    import sqlalchemy

    uri, application = database.server.get_uri(), "frameboost_lost"
    database.run("DROP TABLE IF EXISTS lost; DROP SCHEMA IF EXISTS of_fits CASCADE; CREATE SCHEMA of_fits")
    database.run("CREATE TABLE lost AS SELECT i AS x, i % 5 AS y FROM generate_series(1, 60) AS i")

    connections = []

    def opened():
        connections.append(psycopg.connect(uri, autocommit=True, application_name=application))
        return connections[-1]

    def lose(*_):
        lost = f"SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{application}'"
        assert database.rows(lost) > [(0,)]

    options = {"engine": "sql", "callbacks": [lose], **SHAPE}
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=opened)
    listed = "SELECT tablename FROM pg_tables WHERE schemaname = 'of_fits'"
    for connection in (opened, engine):
        with pytest.raises(fb.DataError, match="terminating connection"):
            fb.fit(fb.table(connection, "lost", scratch="of_fits"), "y", **options)
        assert database.rows(listed) == []
    with pytest.raises(fb.DataError, match="terminating connection") as error:
        fb.fit(fb.table(opened(), "lost", scratch="of_fits"), "y", **options)
    [(left,)] = database.rows(listed)
    assert any("may be left" in note and left in note for note in error.value.__notes__)
    engine.dispose()
    for connection in connections:
        connection.close()
    database.run("DROP SCHEMA of_fits CASCADE")


_KILLED = """
import json, sqlite3, sys, psycopg, frameboost as fb
connection, scratch, path, options = sys.argv[1:]
table = fb.table(eval(connection), "killed", key="id", scratch=scratch or None)
fb.fit(table, "y", checkpoint=path, checkpoint_every=1, **json.loads(options))
"""


def rounds_in(checkpoint):
    """Return the number of rounds in a checkpoint whose last line may be cut."""
    lines = checkpoint.read_bytes().split(b"\n")[1:-1] if checkpoint.exists() else []
    return sum(len(json.loads(line)["rounds"]) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scratch"), [("postgres", ""), ("postgres", "of_killed"), ("sqlite", "main")],
    ids=["postgres@server", "postgres@server, a schema", "sqlite"],
)  # fmt: skip
def test_a_fit_whose_process_was_killed_goes_on_to_the_same_bytes(name, scratch, searches, tmp_path):
    database, path = open_warehouse(name), tmp_path / "killed.ckpt"
    if name == "sqlite":
        database.con, connection = sqlite3.connect(tmp_path / "db"), f"sqlite3.connect({str(tmp_path / 'db')!r})"
        listed = "SELECT name FROM sqlite_master WHERE name LIKE 'frameboost%'"
    else:
        database.run("DROP SCHEMA IF EXISTS of_killed CASCADE; CREATE SCHEMA of_killed")
        connection = f"psycopg.connect({database.server.get_uri()!r}, autocommit={bool(scratch)})"
        listed = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'frameboost%'"
    rows = in_types_of(stored(database, "killed", searches.rename({"grade": "y"})), fb.table(database.con, "killed"))
    if name == "sqlite":
        database.con.commit()
    options = {"engine": "sql", "objective": "rank:ndcg", "group": "search", "features": ["x0", "x1", "x2"], **SHAPE}
    options |= {"n_estimators": 500, "valid": "number < 9", "subsample": 0.9}
    for n_rounds in (3, 5) if scratch else (3,):
        arguments = [sys.executable, "-c", _KILLED, connection, scratch, str(path), json.dumps(options)]
        process = subprocess.Popen(arguments, cwd=ROOT)
        try:
            while rounds_in(path) < n_rounds:
                assert process.poll() is None, "the program ended by itself"
                time.sleep(0.01)
        finally:
            process.kill()
            process.wait()
    n_saved = rounds_in(path)
    assert 3 <= n_saved < 500
    # At least the states of both fits, of the rows to train on and to validate on.
    assert len(database.rows(listed)) >= (4 if scratch else 0)
    options |= {"n_estimators": n_saved + 2}
    table = fb.table(database.con, "killed", key="id", scratch=scratch or None)
    assert_same(fb.fit(table, "y", checkpoint=path, **options), rows, "y", **options | {"engine": "numba"})
    assert database.rows(listed) == []


class Killed(Recorded):
    """A connection over which nothing runs any more when so many tables were created."""

    def __init__(self, con, n_tables):
        super().__init__(con, self.stop)
        self.n_tables = n_tables

    def stop(self, statement):
        if sum(each.startswith("CREATE") for each in self.statements) > self.n_tables:
            raise ConnectionError("killed")


Killed.__module__ = "sqlite3"


@pytest.fixture
def in_file(sqlite, tmp_path):
    """Return a database with the same rows, whose tables other connections see, and the query of those of fits."""
    con = sqlite3.connect(tmp_path / "db")
    sqlite[0].backup(con)
    return con, sqlite[1], "SELECT name FROM main.sqlite_master WHERE name LIKE 'frameboost%' ORDER BY name"


@pytest.mark.slow
def test_a_fit_drops_the_tables_of_those_that_were_killed_before_it(in_file, tmp_path):
    con, rows, listed = in_file
    options = {"valid": "day < 3", "features": ["x", "value_0"], **SHAPE, "n_estimators": 12, "max_depth": 2}
    saved = {"engine": "sql", "checkpoint": tmp_path / "fit.ckpt", "checkpoint_every": 1, **options}
    left = []
    for _ in range(2):
        with pytest.raises(fb.DataError, match="killed"):
            fb.fit(fb.table(Killed(con, 8), "orders", scratch="main"), "score", **saved)
        left.append(set(con.execute(listed)) - set().union(*left))
        assert len({name.rpartition("_")[0] for (name,) in left[-1]}) == 2  # of the rows to train and to validate on
    assert 0 < rounds_in(saved["checkpoint"]) < 12
    # A fit that is refused drops nothing, as the other one may be running.
    for refused, of in (
        ({}, "SELECT id, x, value_0, `select`, `100%`, w, day, score + 1 AS score, late FROM orders"),
        ({"max_depth": 3}, "orders"),
    ):
        with pytest.raises((fb.DataError, fb.ParameterError), match="belongs to"):
            fb.fit(fb.table(con, of, scratch="main"), "score", **saved | refused)
        assert set(con.execute(listed)) == set().union(*left)
    # One with another checkpoint does not meet them.
    fb.fit(fb.table(con, "orders", scratch="main"), "score", **saved | {"checkpoint": tmp_path / "other.ckpt"})
    assert set(con.execute(listed)) == set().union(*left)
    assert_same(fb.fit(fb.table(con, "orders", scratch="main"), "score", **saved), rows, "score", **options)
    assert con.execute(listed).fetchall() == []


def test_of_two_fits_with_one_checkpoint_the_first_ends_with_an_error(in_file, tmp_path):
    con, rows, listed = in_file
    options = {"features": ["x", "value_0"], **SHAPE}
    saved = {"engine": "sql", "checkpoint": tmp_path / "fit.ckpt", "checkpoint_every": 1, **options}
    models = []

    def meet(n_rounds, _):
        if n_rounds == 1:
            models.append(fb.fit(fb.table(con, "orders", scratch="main"), "score", **saved))

    with pytest.raises(fb.DataError, match=r"no such table|was changed"):
        fb.fit(fb.table(con, "orders", scratch="main"), "score", callbacks=[meet], **saved)
    assert_same(models[0], rows, "score", **options)
    assert con.execute(listed).fetchall() == []


@pytest.mark.parametrize("name", databases("postgres"))
def test_missing_labels_and_weights_are_told(name):
    database = open_warehouse(name)
    database.run("DROP TABLE IF EXISTS lacking; CREATE TABLE lacking (x float8, y int8, w int8)")
    database.run(
        "INSERT INTO lacking SELECT i, NULLIF(i % 7, 3), NULLIF(i % 5, 4) + 1 FROM generate_series(1, 70) AS i"
    )
    table = fb.table(database.con, "lacking")
    assert table.to_frame(["w"]).collect()["w"].null_count() == 14
    with pytest.raises(fb.DataError, match="target 'y' is NULL or NaN in 10 of 70 rows"):
        fb.fit(table, "y", exclude="w")
    with pytest.raises(fb.DataError, match="weight 'w' is NULL or NaN in 14 of 70 rows"):
        fb.fit(table, "x", weight="w")


ODD = {
    "postgres": """CREATE TABLE odd AS SELECT i AS id, (i % 7 + i % 3)::float8 AS y,
        (ARRAY['sad','ok','happy']::mood[])[1 + i % 3] AS enum, (i % 9)::positive AS domain,
        ('c' || i % 3)::char(5) AS padded, (i % 7)::numeric AS any_size, (i % 7)::real AS single,
        timestamptz '2020-01-01 00:00:00+02' + (i % 7) * interval '1 hour' AS zoned,
        CASE i % 7 WHEN 0 THEN date 'infinity' ELSE date '2020-01-01' + i % 7 END AS endless
        FROM generate_series(0, 209) AS i""",
    "clickhouse": """CREATE TABLE odd ENGINE = Memory AS SELECT
        toInt64(number) AS id, toFloat64(number % 7 + number % 3) AS y,
        CAST(['sad', 'ok', 'happy'][1 + number % 3] AS Enum8('sad' = 1, 'ok' = 2, 'happy' = 3)) AS enum,
        toUInt8(number % 9) AS domain, toFixedString(concat('c', toString(number % 3)), 2) AS padded,
        toDecimal64(number % 7, 1) AS any_size, toFloat32(number % 7) AS single,
        toDateTime('2020-01-01 00:00:00', 'Africa/Cairo') + 3600 * (number % 7) AS zoned,
        toLowCardinality(toNullable(if(number % 7 = 0, NULL, concat('d', toString(number % 7))))) AS endless
        FROM numbers(210)""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", databases(*ODD))
def test_types_that_drivers_return_as_others(name):
    database = open_warehouse(name)
    database.run("DROP TABLE IF EXISTS odd")
    if name == "postgres":
        database.run("DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        database.run("DROP DOMAIN IF EXISTS positive; CREATE DOMAIN positive AS int CHECK (VALUE >= 0)")
    database.run(ODD[name])
    i = pl.int_range(210, eager=True)
    frame = pl.DataFrame({
        "enum": [["sad", "ok", "happy"][k % 3] for k in i], "domain": i % 9, "padded": [f"c{k % 3}" for k in i],
        "any_size": i % 7, "single": i % 7, "y": (i % 7 + i % 3).cast(pl.Float64),
        "zoned": [datetime(2019, 12, 31, 22, tzinfo=UTC) + timedelta(hours=k % 7) for k in i],
    })  # fmt: skip
    table = fb.table(connection_of(database), "odd")
    rows = in_types_of(frame, table)
    options = {**SHAPE, "max_depth": 3}
    for feature in rows.drop("y").columns:
        for engine in ("auto", "sql"):
            model = fb.fit(table, "y", features=[feature], engine=engine, **options)
            assert_same(model, rows, "y", features=[feature], **options)
            assert model.trees["feature"].drop_nulls().len() > 0
    # What no frame of polars holds: infinite dates; and values beside NULL.
    model = fb.fit(table, "y", features=["endless"], **options)
    assert model.trees["feature"].drop_nulls().len() > 0
    # The value of each leaf is the mean of few labels, which the database and the model agree on.
    scored = dict(database.rows(model.database(name).query("odd", keep=["id"])))
    of_rest = {k % 7: scored[k] for k in range(210)}
    assert all(scored[k] == of_rest[k % 7] for k in range(210))
    assert len(set(of_rest.values())) > 3


def test_a_connection_of_adbc_to_sqlite(sqlite, tmp_path):
    import adbc_driver_sqlite.dbapi

    con, rows = sqlite
    path = tmp_path / "orders.db"
    with contextlib.closing(sqlite3.connect(path)) as copy:
        con.backup(copy)
    with adbc_driver_sqlite.dbapi.connect(str(path)) as arrow:
        for engine in ("auto", "sql"):
            assert_same(fb.fit(fb.table(arrow, "orders"), "score", engine=engine, **OPTIONS), rows, "score", **OPTIONS)
