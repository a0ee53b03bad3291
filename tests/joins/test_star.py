"""A star gives what its joined table gives: rows, trees, predictions, folds."""

import re

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import frameboost as fb
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.stars import RandomStar, random_star, without_joins

SEEDS = st.integers(0, 10**6)
SMALL = {"n_estimators": 2, "max_depth": 3, "max_bin": 16}
FLIGHTS = pl.DataFrame({"plane": ["N1", "N2", "N1", None], "delay": [10.0, 0.0, 10.0, 2.0]})
PLANES = pl.DataFrame({"plane": ["N1", "N2"], "seats": [55, 200]})


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(4))
@given(SEEDS)
def test_the_join_is_that_of_dicts(seed):
    star = random_star(seed)
    expected = star.by_hand()
    assert_frame_equal(star.of_frames().collect(), expected)
    with duckdb.connect() as con:
        found = star.of_relations(con).collect()
    assert found.columns == expected.columns
    assert found.rows() == expected.rows()


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(5))
@given(SEEDS, st.sampled_from([0.3, "x > 0.5", '"d0.i" > 2', "last 20%"]))
def test_rows_are_held_out_as_of_the_joined_frame(seed, valid):
    star = random_star(seed)
    how = {"features": star.features(), "valid": valid, "time": "x" if valid == "last 20%" else None, **SMALL}
    try:
        expected = fb.fit(star.by_hand(), "y", **how)
    except fb.DataError as error:  # no row is held out, or a feature has no value in the others
        with pytest.raises(fb.DataError, match=re.escape(str(error))):
            star.of_frames().pipe(fb.fit, target="y", **how)
        return
    found = star.of_frames().pipe(fb.fit, target="y", **how)
    assert without_joins(found) == expected.to_json()
    assert_frame_equal(found.history, expected.history)


@pytest.mark.parametrize("way", [{"tree_method": "exact"}, {"tree_method": "approx"}, {"engine": "polars"}], ids=str)
def test_methods_and_engines_of_joined_rows(way):
    star = random_star(7)
    how = {"features": star.features(), **SMALL, **way}
    assert (
        without_joins(star.of_frames().pipe(fb.fit, target="y", **how)) == fb.fit(star.by_hand(), "y", **how).to_json()
    )


@pytest.mark.slow
def test_folds_are_those_of_the_joined_frame():
    star = random_star(3)
    how = {"features": star.features(), "folds": 2, **SMALL}
    found = fb.cv(star.of_frames(), "y", **how)
    assert_frame_equal(found, fb.cv(star.by_hand(), "y", **how))
    with duckdb.connect() as con:
        assert_frame_equal(fb.cv(star.of_relations(con), "y", **how), found)


def test_files_and_relations_are_read_beside_frames(tmp_path):
    PLANES.write_parquet(tmp_path / "planes.parquet")
    with duckdb.connect() as con:
        con.register("planes", PLANES)
        for planes in (tmp_path / "planes.parquet", con.table("planes")):
            star = fb.join(FLIGHTS, planes, on="plane")
            assert star.collect().rows() == [("N1", 10.0, 55), ("N2", 0.0, 200), ("N1", 10.0, 55), (None, 2.0, None)]
        assert repr(star) == "Star: 3 columns of the facts and of planes"


def test_a_star_of_relations_is_a_relation():
    with duckdb.connect() as con:
        con.register("flights", FLIGHTS)
        con.register("planes", PLANES)
        star = fb.join(con.table("flights"), con.table("planes"), on="plane")
        found = star.relation().order("delay").fetchall()
        assert found == [("N2", 0.0, 200), (None, 2.0, None), *[("N1", 10.0, 55)] * 2]
    with pytest.raises(fb.DataError, match=r"tables of the star are frames; its lazy\(\) and collect\(\)"):
        fb.join(FLIGHTS, PLANES, on="plane").relation()


@pytest.mark.parametrize(
    ("right", "how", "error", "message"),
    [
        (PLANES, {}, fb.ParameterError, "needs the columns of its key"),
        (PLANES, {"on": "plane", "left_on": "plane"}, fb.ParameterError, "pass on, the columns of the key in both"),
        (PLANES, {"left_on": ["plane", "delay"], "right_on": "plane"}, fb.ParameterError, "2 columns and right_on 1"),
        (PLANES, {"on": []}, fb.ParameterError, "on is an empty list; name at least one column"),
        (PLANES, {"on": ["plane", "plane"]}, fb.ParameterError, "names a column twice"),
        (PLANES, {"on": "plane", "prefix": 3}, fb.ParameterError, "prefix must be"),
        (PLANES, {"on": "plane", "name": 3}, fb.ParameterError, "name must be the name of a dimension, not 3"),
        (PLANES, {"left_on": "tail", "right_on": "plane"}, fb.DataError, "'tail' is not among the columns"),
        (PLANES, {"on": "delay"}, fb.DataError, "'delay' is not in planes, which has 'plane'"),
        (PLANES, {"left_on": "plane", "right_on": "seats"}, fb.DataError, "and 'seats' of planes has type Int64"),
        (PLANES.with_columns(delay=1), {"on": "plane"}, fb.DataError, "second 'delay' .* set prefix='planes.'"),
    ],
)  # fmt: skip
def test_refused_joins(right, how, error, message):
    with pytest.raises(error, match=message):
        fb.join(FLIGHTS, right, **{"name": "planes", **how})


