"""Intervals and quantiles in order have the bits of `Model.predict` in every installed database."""

from functools import cache

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.warehouses import ALL, Warehouse, open_warehouse

rng = np.random.default_rng(5)
N = 150
FRAME = pl.DataFrame({
    "id": range(N), "x": rng.normal(size=N), "z": rng.normal(size=N),
    "shop": pl.Series(rng.choice(["a", "A", "it's", "é", None], size=N).tolist(), dtype=pl.String),
    "floor": pl.Series(rng.choice([-1, 2, 7, None], size=N).tolist(), dtype=pl.Int64),
    "open": pl.Series(rng.choice([True, False, None], size=N).tolist(), dtype=pl.Boolean),
}).with_columns(
    y=pl.col("x") * 2 + pl.Series(rng.normal(size=N)) * (1 + (pl.col("shop") == "A").fill_null(value=False)),
    count=(pl.col("x").exp() * 2).floor(),
)  # fmt: skip
TYPES = {name: FeatureType(kind) for name, kind in
         {"x": "float64", "z": "float64", "shop": "string", "floor": "int64", "open": "boolean"}.items()}  # fmt: skip


@cache
def fitted(label: str, objective: str) -> fb.Model:
    quantiles = {"quantile_alpha": [0.1, 0.4, 0.5, 0.6, 0.9]} if objective == "reg:quantileerror" else {}
    shape = {"features": ["x", "z"], "n_estimators": 3, "max_depth": 3}
    return fb.fit(FRAME, label, objective=objective, **shape, **quantiles)


@pytest.fixture(params=ALL)
def warehouse(request) -> Warehouse:
    return open_warehouse(request.param)


def fill(warehouse: Warehouse, frame: pl.DataFrame) -> None:
    held = {name: kind for name, kind in TYPES.items() if warehouse.column_type(kind) is not None}
    warehouse.fill("t", {name: (kind, frame[name].to_list()) for name, kind in held.items()})


def found(warehouse: Warehouse, model: fb.Model, output: str, **more) -> list[tuple[float, ...]]:
    rows = sorted(
        tuple(row) for row in warehouse.rows(model.query("t", warehouse.name, keep=["id"], output=output, **more))
    )
    assert [row[0] for row in rows] == list(range(N))
    return [tuple(map(float, row[1:])) for row in rows]


@cases("groups", [None, "shop", "floor", "open"])
def test_intervals_have_the_same_bits(warehouse, groups):
    if groups and warehouse.column_type(TYPES[groups]) is None:
        pytest.skip(f"{warehouse.name} has no column for {TYPES[groups]}")
    model = fitted("y", "reg:squarederror").conform(FRAME, "y", coverage=0.8, groups=groups)
    # Values that were not there to conform on, and ones that differ in case only.
    frame = FRAME.with_columns(pl.col("shop").replace({"é": "É"}), pl.col("floor").replace({7: 8}))
    fill(warehouse, frame)
    assert found(warehouse, model, "interval") == model.predict(frame, "interval").struct.unnest().rows()


def test_quantiles_have_the_same_bits_in_order_and_moved(warehouse):
    model = fitted("y", "reg:quantileerror")
    fill(warehouse, FRAME)
    expected = model.predict(FRAME, "quantiles").to_numpy()
    assert (expected != model.predict(FRAME).to_numpy()).any()
    assert (np.array(found(warehouse, model, "quantiles")) == expected).all()
    for coverage in (0.05, 0.99):
        sure = model.conform(FRAME, "y", coverage=coverage)
        assert (sure.ensemble.interval.distance < 0) == (coverage < 0.5)
        assert found(warehouse, sure, "interval") == sure.predict(FRAME, "interval").struct.unnest().rows()


def test_intervals_of_counts_are_at_least_zero(warehouse):
    model = fitted("count", "count:poisson").conform(FRAME, "count", groups="shop")
    fill(warehouse, FRAME)
    rows = np.array(found(warehouse, model, "interval"))
    np.testing.assert_allclose(rows, model.predict(FRAME, "interval").struct.unnest(), rtol=1e-13, atol=1e-13)
    assert 0.0 <= rows.min() < 1e-12
