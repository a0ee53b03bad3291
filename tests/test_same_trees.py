"""The engine, the number of threads, the order of the rows and the kind of table never change the model."""

import math
import subprocess
import sys

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost import binning
from tests.frames import FEATURES_BY_TYPE, LABELS, every_type

ENGINES = ["numba", "polars", "duckdb"]
SHAPE = {"n_estimators": 4, "max_depth": 3, "learning_rate": 0.5, "verbose": False}


def as_relation(frame: pl.DataFrame, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
    """Return the frame as a table of a database; int128 goes as text, which is the one way it can."""
    con = con or duckdb.connect()
    wide = [name for name, dtype in frame.schema.items() if dtype == pl.Int128]
    con.register("frame", frame.with_columns(pl.col(wide).cast(pl.String)))
    casts = ", ".join(f'CAST("{name}" AS HUGEINT) AS "{name}"' for name in wide)
    con.execute(f"CREATE TABLE t AS SELECT * {f'REPLACE ({casts})' if wide else ''} FROM frame")
    con.unregister("frame")
    return con.table("t")


def assert_same(objective: str, first: fb.Model, *others: fb.Model) -> None:
    """Hold models to the promise: byte for byte, or, where the loss needs exp, leaves within 1e-9."""
    for other in others:
        if objective == "reg:squarederror":
            assert other.to_json() == first.to_json()
            continue
        exact = ["tree", "node", "feature", "threshold", "categories", "missing", "left", "right", "condition"]
        assert other.trees.select(exact).equals(first.trees.select(exact))
        np.testing.assert_allclose(other.trees["value"], first.trees["value"], rtol=1e-9)


# --- engines, column types, kinds of table ----------------------------------------------------------------------------


@pytest.mark.parametrize("objective", LABELS)
@pytest.mark.parametrize("name", FEATURES_BY_TYPE)
def test_each_column_type_gives_one_model_in_all_engines(name, objective):
    frame = every_type(300, seed=2).select(name, LABELS[objective])
    models = [fb.fit(frame, LABELS[objective], objective=objective, engine=e, **SHAPE) for e in ENGINES]
    assert set(models[0].trees["feature"].drop_nulls()) == {name}, "the feature must be split on"
    assert_same(objective, *models)


@pytest.mark.parametrize("objective", LABELS)
def test_all_column_types_at_once_give_one_model_in_all_engines(objective):
    frame, target = every_type(400, seed=5), LABELS[objective]
    options = {"objective": objective, "features": list(FEATURES_BY_TYPE), "weight": "w", **SHAPE}
    first = fb.fit(frame, target, **options)
    others = [fb.fit(data, target, engine=e, **options) for data in (frame, frame.lazy()) for e in ENGINES]
    assert_same(objective, first, *others)


# DuckDB has one unit of duration, microseconds, so milliseconds come back from it as another type.
COMMON = [name for name in FEATURES_BY_TYPE if name != "duration_ms"]


@pytest.mark.parametrize("objective", LABELS)
def test_a_relation_gives_the_frames_model(objective):
    frame, target = every_type(400, seed=6), LABELS[objective]
    options = {"objective": objective, "features": COMMON, **SHAPE}
    relation = as_relation(frame)
    assert_same(objective, fb.fit(frame, target, **options),
                fb.fit(relation, target, **options),
                fb.fit(relation, target, engine="numba", **options),
                fb.fit(relation, target, engine="polars", **options))  # fmt: skip


@pytest.mark.parametrize("objective", LABELS)
def test_a_parquet_scan_gives_the_frames_model(objective, tmp_path):
    frame, target = every_type(400, seed=6).drop("int128"), LABELS[objective]
    frame.write_parquet(tmp_path / "part.parquet")
    scan = pl.scan_parquet(tmp_path / "*.parquet")
    options = {"objective": objective, "weight": "w", **SHAPE}
    assert_same(objective, fb.fit(frame, target, **options),
                *(fb.fit(scan, target, engine=engine, **options) for engine in ENGINES))  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(pl.Int128, -(2**127), 2**127 - 1), (pl.UInt128, 0, 2**128 - 1)],
    ids=["signed", "unsigned"],
)
def test_the_widest_integers_give_one_model(dtype, low, high):
    values = [low, low + 1, 10**20, 10**38 - 1, high - 1, high] * 4
    frame = pl.DataFrame({"x": pl.Series(values, dtype=dtype), "y": [0.0, 7.0, 1.0, 9.0, 2.0, 5.0] * 4})
    models = [fb.fit(frame, "y", engine=e, n_estimators=3, max_depth=5, reg_lambda=0, learning_rate=1) for e in ENGINES]
    assert_same("reg:squarederror", *models)
    np.testing.assert_allclose(models[0].predict(frame), frame["y"], atol=1e-9)  # all six are told apart