def test_a_key_of_several_rows_is_refused_before_any_work():
    orders = pl.DataFrame({"plane": ["N1", "N1", "N2", None, None], "price": [1.0, 2.0, 3.0, 4.0, 5.0]})
    star = fb.join(FLIGHTS, orders, on="plane", name="orders")
    message = (
        r"orders has several rows for one key of .plane.: .N1. \(2 rows\); .*with fb\.aggregate\(orders, by=.plane."
    )
    with pytest.raises(fb.DataError, match=message):
        star.pipe(fb.fit, target="delay")
    with duckdb.connect() as con:
        con.register("flights", FLIGHTS)
        con.register("orders", orders)
        star = fb.join(con.table("flights"), con.table("orders"), on="plane")
        with pytest.raises(fb.DataError, match=message):
            star.relation()
    assert fb.join(FLIGHTS, orders.filter(price=3.0), on="plane").collect().height == 4


def test_a_frame_beside_relations_is_refused():
    with duckdb.connect() as con:
        con.register("flights", FLIGHTS)
        with pytest.raises(fb.DataError, match=r"dimension 1 is a frame; pass con\.from_arrow"):
            fb.join(con.table("flights"), PLANES, on="plane")


def test_keys_of_other_widths_are_equal():
    right = pl.DataFrame({"id": pl.Series([1, 2**40], dtype=pl.UInt64), "v": [1, 2]})
    left = pl.DataFrame({"id": pl.Series([1, -1], dtype=pl.Int8), "y": [0.0, 1.0]})
    assert fb.join(left, right, on="id").collect()["v"].to_list() == [1, None]


def test_a_key_may_be_of_several_tables():
    facts = pl.DataFrame({"id": [1, 2, 3], "day": [0, 1, 1], "y": [0.5, 1.5, 2.5]})
    shops = pl.DataFrame({"id": [1, 2], "town": ["Oslo", "Rome"]})
    unused = pl.DataFrame({"id": [3], "size": [7]})
    weather = pl.DataFrame({"town": ["Rome", "Oslo", "Rome"], "day": [1, 0, 0], "rain": [4.0, 0.0, 9.0]})
    with duckdb.connect() as con:
        given = [con.from_arrow(frame.to_arrow()) for frame in (facts, shops, unused, weather)]
        for left, *others in ((facts, shops, unused, weather), given):
            star = fb.join(left, others[0], on="id").join(others[1], on="id").join(others[2], on=["town", "day"])
            expected = [(1, 0, 0.5, "Oslo", None, 0.0), (2, 1, 1.5, "Rome", None, 4.0), (3, 1, 2.5, None, 7, None)]
            assert star.collect().rows() == expected
            with pytest.raises(fb.DataError, match="key 'size' has type"):
                star.join(others[0], left_on="size", right_on="town", prefix="other.")
            columns = "'id', 'day', 'y', 'town', 'size', 'rain'"
            with pytest.raises(fb.DataError, match=f"key column 'none' is not among the columns .*: {columns}"):
                star.join(others[0], left_on=["town", "none"], right_on=["town", "id"], prefix="other.")


def test_models_evaluate_and_explain_a_star():
    star = random_star(3)
    tables, joined = star.of_frames(), star.by_hand()
    model = tables.pipe(fb.fit, target="y", features=star.features(), **SMALL)
    assert_frame_equal(model.explain(tables), model.explain(joined))
    assert_frame_equal(model.evaluate(tables, "y").metrics, model.evaluate(joined, "y").metrics)
    assert_frame_equal(model.partial_dependence(tables, "x"), model.partial_dependence(joined, "x"))
    more = fb.fit(tables, "y", init_model=model, **SMALL)
    assert more.trees.equals(fb.fit(joined, "y", init_model=model, **SMALL).trees)
    assert more.ensemble.joins == model.ensemble.joins


def test_a_key_of_floats_says_what_pandas_does():
    facts = pl.DataFrame({"plane": [1, None, 2], "y": [0.0, 1.0, 2.0]}).to_pandas()
    planes = pl.DataFrame({"plane": [1, 2], "seats": [55, 200]}).to_pandas()
    with pytest.raises(fb.DataError, match=r"type Float64, and 'plane' of .* astype\('Int64'\) makes them integers"):
        fb.join(facts, planes, on="plane")
    star = fb.join(facts.astype({"plane": "Int64"}), planes, on="plane")
    assert star.collect()["seats"].to_list() == [55, None, 200]


