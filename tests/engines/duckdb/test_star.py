"""The DuckDB engine over a star: the model of the joined table, and which tables it makes for that."""

from contextlib import contextmanager

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.binning import bins as binning
from frameboost.engines.duckdb import binning as duckdb_binning
from frameboost.engines.duckdb import engine, opening
from frameboost.engines.duckdb import memory as duckdb_memory
from frameboost.engines.duckdb.star import keys as star_keys
from frameboost.engines.duckdb.star import tables
from frameboost.joins.star_sources import joined_relation
from tests.support.cases import cases, some_pairs
from tests.support.examples import examples
from tests.support.stars import random_star, without_joins

SEEDS = st.integers(0, 10**6)
SMALL = {"n_estimators": 2, "max_depth": 3, "max_bin": 16}
# where nodes are, and how attributes are summed: by key, by the codes of keys in their order, by codes of the facts
WAYS = {
    "in memory": {"_MIN_ROWS_PER_SUM": 0.0, "_MERGED": 1.0},
    "in memory, margins not": {"_BYTES_PER_NUMBER": 1 << 60, "_MERGED": 0.0, "MAX_CACHED_KEYS": 0, "MIN_SORTED": 1},
    "keys": {"_SHARE": 0.0, "_MIN_ROWS_PER_SUM": 0.0, "_MANY_FACTS": 1e-9, "_MERGED": 1.0},
    "codes of keys": {"_SHARE": 0.0, "_MERGED": 0.0, "MAX_CACHED_KEYS": 0, "MIN_SORTED": 1},
    "codes": {"_SHARE": 0.0, "_MIN_ATTRIBUTES": 10**9},
}


@pytest.fixture(autouse=True)
def stars_without_join(monkeypatch):
    """Have every dimension keep a table of its own, however few facts there are; count such stars."""
    monkeypatch.setattr(tables, "_MIN_FACTS", 0)
    opened = []
    original = opening._over_star
    monkeypatch.setattr(opening, "_over_star", lambda *args: opened.append(args) or original(*args))
    return opened


