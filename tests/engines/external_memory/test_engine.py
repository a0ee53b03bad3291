"""Passes over arrays in files, in blocks and slices of rows, give the model of rows in memory."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.binning.bins import Bins
from frameboost.engines import external_memory
from frameboost.engines.external_memory import ExternalMemoryEngine, narrowed
from frameboost.engines.shards import opening
from frameboost.engines.shards.memory_plan import storage_of
from frameboost.expressions.expression import Expression
from frameboost.runtime import storage
from frameboost.runtime.storage import FileStorage, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import Stats
from tests.support.cases import cases
from tests.support.frames import every_type

FEATURES = ["int8", "float64", "string", "wide"]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rows = every_type(800, seed=7).with_columns(
        wide=pl.int_range(800).mod(300).cast(pl.String), grade=(pl.int_range(800) * 7 % 3).cast(pl.String)
    )
    return rows.select(*FEATURES, "amount", "late", "w", "grade").with_columns(pl.col("amount").abs())


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "rows.parquet"
    frame.write_parquet(path, row_group_size=100)
    return path


@pytest.fixture
def opened(monkeypatch):
    """Return a list of the storages of engines; there is no memory, and blocks have 64 rows."""
    storages: list[object] = []

    def plan(*arguments):
        storages.append(storage_of(*arguments))
        return storages[-1]

    monkeypatch.setattr(storage, "available_memory", lambda: 0)
    monkeypatch.setattr(opening, "storage_of", plan)
    monkeypatch.setattr(external_memory, "ROWS", 64)
    monkeypatch.setattr(Storage, "room", 2000)  # two columns of 800 rows
    return storages


@pytest.mark.slow
@cases(("target", "shards", "more"), [
    ("amount", 3, {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 300, "min_child_weight": 0}),  # wide
    ("amount", 3, {"target_transform": "log1p"}),
    ("amount", 1, {"objective": "reg:tweedie"}),  # by powers, which no program computes
    ("amount", 3, {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.7], "weight": "w"}),
    ("late", 1, {"objective": "binary:logistic", "num_parallel_tree": 3, "subsample": 0.7, "weight": "w"}),
    ("late", 3, {"objective": "binary:logistic", "num_parallel_tree": 2, "min_child_samples": 40}),
    ("late", 1, {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5}),
    ("late", 3, {"objective": "binary:logistic", "sampling_method": "gradient_based", "subsample": 0.5,
                 "min_child_samples": 20}),
    ("grade", 1, {"valid": "w > 1.4", "class_weight": "balanced"}),
])  # fmt: skip
def test_the_model_is_that_of_rows_in_memory(frame, path, opened, target, shards, more):
    options = {"features": FEATURES, "n_estimators": 2, "max_depth": 5, "learning_rate": 0.5, "verbose": False, **more}
    whole = fb.fit(frame, target, engine="numba", **options)
    model = fb.fit(path, target, engine="numba", shards=shards, n_jobs=2, **options)
    assert all(isinstance(storage, FileStorage) for storage in opened)
    assert opened
    assert model.to_json() == whole.to_json()
    assert model.history.equals(whole.history)


def engine(frame: pl.DataFrame, n_jobs: int) -> ExternalMemoryEngine:
    kinds = {"int8": "int8", "float64": "float64"}
    features = tuple(Feature(name, FeatureType(kind)) for name, kind in kinds.items())
    return ExternalMemoryEngine(
        frame.lazy(), features, {"label": "late", "weight": "w"}, Workers(n_jobs), FileStorage()
    )


def test_gradients_from_before_a_tree_are_not_computed_again(frame):
    rows = engine(frame, 1)
    rows.bin_columns([Bins(feature, (0,)) for feature in rows.features])
    one = Expression("1", ())
    rows.start_margins({"m": one})
    rows.compute_gradients({"g_0": Expression("m", ("m",)), "h_0": one}, {})
    assert rows.start_tree(0) == Stats(800.0, 800.0)
    rows.add_leaf_values({0: 0.5}, "m")
    out = np.empty((1, 6, 2))
    with pytest.raises(AssertionError):
        rows.histograms([0], out, np.array([0]))


def test_samples_are_kept_for_the_cuts(frame, monkeypatch):
    rows = engine(frame, 2)
    every_third = pl.Series([place % 3 == 0 for place in range(len(frame))])
    monkeypatch.setattr(rows, "sample", every_third)
    present = frame.select(pl.col("int8"), pl.col("float64").fill_nan(None))
    assert rows.count_missing() == list(present.null_count().row(0))
    monkeypatch.setattr(rows, "frame", frame.lazy().select("late", "w"))  # no column can be read again
    int8, float64 = rows.count_values([0, 1])
    expected = present.filter(every_third)["int8"].drop_nulls().value_counts().sort("int8")
    assert int8.values.tolist() == expected["int8"].to_list()
    assert int8.counts.tolist() == expected["count"].to_list()
    assert float64.n_rows == present.filter(every_third)["float64"].drop_nulls().len()


@cases(("values", "dtype"), [
    ([0.0, 1.0, 255.0], pl.UInt8), ([0.0, -0.0], pl.Float32), ([0.5, -3.0, 256.0], pl.Float32),
    ([float("inf")], pl.Float32), ([0.1], pl.Float64), ([1e300], pl.Float64), ([1.0, None], pl.Float64),
])  # fmt: skip
def test_roles_in_fewer_bytes(values, dtype):
    given = pl.Series("label", values, dtype=pl.Float64)
    kept = narrowed(given)
    assert kept.dtype == dtype
    back = kept.cast(pl.Float64)
    assert back.equals(given)
    assert np.signbit(back.to_numpy()).tolist() == np.signbit(given.to_numpy()).tolist()