def test_fourteen_dimensions_of_hostile_names():
    rng = np.random.default_rng(0)
    facts = pl.DataFrame({"id": range(300), "k": rng.integers(0, 9, 300), "y": rng.normal(size=300).round(2)})
    own = {f'dim "{i}" \'x': pl.DataFrame({"k": range(8), f"a\"{i}'": rng.normal(size=8)}) for i in range(14)}
    star, joined = facts, facts
    for name, frame in own.items():
        star = fb.join(star, frame, on="k", name=name)
        joined = joined.join(frame, on="k", how="left", maintain_order="left")
    features = [column for column in joined.columns if '"' in column]
    model = fb.fit(star, "y", features=features, colsample_bytree=0.3, **SMALL)
    assert without_joins(model) == fb.fit(joined, "y", features=features, colsample_bytree=0.3, **SMALL).to_json()
    tables = {name: f"t{i}" for i, name in enumerate(own)}
    with duckdb.connect() as con:
        con.register("facts", facts)
        for i, frame in enumerate(own.values()):
            con.register(f"t{i}", frame)
        for form in ("case", "by_key"):
            query = model.query("facts", keep=["id"], tables=tables, form=form)
            found = con.sql(f"SELECT prediction FROM ({query}) ORDER BY id").pl().to_series()
            assert found.to_list() == model.predict(joined).to_list()


@pytest.mark.slow
@cases("name", ["row", "ROW_", "n", "frameboost_row", "frameboost_left", "frameboost_key"])
def test_columns_may_have_the_names_that_a_join_uses_itself(name):
    facts = pl.DataFrame({name: [2, 0, 1, 2], "x": [1.5, 2.5, 3.5, 4.5]})
    for key, attribute in ((name, "alt"), ("x", name)):
        table = pl.DataFrame({key: facts[key].unique(), attribute: facts[key].unique().cast(pl.String)})
        rows = facts.drop(attribute, strict=False)
        with duckdb.connect() as con:
            con.register("rows", rows)
            con.register("own", table)
            joined = fb.join(con.table("rows"), con.table("own"), on=key).relation().pl()
            assert joined.equals(rows.join(table, key, "left", maintain_order="left"))
            con.register("doubled", pl.concat([table, table.head(1)]))
            with pytest.raises(fb.DataError, match=r"several rows for one key of .*: [0-9.]+ \(2 rows\); a join"):
                fb.join(con.table("rows"), con.table("doubled"), on=key).relation()