def test_half_floats_are_floats():
    frame = pl.DataFrame({"x": pl.Series([0.5, 1.5, None, 2.0] * 5, dtype=pl.Float16), "y": [0.0, 1.0, 5.0, 3.0] * 5})
    models = [fb.fit(frame, "y", engine=e, **SHAPE) for e in ENGINES]
    assert_same("reg:squarederror", *models, fb.fit(frame.cast({"x": pl.Float32}), "y", **SHAPE))
    assert models[0].predict(frame).equals(frame.select(models[0].expr()).to_series())


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_bin": 5},
        {"max_bin": 300},
        {"gamma": 3.0, "reg_lambda": 0.0},
        {"reg_alpha": 4.0, "min_child_weight": 20.0},
        {"max_delta_step": 0.3, "max_depth": 6},
        {"grow_policy": "lossguide", "max_leaves": 6, "max_depth": 0},
        {"grow_policy": "depthwise", "max_leaves": 6},
        {"base_score": 0.25},
        {"features": ["float64", "string"], "cuts": {"float64": [-3, 0.5, 1e9]}},
    ],
    ids=str,
)
@pytest.mark.parametrize("objective", LABELS)
def test_parameters_mean_the_same_in_all_engines(objective, parameters):
    frame = every_type(700, seed=3, missing=0.05)
    options = SHAPE | {"features": ["float64", "int16", "string", "datetime_us", "decimal"]} | parameters
    models = [fb.fit(frame, LABELS[objective], objective=objective, engine=e, weight="w", **options) for e in ENGINES]
    assert models[0].trees.height > 4, "something must have been split"
    assert_same(objective, *models)


@pytest.mark.parametrize("tree_method", ["hist", "exact"])
@pytest.mark.parametrize("objective", LABELS)
def test_the_order_of_rows_does_not_matter(objective, tree_method):
    frame = every_type(500, seed=4)
    engines = ENGINES if tree_method == "hist" else ["numba"]
    options = {"objective": objective, "features": list(FEATURES_BY_TYPE), "tree_method": tree_method, **SHAPE}
    models = [
        fb.fit(frame.sample(fraction=1, shuffle=True, seed=seed), LABELS[objective], engine=engine, **options)
        for engine in engines
        for seed in (1, 2)
    ]
    assert_same(objective, fb.fit(frame, LABELS[objective], **options), *models)


def test_labels_of_very_different_size_add_up_the_same():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({
        "x": rng.normal(size=600),
        "y": rng.normal(size=600) * 10.0 ** rng.integers(-300, 12, size=600),
        "w": 10.0 ** rng.integers(-20, 20, size=600),
    })  # fmt: skip
    shuffled = frame.reverse()
    options = {"weight": "w", "min_child_weight": 0, **SHAPE}
    models = [fb.fit(data, "y", engine=e, **options) for e in ENGINES for data in (frame, shuffled)]
    assert models[0].trees.height > 4
    assert_same("reg:squarederror", *models)


