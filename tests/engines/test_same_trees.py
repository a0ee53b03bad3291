"""The engine, the kind of table and the order of the rows never change the model."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.binning import bins as binning
from frameboost.engines import query_costs
from frameboost.engines.duckdb import engine as sql
from frameboost.engines.duckdb import memory as duckdb_memory
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.memory import engine as numba
from frameboost.engines.memory.engine import MemoryEngine
from tests.support.cases import cases, some_pairs
from tests.support.engines import ENGINES, IN_DUCKDB, as_relation, assert_same, shuffled
from tests.support.frames import FEATURES_BY_TYPE, LABELS, every_type

pytestmark = pytest.mark.usefixtures("all_cores")

# Two trees: the gradients of the second are the first that depend on a tree.
SHAPE = {"n_estimators": 2, "max_depth": 3, "learning_rate": 0.5, "verbose": False}


@pytest.mark.slow
def test_group_bys_and_kernels_give_one_model(monkeypatch):
    """Rows are added up by a kernel where an engine has few threads, and by group-bys where it has many."""
    frame = every_type(300, seed=4).with_columns(wide=pl.int_range(300).cast(pl.String))
    options = {"features": [*[*FEATURES_BY_TYPE][:12], "wide"], "weight": "w", **SHAPE, "max_depth": 7, "max_bin": 300}
    options |= {"min_child_weight": 0, "max_cat_to_onehot": 400, "n_estimators": 1}
    models = []
    monkeypatch.setattr(duckdb_memory, "_SHARE", 0)  # no codes in memory
    for most_threads in (0, 1000):
        monkeypatch.setattr(query_costs, "_MAX_THREADS", most_threads)
        models += [fb.fit(frame.lazy(), "amount", engine=engine, **options) for engine in ("polars", "duckdb")]
    assert_same("reg:squarederror", fb.fit(frame, "amount", engine="numba", **options), *models)


def test_more_columns_than_are_read_at_once_give_one_model(monkeypatch):
    monkeypatch.setattr(sql, "_MAX_READ", 3)
    monkeypatch.setattr(duckdb_memory, "_SHARE", 0)
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(300, 8)).round(2), schema=[f"x{i}" for i in range(8)])
    frame = frame.with_columns(y=(pl.sum_horizontal("x0", "x3", "x7") * 4).round())
    of_duckdb, expected = (fb.fit(frame, "y", engine=engine, **SHAPE) for engine in ("duckdb", "numba"))
    assert_same("reg:squarederror", expected, of_duckdb)
    assert {"x0", "x3", "x7"} <= set(expected.trees["feature"])


@pytest.mark.slow
@pytest.mark.parametrize("objective", LABELS)
def test_all_column_types_give_one_model(objective):
    frame, target = every_type(400, seed=1), LABELS[objective]
    deep = {"n_estimators": 3, "max_depth": 7, "min_child_weight": 0}
    options = SHAPE | {"objective": objective, "features": list(FEATURES_BY_TYPE), "weight": "w", **deep}
    data = [*((frame, engine) for engine in ENGINES), (shuffled(frame, 2).lazy(), "polars"), (shuffled(frame), "numba")]
    data.append((shuffled(frame).lazy(), "duckdb"))
    first, *others = (fb.fit(rows, target, engine=engine, **options) for rows, engine in data)
    assert set(first.trees["feature"].drop_nulls()) == set(FEATURES_BY_TYPE), "each must be split on"
    assert_same(objective, first, *others)


@pytest.mark.slow
def test_values_of_all_types_are_categories():
    frame = every_type(400, seed=1)
    options = SHAPE | {"max_depth": 6, "min_child_weight": 0, "cat_smooth": 0.0, "features": IN_DUCKDB}
    options |= {"categorical_features": IN_DUCKDB}
    table = as_relation(frame)
    data = [*((frame, engine) for engine in ENGINES), *((table, engine) for engine in ENGINES)]
    first, *others = (fb.fit(rows, "amount", engine=engine, **options) for rows, engine in data)
    assert first.trees["categories"].count() > 20
    assert_same("reg:squarederror", first, *others)
    approx = {"tree_method": "approx", "engine": "duckdb"}
    assert fb.fit(table, "amount", **options | approx).trees["categories"].equals(first.trees["categories"])
    scored = table.project(f"{first.database('duckdb').sql()} AS p").pl()["p"]
    assert scored.to_list() == first.predict(frame).to_list()


@pytest.mark.slow
def test_a_relation_gives_the_frames_model():
    frame = every_type(400, seed=6)
    options = {"features": IN_DUCKDB, **SHAPE}
    table = as_relation(frame)
    data = [(table, "duckdb"), (table.order("amount DESC"), "duckdb"), (table, "numba"), (table, "polars")]
    models = [fb.fit(rows, "amount", engine=engine, **options) for rows, engine in data]
    assert_same("reg:squarederror", fb.fit(frame, "amount", **options), *models)


@pytest.mark.slow
def test_types_that_only_duckdb_has_give_one_model():
    con = duckdb.connect()
    con.execute("CREATE TYPE size AS ENUM ('small', 'large', 'it''s', '')")  # in an order that is not the alphabet's
    con.execute("""
        CREATE TABLE t AS SELECT
            CASE WHEN i % 11 > 0 THEN enum_range(NULL::size)[1 + i * i % 4]::size END AS enum,
            CASE WHEN i % 7 > 0 THEN (i * 37 % 100)::UHUGEINT * 1000000000000000000000000000000::UHUGEINT END AS wide,
            make_timestamp(i * 61 % 90 * 1000000)::TIMESTAMP_S AS seconds,
            to_microseconds(i * 17 % 50) AS span,
            (i * 29 % 80)::DECIMAL(38, 10) / 7 AS decimal,
            TIMESTAMPTZ '2013-03-31 00:30:00+00:00' + to_minutes(i * 13 % 60) AS zoned,
            (i * 37 % 100 > 40)::INT + 3.0 * (i * i % 4) + (i * 61 % 90 > 50)::INT * 2 + i * 17 % 50 / 30
                + sin(i * 29 % 80) + 0.3 * (i * 13 % 60 > 20)::INT AS amount
        FROM range(400) AS r(i)
    """)
    features = ["enum", "wide", "seconds", "span", "decimal", "zoned"]
    options = {"features": features, **SHAPE, "max_depth": 5, "min_child_weight": 0}
    models = [fb.fit(con.table("t"), "amount", engine=engine, **options) for engine in ENGINES]
    assert set(models[0].trees["feature"].drop_nulls()) == set(features)
    assert_same("reg:squarederror", *models)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(pl.Int128, -(2**127), 2**127 - 1), (pl.UInt128, 0, 2**128 - 1)],
    ids=["signed", "unsigned"],
)
def test_the_widest_integers_give_one_model(dtype, low, high):
    values = [low, low + 1, 10**20, 10**38 - 1, high - 1, high] * 4
    frame = pl.DataFrame({"x": pl.Series(values, dtype=dtype), "y": [0.0, 7.0, 1.0, 9.0, 2.0, 5.0] * 4})
    options = {"n_estimators": 3, "max_depth": 5, "reg_lambda": 0, "learning_rate": 1}
    models = [fb.fit(frame, "y", engine=e, **options) for e in ENGINES]
    assert_same("reg:squarederror", *models, fb.fit(as_relation(frame), "y", **options))
    np.testing.assert_allclose(models[0].predict(frame), frame["y"], atol=1e-9)  # all six are told apart


def test_half_floats_are_floats():
    frame = pl.DataFrame({"x": pl.Series([0.5, 1.5, None, 2.0] * 5, dtype=pl.Float16), "y": [0.0, 1.0, 5.0, 3.0] * 5})
    models = [fb.fit(frame, "y", engine=e, **SHAPE) for e in ENGINES]
    assert_same("reg:squarederror", *models, fb.fit(frame.cast({"x": pl.Float32}), "y", **SHAPE))
    assert models[0].trees["threshold"].count() > 0
    assert models[0].predict(frame).equals(frame.select(models[0].expr()).to_series())


@pytest.mark.slow
@cases(
    ("objective", "parameters"),
    some_pairs(LABELS, [
        {"max_bin": 2},
        {"max_bin": 300},
        {"gamma": 3.0, "reg_lambda": 0.0},
        {"reg_alpha": 4.0, "min_child_weight": 20.0},
        {"max_delta_step": 0.3, "max_depth": 6, "min_child_samples": 9},
        {"grow_policy": "lossguide", "max_leaves": 6, "max_depth": 0},
        {"grow_policy": "symmetric", "min_child_samples": 40, "subsample": 0.7},
        {"grow_policy": "depthwise", "max_leaves": 6},
        {"base_score": 0.25},
        {"tree_method": "approx", "max_bin": 6, "colsample_bynode": 0.5, "max_leaves": 5, "gamma": 3.0,
         "min_child_samples": 30},
        {"tree_method": "approx", "proposal": "local", "max_bin": 6, "num_parallel_tree": 2, "reg_alpha": 3.0},
        {"tree_method": "approx", "proposal": "local", "max_bin": 6, "grow_policy": "lossguide", "max_leaves": 6,
         "monotone_constraints": {"float64": 1}},
        {"features": ["float64", "string"], "cuts": {"float64": [-3, 0.5, 1e9]}},
        {"monotone_constraints": {"float64": 1, "datetime_us": -1}, "max_depth": 5,
         "interaction_constraints": [["float64", "int16", "string"], ["decimal", "datetime_us"]]},
    ]),
)  # fmt: skip
def test_parameters_mean_the_same_in_all_engines(objective, parameters):
    frame = every_type(500, seed=3, missing=0.05)
    options = SHAPE | {"features": ["float64", "int16", "string", "datetime_us", "decimal"]} | parameters
    models = [fb.fit(frame, LABELS[objective], objective=objective, engine=e, weight="w", **options) for e in ENGINES]
    assert models[0].trees.height > 4, "something must have been split"
    assert_same(objective, *models)


@pytest.mark.slow
@pytest.mark.parametrize(("max_bin", "least"), [(16, 8), (1000, 200)])
def test_more_values_than_bins_give_one_model(max_bin, least):
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    frame = pl.DataFrame({"x": x, "gaps": pl.Series(x).sample(fraction=1, seed=1, shuffle=True), "y": np.sin(9 * x)})
    frame = frame.with_columns(gaps=pl.when(pl.col("gaps") > -1).then("gaps"))
    options = SHAPE | {"max_bin": max_bin, "max_depth": 12, "min_child_weight": 0, "n_estimators": 2}
    models = [
        fb.fit(rows, "y", engine=e, **options) for rows, e in zip((frame, shuffled(frame), frame), ENGINES, strict=True)
    ]
    used = set(models[0].trees.filter(pl.col("feature") == "x")["threshold"])
    assert least < len(used) < max_bin
    assert (np.diff(np.searchsorted(np.sort(x), sorted(used))) > 0).all()  # each between two values of its own
    assert_same("reg:squarederror", *models)


def test_the_order_of_rows_does_not_matter_to_exact_trees():
    frame, options = every_type(400, seed=4), {"features": list(FEATURES_BY_TYPE), "tree_method": "exact", **SHAPE}
    assert_same("reg:squarederror", *(fb.fit(rows, "amount", **options) for rows in (frame, shuffled(frame))))


@pytest.mark.slow
def test_labels_of_very_different_size_add_up_the_same():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({
        "x": rng.normal(size=600),
        "y": rng.normal(size=600) * 10.0 ** rng.integers(-300, 12, size=600),
        "w": 10.0 ** rng.integers(-20, 20, size=600),
    })  # fmt: skip
    options = {"weight": "w", "min_child_weight": 0, **SHAPE}
    models = [fb.fit(data, "y", engine=e, **options) for e in ENGINES for data in (frame, shuffled(frame))]
    models.append(fb.fit(shuffled(frame, 2), "y", engine="polars", **options))
    assert models[0].trees.height > 4
    assert_same("reg:squarederror", *models)


def test_cuts_from_a_sample_are_the_same_in_all_engines(monkeypatch):
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 1000)
    rng = np.random.default_rng(1)
    x = rng.normal(size=5000)
    frame = pl.DataFrame({"x": x, "z": x.round(1), "y": np.sin(3 * x)})
    frame = frame.with_columns(z=pl.when(pl.col("x") > -1).then("z"))
    options = SHAPE | {"max_bin": 16}
    sampled = [fb.fit(frame, "y", engine=e, **options) for e in ENGINES]
    sampled.append(fb.fit(as_relation(frame), "y", **options))
    assert_same("reg:squarederror", *sampled)
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 5000)
    assert fb.fit(frame, "y", **options) != sampled[0], "the sample must have been looked at"


IN_ANY_ORDER = {
    "sampled by gradient": {"subsample": 0.4, "sampling_method": "gradient_based"},
    "leaves as quantiles": {"objective": "reg:quantileerror", "quantile_alpha": 0.7, "weight": "w"},
    "classes": {"objective": "multi:softprob", "num_class": 3, "target": "small"},
    "dropouts": {"booster": "dart", "rate_drop": 0.5, "base_margin": "w"},
    "evaluated": {"eval_metric": ["rmse", "mae"], "valid": "w > 0.7", "early_stopping_rounds": 20},
    "forests": {"num_parallel_tree": 2, "subsample": 0.5, "colsample_bynode": 0.7},
    "leaf by leaf": {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0, "min_child_weight": 0},
    "running sums": {"objective": "survival:cox", "target": "w"},
}


@pytest.fixture
def sorted_rows(monkeypatch):
    """Return a list with an item for each time that an engine has sorted its rows."""
    found = []
    for engine, name in ((MemoryEngine, "sort_rows"), (DuckDBEngine, "_sort_rows")):
        sort = getattr(engine, name)
        monkeypatch.setattr(engine, name, lambda self, sort=sort: found.append(sort(self)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("more", IN_ANY_ORDER.values(), ids=IN_ANY_ORDER)
@pytest.mark.parametrize("engine", ["numba", "duckdb"])
def test_sorting_rows_by_leaf_changes_nothing(monkeypatch, sorted_rows, engine, more):
    frame = every_type(300, seed=8).with_columns(small=pl.int_range(300) % 3)
    options = SHAPE | {"target": "amount", "engine": engine, "features": ["float64", "int128", "date", "string"]} | more
    options["n_estimators"] = 3
    as_given = fb.fit(frame, **options)
    assert not sorted_rows
    monkeypatch.setattr(duckdb_memory, "_BYTES_PER_NUMBER", 1 << 60)  # margins, g and h are in tables
    assert fb.fit(frame, **options).to_json() == as_given.to_json()
    monkeypatch.setattr(numba, "MIN_SORTED", 1)
    monkeypatch.setattr(sql, "MIN_SORTED", 1)
    monkeypatch.setattr(duckdb_memory, "_SHARE", 0)  # where nodes are in memory, rows are not sorted
    by_leaf = fb.fit(frame, **options)
    # In a database rows that are drawn are known by their position.
    assert len(sorted_rows) == (engine == "numba" or options.get("subsample", 1) == 1)
    assert by_leaf.to_json() == as_given.to_json()
    assert by_leaf.history.equals(as_given.history)


@pytest.mark.parametrize("engine", ["numba", "duckdb"])
def test_rows_of_queries_are_not_sorted(monkeypatch, sorted_rows, engine):
    monkeypatch.setattr(numba, "MIN_SORTED", 1)
    monkeypatch.setattr(sql, "MIN_SORTED", 1)
    frame = every_type(200, seed=9).with_columns(query=pl.int_range(200) // 20)
    options = SHAPE | {"group": "query", "features": ["float64", "int32"], "objective": "rank:pairwise"}
    model = fb.fit(frame, "late", engine=engine, **options)
    assert model.trees["tree"].n_unique() == 2
    assert not sorted_rows