@contextmanager
def summed(way):
    """Have attributes be summed in one of the `WAYS`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            for module in (engine, duckdb_memory, star_keys):
                if hasattr(module, name):
                    patch.setattr(module, name, value)
        yield


def fits(star, **how):
    """Return the models of the star in DuckDB, and of its join by hand in memory."""
    how = {**SMALL, **how}
    with duckdb.connect() as con:
        found = star.of_relations(con).pipe(fb.fit, target="y", **how)
        tables = {name for (name,) in con.sql("SHOW TABLES").fetchall()}
    assert tables == set(star.tables), "nothing is left in the database"
    return found, fb.fit(star.by_hand(), "y", engine="numba", **how)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(1), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SEEDS)
@pytest.mark.parametrize("way", WAYS)
def test_trees_are_those_of_the_joined_frame(stars_without_join, way, seed):
    star = random_star(seed)
    features = star.features()
    assume(any("." in name for name in features))
    opened = len(stars_without_join)
    with summed(way):
        found, expected = fits(star, features=features)
    assert without_joins(found) == expected.to_json()
    assert len(stars_without_join) > opened


# Each setting is run in some of the `WAYS`; several that do not depend on each other share a fit.
SETTINGS = [
    {"valid": 0.3, "eval_metric": "mae", "subsample": 0.6, "monotone_constraints": {"x": 1}, "colsample_bytree": 0.5},
    {"valid": "x > 0.5", "grow_policy": "lossguide", "max_leaves": 6, "weight": "w", "min_child_samples": 9},
    {"valid": '"d0.i" > 2', "objective": "reg:absoluteerror", "interaction_constraints": [["x", "c", "d0.f"]]},
    {"grow_policy": "symmetric", "num_parallel_tree": 2, "subsample": 0.7},
    {"sampling_method": "gradient_based", "subsample": 0.5, "max_bin": 4, "min_child_samples": 9},
    {"tree_method": "approx"},
]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "number"), [(way, i) for i, way in enumerate([*WAYS, "in memory"])])
def test_every_setting(way, number):
    star = random_star(28)
    facts = star.tables["facts"]
    weights = pl.Series(np.random.default_rng(0).integers(1, 4, len(facts)).astype(float))
    star = type(star)({**star.tables, "facts": facts.with_columns(w=weights)}, star.joins)
    features = [name for name in star.features() if name != "w"]
    with summed(way):
        found, expected = fits(star, features=features, **SETTINGS[number])
    assert without_joins(found) == expected.to_json()
    assert_frame_equal(found.history, expected.history)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["in memory", "codes of keys"])
def test_many_rows_are_sampled_for_cuts_and_sorted(way, monkeypatch):
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 150)
    monkeypatch.setattr(duckdb_binning, "MIN_ROWS", 0)
    monkeypatch.setattr(engine, "MIN_SORTED", 1)
    star = random_star(8, n_rows=900)
    with summed(way):
        found, expected = fits(star, features=star.features(), max_bin=8)
    assert without_joins(found) == expected.to_json()


@pytest.mark.slow
def test_classes_and_queries():
    star = random_star(13)
    facts = star.tables["facts"].with_columns(y=pl.col("y").round(0).clip(0, 3), group=pl.int_range(pl.len()) // 7)
    star = type(star)({**star.tables, "facts": facts}, star.joins)
    features = [name for name in star.features() if name != "group"]
    found, expected = fits(star, features=features, objective="rank:ndcg", group="group")
    assert without_joins(found) == expected.to_json()
    labels = facts.with_columns(pl.format("class {}", pl.col("y").cast(pl.Int64)).alias("y"))
    star = type(star)({**star.tables, "facts": labels}, star.joins)
    found, expected = fits(star, features=features)
    assert without_joins(found) == expected.to_json()


@pytest.mark.slow
def test_dimensions_as_large_as_the_facts_are_joined(monkeypatch, stars_without_join):
    monkeypatch.setattr(tables, "_MIN_FACTS", 2)
    facts = pl.DataFrame({"id": np.arange(100) % 60, "part": np.arange(100) % 10, "y": np.arange(100.0) ** 2})
    orders = pl.DataFrame({"id": np.arange(60), "day": np.arange(60) % 7, "kind_id": np.arange(60) % 5})
    kinds = pl.DataFrame({"kind_id": np.arange(5), "size": [3.0, None, 1.0, 4.0, 2.0]})
    with duckdb.connect() as con:
        for name, frame in (("facts", facts), ("orders", orders), ("kinds", kinds)):
            con.register("given", frame)
            con.execute(f"CREATE TABLE {name} AS FROM given")
        star = fb.join(con.table("facts"), con.table("orders"), on="id")
        joined = fb.fit(star, "y", **SMALL)
        assert not stars_without_join
        star = star.join(con.table("kinds"), on="kind_id")
        found = fb.fit(star, "y", **SMALL)
        assert [[each.dimension.name for each in plan.branches] for _, plan in stars_without_join] == [["kinds"]]
        assert stars_without_join[0][1].facts.columns == [*facts.columns, "day", "kind_id"]
        frame = star.collect()
    assert without_joins(joined) == fb.fit(frame.drop("size"), "y", **SMALL).to_json()
    assert without_joins(found) == fb.fit(frame, "y", **SMALL).to_json()


@pytest.mark.slow
def test_the_target_may_be_in_a_dimension():
    facts = pl.DataFrame({"k": np.arange(100) % 20, "x": np.arange(100) % 7})
    target = pl.DataFrame({"k": np.arange(20), "v": np.arange(20) % 3, "amount": np.arange(20.0)})
    with duckdb.connect() as con:
        con.register("facts", facts)
        con.register("d", target)
        star = fb.join(con.table("facts"), con.table("d"), on="k", prefix="t.")
        found = fb.fit(star, "t.amount", features=["x", "t.v"], **SMALL)
        expected = fb.fit(star.collect(), "t.amount", features=["x", "t.v"], **SMALL)
    assert without_joins(found) == expected.to_json()


@pytest.mark.slow
def test_the_join_is_not_run(monkeypatch):
    """The joined relation is bound, as its types are asked for, and never read."""
    star = random_star(4)
    features = star.features()
    expected = fb.fit(star.by_hand(), "y", features=features, **SMALL)
    with duckdb.connect() as con:
        tables = star.of_relations(con)
        source = tables.open_tables()
        broken = joined_relation(source.facts, source.dimensions).filter("error('the join is run')")
        monkeypatch.setattr("frameboost.joins.star_sources.joined_relation", lambda *_: broken)
        found = fb.fit(tables, "y", features=features, **SMALL)
    assert without_joins(found) == expected.to_json()


def test_an_error_leaves_nothing():
    facts = pl.DataFrame({"k": [1, 2, 1, 2], "s": ["1", "2", "x", "1"], "y": [1.0, 2.0, 3.0, 4.0]})
    with duckdb.connect() as con:
        con.register("facts", facts)
        con.execute("CREATE TABLE d AS SELECT unnest([1, 2]) AS k, unnest([5, 6]) AS v")
        rows = con.sql("SELECT k, y, CAST(s AS INTEGER) AS v FROM facts")
        broken = con.sql("SELECT k, CASE k WHEN 2 THEN CAST(error('broken ' || v) AS INTEGER) ELSE v END AS v FROM d")
        star = fb.join(rows, broken, on="k", prefix="d.")
        with pytest.raises(duckdb.Error, match=r"broken 6|convert string .x."):  # facts of a frame are read first
            fb.fit(star, "y")
        assert con.sql("SELECT table_name FROM duckdb_tables()").fetchall() == [("d",)]


@pytest.mark.slow
def test_names_and_types_of_keys_are_data():
    rng = np.random.default_rng(5)
    facts = pl.DataFrame({
        'a "key"': rng.integers(0, 9, 200), "day; --": rng.choice(["x'y", "{z}"], 200), "row_id": rng.normal(size=200),
        "rowid": rng.normal(size=200),
        "value_0": rng.normal(size=200), "key": rng.integers(0, 3, 200), "y": rng.normal(size=200),
    })  # fmt: skip
    dimension = pl.DataFrame({
        "k": pl.Series([0, 1, 2, 3, 4, 5, 6, 7], dtype=pl.UInt8), "day": ["x'y", "{z}"] * 4,
        "bin_0": [0.5, None, 1.5, float("nan"), -0.0, 0.0, 2.5, 3.5], "branch_0": list("abcdabcd"),
    })  # fmt: skip
    with duckdb.connect() as con:
        for name, frame in (("facts", facts), ("d", dimension)):
            con.register(name, frame)
        star = fb.join(con.table("facts"), con.table("d"), left_on=['a "key"', "day; --"], right_on=["k", "day"])
        found = fb.fit(star, "y", subsample=0.7, **SMALL)
        joined = star.collect()
    assert without_joins(found) == fb.fit(joined, "y", subsample=0.7, **SMALL).to_json()


FACTS = """
    CREATE TABLE facts AS SELECT i % 7 AS k, 'K' || (i % 5) AS s,
    CASE i % 9 WHEN 0 THEN CAST('nan' AS DOUBLE) ELSE i % 6 END AS f,
    hash(i) % 1000 / 100.0 AS x, hash(i, 1) % 100 / 10.0 + i % 7 AS y FROM range(800) AS r(i)