def test_cuts_from_a_sample_are_the_same_in_all_engines(monkeypatch):
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 1000)
    rng = np.random.default_rng(1)
    x = rng.normal(size=5000)
    frame = pl.DataFrame({"x": x, "y": np.sin(3 * x)})
    sampled = [fb.fit(frame, "y", engine=e, max_bin=16, **SHAPE) for e in ENGINES]
    sampled.append(fb.fit(as_relation(frame), "y", max_bin=16, **SHAPE))
    assert_same("reg:squarederror", *sampled)
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 5000)
    assert fb.fit(frame, "y", max_bin=16, **SHAPE) != sampled[0], "the sample must have been looked at"


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree_method", ["hist", "exact"])
def test_threads_of_the_kernels_do_not_matter(tree_method):
    frame = every_type(20_000, seed=8)  # enough rows for more than one task
    options = {"features": list(FEATURES_BY_TYPE), "tree_method": tree_method, **SHAPE}
    models = [fb.fit(frame, "amount", n_jobs=n, **options) for n in (1, 2, 3)]
    assert_same("reg:squarederror", *models)


def test_threads_of_duckdb_do_not_matter():
    frame = every_type(5_000, seed=8)
    frame = pl.concat([frame] * 40)  # several row groups, so that threads have something to share
    frame = frame.select("float64", "string", "int16", "amount")
    models = [fb.fit(frame, "amount", **SHAPE)]
    for threads in (1, 2):
        con = duckdb.connect()
        con.execute(f"SET threads = {threads}")
        models.append(fb.fit(as_relation(frame, con), "amount", **SHAPE))
    assert_same("reg:squarederror", *models)


_IN_POLARS = """
import hashlib, polars as pl, frameboost as fb
from tests.frames import FEATURES_BY_TYPE, LABELS, every_type
print(pl.thread_pool_size())
frame = every_type(3000, seed=8)
for objective, target in LABELS.items():
    model = fb.fit(frame, target, objective=objective, features=list(FEATURES_BY_TYPE), engine="polars", n_estimators=3)
    print(hashlib.sha256(model.to_json().encode()).hexdigest())
"""


def test_threads_of_polars_do_not_matter(pytestconfig):
    outputs = []
    for threads in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _IN_POLARS], env={"POLARS_MAX_THREADS": threads, "PATH": ""},
            cwd=pytestconfig.rootpath, capture_output=True, text=True, check=True,
        )  # fmt: skip
        size, *hashes = done.stdout.split()
        assert size == threads
        outputs.append(hashes)
    frame = every_type(3000, seed=8)
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == len(LABELS)
    assert fb.fit(frame, "amount", features=list(FEATURES_BY_TYPE), n_estimators=3) == fb.fit(
        frame, "amount", features=list(FEATURES_BY_TYPE), n_estimators=3, engine="polars"
    )


# --- any frame --------------------------------------------------------------------------------------------------------

ODD_FLOATS = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -2.2e-308, 1.0, 1.0 + 2**-52, -1e300]
ODD_INTS = [None, 0, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1, -1]
ODD_STRINGS = [None, "", "a", "A", "'", '"', "NULL", "ä", "日本", "a\n"]


@st.composite
def odd_frames(draw):
    n = draw(st.integers(4, 40))
    column = lambda values: st.lists(st.sampled_from(values), min_size=n, max_size=n)  # noqa: E731
    frame = pl.DataFrame({
        "f": pl.Series(draw(column(ODD_FLOATS)), dtype=pl.Float64),
        "i": pl.Series(draw(column(ODD_INTS)), dtype=pl.Int64),
        "s": pl.Series(draw(column(ODD_STRINGS)), dtype=pl.String),
        "y": pl.Series(draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)), dtype=pl.Int32),
    })  # fmt: skip
    features = [c for c in "fis" if frame[c].cast(pl.String).replace("NaN", None).null_count() < n]
    return frame, features


@given(odd_frames())
@settings(max_examples=40, deadline=None)
def test_odd_frames_give_one_model_in_all_engines(drawn):
    frame, features = drawn
    if not features or frame["y"].n_unique() == 1:
        return
    options = {"features": features, "n_estimators": 2, "max_depth": 3, "min_child_weight": 0, "verbose": False}
    assert_same("reg:squarederror", *(fb.fit(frame, "y", engine=e, **options) for e in ENGINES))