@pytest.mark.slow
@pytest.mark.parametrize("how", [  # beside those of the engines' own tests of stars
    {"linear_tree": True}, {"booster": "dart", "rate_drop": 0.3}, {"objective": "dist:normal"},
    {"target": "grade", "objective": "multi:softprob", "multi_strategy": "multi_output_tree"},
], ids=str)  # fmt: skip
def test_other_ways_to_train(how):
    star = random_star(5)
    facts = star.tables["facts"].with_columns(grade=pl.col("y").rank("dense").cast(pl.Int64) % 3)
    star = RandomStar({**star.tables, "facts": facts}, star.joins)
    how = {"features": [name for name in star.features() if name != "grade"], **SMALL, **how}
    target = how.pop("target", "y")
    expected = fb.fit(star.by_hand(), target, **how).to_json()
    assert without_joins(star.of_frames().pipe(fb.fit, target=target, **how)) == expected
    with duckdb.connect() as con:
        assert without_joins(star.of_relations(con).pipe(fb.fit, target=target, **how)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frame", "relation"])
def test_a_key_may_be_the_target(kind):
    """The dimension is joined by labels: v tells the class, which numbers of the classes would not find."""
    labels = ["1", "2", "1e3", "x'y"]
    facts = pl.DataFrame({"k": labels * 20, "w": [1.0] * 40 + [2.0] * 40})
    dimension = pl.DataFrame({"k": labels, "v": [10.0, 20.0, 30.0, 40.0]})
    options = {"n_estimators": 1, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0, "features": ["v"]}
    with duckdb.connect() as con:
        con.register("facts", facts.to_arrow())
        con.register("dimension", dimension.to_arrow())
        con.execute("CREATE TABLE f AS FROM facts; CREATE TABLE d AS FROM dimension")
        tables = (facts, dimension) if kind == "frame" else (con.table("f"), con.table("d"))
        star = fb.join(*tables, on="k", name="d")
        expected = fb.fit(facts.join(dimension, on="k"), "k", **options)
        plain = fb.fit(star, "k", **options)
        for model in (
            plain, fb.fit(star, "k", weight="w", folds=2, **options),
            fb.fit(star, "k", valid=f"w > 1 AND k = '{labels[0]}'", **options),
        ):  # fmt: skip
            assert model.predict(star, output="class").to_list() == facts["k"].to_list()
            assert [(key.left, key.right) for key in model.ensemble.joins[0].keys] == [("k", "k")]
        assert plain.ensemble.trees == expected.ensemble.trees
        assert dict(model.evaluate(star, "k").metrics.rows())["merror"] == 0
        query = model.query("f", keep=["k"], output="class")
        assert con.sql(f"SELECT COUNT(*) FROM ({query}) WHERE prediction <> k").fetchall() == [(0,)]
        assert fb.cv(star, "k", folds=2, **options).height == 1


@pytest.mark.slow
def test_queries_join_the_tables_that_relations_are():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE f AS SELECT range AS id, range % 3 AS y FROM range(60)")
        con.execute("ATTACH ':memory:' AS other; CREATE SCHEMA other.s")
        con.execute('CREATE TABLE other.s."o.rd" AS SELECT range AS id, range % 3 AS v FROM range(60)')
        con.execute('CREATE TABLE ord AS FROM other.s."o.rd"; CREATE VIEW seen AS FROM ord')
        con.execute("CREATE TEMP TABLE mine AS FROM ord")
        for number, table in enumerate((
            con.table('other.s."o.rd"'), con.view("seen"), con.table("mine"), con.table("main.ord"),
            con.sql("FROM ord"), con.sql('SELECT id, v FROM other.s."o.rd"'),
        )):  # fmt: skip
            right = table if number % 2 else fb.aggregate(table, "id", {"v": "max"})
            model = fb.fit(fb.join(con.table("f"), right, on="id", prefix="d_"), "y", n_estimators=1, max_depth=1)
            assert con.sql(model.query("f")).count("*").fetchall() == [(60,)]
        rows = con.table("ord").filter("v > 0")
        for right in (rows, fb.aggregate(rows, "id", {"v": "max"}), con.sql("SELECT id, v + 1 AS v FROM ord")):
            star = fb.join(con.table("f"), right, on="id", prefix="d_")
            model = fb.fit(star, "y", n_estimators=1, max_depth=1)
            with pytest.raises(fb.ParameterError, match=r"^dimension 1 of the model is not a table"):
                model.query("f")
            assert con.sql(model.query("f", tables={"dimension 1": "ord"})).count("*").fetchall() == [(60,)]
        assert model.evaluate(star, "y").metrics["value"][0] >= 0
        named = fb.join(con.table("f"), con.table("ord").filter("v > 0").set_alias("late"), on="id")
        assert "late" in fb.fit(named, "y", n_estimators=1).query("f")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("train", "is_relation", "target"),
    [
        (train, is_relation, ("kind", "size")[(i + is_relation) % 2])
        for i, train in enumerate((
            lambda star, target, **how: fb.fit(star, target, folds=2, **how),
            lambda star, target, **how: fb.fit(star, target, folds="part", **how),
            lambda star, target, **how: fb.auto(star, target, quality=1, **how),
            lambda star, target, **how: fb.auto(star, target, quality=1, time="when", **how),
        ))
        for is_relation in ((False, True) if i % 2 else (False,))
    ],
)  # fmt: skip
def test_labels_and_folds_may_be_attributes(train, is_relation, target):
    """The folds are then made of joined rows, and the model has the joins of the star all the same."""
    facts = pl.DataFrame({"id": [i * 7 % 20 for i in range(200)], "x": [i * 31 % 97 for i in range(200)]})
    things = pl.DataFrame({
        "id": range(20), "kind": ["low", "high"] * 10, "size": [i % 7 for i in range(20)],
        "part": [i % 2 for i in range(20)], "when": range(20),
    })  # fmt: skip
    with duckdb.connect() as con:
        for name, frame in (("facts", facts), ("things", things)):
            con.register(f"{name}_here", frame.to_arrow())
            con.execute(f"CREATE TABLE {name} AS FROM {name}_here")
        tables = (con.table("facts"), con.table("things")) if is_relation else (facts, things)
        star = fb.join(*tables, on="id", name="things")
        other, objective = {"kind": ("size", "binary:logistic"), "size": ("kind", "reg:squarederror")}[target]
        how = {"features": ["x", other], "objective": objective, "n_estimators": 2, "verbose": False}
        model = train(star, target, **how)
        assert model.ensemble.joins == fb.fit(star, target, **how | {"n_estimators": 1}).ensemble.joins
        query = model.query("facts", keep=["x"], tables={"things": "things"})
        assert [row[-1] for row in con.sql(query).fetchall()] == model.predict(star).to_list()