"""
# by name: the column of the key, and the dimension that is made beside the facts
DIMENSIONS = {
    "enums": (
        "s", "CREATE TYPE e AS ENUM ('K2', 'K0', 'K1'); CREATE TABLE d AS SELECT CAST('K' || i AS e) AS s, i AS a, "
        "CAST((['K1', 'K2'])[1 + i % 2] AS e) AS b FROM range(3) AS r(i)",
    ),
    "a collation": (
        "s", "CREATE TABLE d (s VARCHAR COLLATE NOCASE, a INTEGER, b VARCHAR COLLATE NOCASE); "
        "INSERT INTO d VALUES ('k0', 1, 'A'), ('k1', 2, 'a'), ('K2', 3, 'b'), ('k4', 5, 'B')",
    ),
    "NaN": (
        "f", "CREATE TABLE d AS SELECT CASE i WHEN 4 THEN CAST('nan' AS DOUBLE) ELSE i END AS f, "
        "i AS a, i * i AS b FROM range(5) AS r(i)",
    ),
    "types": (
        "k", "CREATE TABLE d AS SELECT i AS k, DATE '2020-01-01' + CAST(i AS INTEGER) AS a, i * INTERVAL 1 DAY AS c, "
        "TIMESTAMP '2020-01-01' + i * INTERVAL 1 HOUR AS b, CAST(i / 4 AS DECIMAL(9, 2)) AS e, "
        "i % 2 = 0 AS g, CAST(i AS HUGEINT) * 10 ** 18 AS h, CAST(i / 3 AS FLOAT) AS m FROM range(6) AS r(i)",
    ),
    "a view": ("k", "CREATE VIEW d AS SELECT i AS k, i * 3 AS a, 'z' || (i % 3) AS b FROM range(6) AS r(i)"),
}  # fmt: skip


@pytest.mark.slow
@cases("name, ordered", some_pairs(DIMENSIONS, [True, False]))
def test_keys_and_attributes_are_compared_as_in_the_join(name, ordered, monkeypatch, stars_without_join):
    key, statement = DIMENSIONS[name]
    models = []
    for fewest in (0, 10**9):  # without the join, and with it
        monkeypatch.setattr(tables, "_MIN_FACTS", fewest)
        with duckdb.connect() as con:
            con.execute(f"{FACTS}; {statement}; SET preserve_insertion_order = {ordered}; SET threads = 3")
            star = fb.join(con.table("facts"), con.table("d"), on=key)
            models.append(fb.fit(star, "y", subsample=0.7, **SMALL))
    assert len(stars_without_join) == 1
    stars_without_join.clear()
    assert models[0] == models[1]
