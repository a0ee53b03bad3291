"""Thresholds of floats: the shortest decimal of a gap, which copies by float32 and by text do not cross."""

import math
from decimal import ROUND_CEILING, Context, Decimal

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.binning import bins as binning
from frameboost.binning.bins import thresholds_between
from frameboost.schema.types import float32_at_least

WHOLE_TREE = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0}
ANY = st.floats(allow_nan=False) | st.floats(-100, 100) | st.integers(-(10**4), 10**4).map(lambda k: k / 100)


def in_float32(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def digits(number: float) -> int:
    return len(Decimal(repr(number)).normalize().as_tuple().digits) if number else 0


def next_decimal(number: float, n_digits: int) -> Decimal:
    """Return the lowest decimal of so many digits above a number."""
    context = Context(prec=n_digits, rounding=ROUND_CEILING)
    rounded = context.create_decimal(Decimal(number))
    return rounded if rounded > Decimal(number) else context.next_plus(rounded)


@pytest.mark.slow
@given(ANY, ANY)
@settings(max_examples=200, deadline=None)
def test_a_threshold_parts_its_neighbours_and_their_float32(one, other):
    low, high = sorted((one, other))
    if not low < high:
        return
    (t,) = thresholds_between([low], [high]).tolist()
    assert low < t <= high
    assert math.copysign(1.0, t) == 1.0 or t < 0
    if in_float32(low) < in_float32(high):
        assert in_float32(low) < t <= in_float32(high)
        assert in_float32(low) < in_float32(t) <= in_float32(high)
    assert thresholds_between([0.0, low, -1.0], [1.0, high, 0.0])[1] == t, "a function of the two numbers alone"


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e6))
@settings(max_examples=200, deadline=None)
def test_no_decimal_of_the_gap_is_shorter_and_none_as_short_is_nearer_to_its_middle(low, width):
    high = low + width
    margin = 2 * float(max(np.spacing(np.float32(abs(end))) for end in (low, high)))
    (t,) = thresholds_between([low], [high]).tolist()
    if t == 0:
        assert low < 0 <= high
        return
    # Beside the margin of float32, which a threshold keeps from both ends.
    if digits(t) > 1:
        assert next_decimal(low + margin, digits(t) - 1) > Decimal(high - margin)
    step = Decimal(10) ** (Decimal(repr(t)).normalize().as_tuple().exponent)
    middle = Decimal(low / 2 + high / 2)
    for other in (Decimal(repr(t)) - step, Decimal(repr(t)) + step):
        if Decimal(low + margin) < other < Decimal(high - margin):
            assert abs(Decimal(repr(t)) - middle) <= abs(other - middle) * (1 + Decimal(10) ** -12)


@pytest.mark.parametrize(
    ("below", "value", "threshold"),
    [
        (3.17, 3.24, 3.2),
        (3.19, 3.2, 3.195),
        (1.0, 2.0, 2.0),  # whole numbers
        (28.0, 30.0, 30.0), (0.0, 1.0, 0.5), (99.0, 100.0, 100.0), (-2.0, -1.0, -1.0), (-0.5, 0.25, 0.0),
        (-3.0, 0.0, 0.0),
        (2.9999999, 3.3, 3.1),  # the lower one is 3 in float32
        (0.1, 0.1 + 0.2, 0.2),
        (1.0, 1.000000001, 1.000000001),  # one number in float32
        (1e300, 3e300, 2e300), (1e-310, 3e-310, 2e-310), (0.0, 5e-324, 5e-324), (-math.inf, math.inf, 0.0),
        (-math.inf, -3.0, -2e38), (5.0, math.inf, 2e38), (1e300, math.inf, 9e307), (1.7e9, 1.7e9 + 1, 1.7e9 + 1),
        (math.nextafter(1.0, 0.0), 1.0, 1.0),
    ],
)  # fmt: skip
def test_thresholds_by_hand(below, value, threshold):
    assert thresholds_between([below], [value]).tolist() == [threshold]


def test_a_threshold_of_float32_is_rounded_up():
    rng = np.random.default_rng(0)
    values = np.unique(rng.normal(size=2000).astype(np.float32))
    for t in (0.7, 0.1, -0.3, 1e300, -1e300, float(values[7])):
        (edge,) = float32_at_least([t])
        assert ((values.astype(np.float64) < t) == (values < edge)).all()


def prices(n: int = 1500) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    price = np.round(rng.uniform(0, 40, n), 2)
    frame = pl.DataFrame({"price": price, "z": rng.normal(size=n), "k": rng.integers(-3, 4, n) * 1.0})
    return frame.with_columns(y=(pl.col("price") * 3).sin() + pl.col("z") / 2 + pl.col("k"))


FITS = {
    "hist": {}, "symmetric": {"grow_policy": "symmetric"}, "approx": {"tree_method": "approx"},
    "local": {"tree_method": "approx", "proposal": "local"}, "exact": {"tree_method": "exact"},
    "vector": {"multi_strategy": "multi_output_tree"},
}  # fmt: skip
ENGINES = [*((name, "numba") for name in FITS), ("hist", "polars"), ("hist", "duckdb"), ("local", "duckdb")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_copies_of_the_training_rows_reach_the_same_leaves(name, engine):
    dtype = pl.Float32 if ENGINES.index((name, engine)) % 3 == 1 else pl.Float64
    frame = prices(300)
    names = ["price", "z", "k"]
    model = fb.fit(
        frame.with_columns(pl.col(names).cast(dtype)), "y", n_estimators=2, max_depth=6, engine=engine, max_bin=1000,
        **FITS[name],
    )  # fmt: skip
    text = frame.write_csv(float_precision=None)
    single = frame.with_columns(pl.col(names).cast(pl.Float32))
    copies = {
        "float32": single,
        "float32 as float64": single.with_columns(pl.col(names).cast(pl.Float64)),
        "15 digits": frame.with_columns(pl.col(names).map_elements(lambda x: float(f"{x:.15g}"), pl.Float64)),
        "text": pl.read_csv(text.encode(), schema_overrides=frame.schema),
        "an ulp above": frame.with_columns(pl.Series(n, np.nextafter(frame[n], np.inf)) for n in names[:2]),
        "an ulp below": frame.with_columns(pl.Series(n, np.nextafter(frame[n], -np.inf)) for n in names[:2]),
    }
    expected = model.predict(frame).to_list()
    for copy, rows in copies.items():
        assert model.predict(rows).to_list() == expected, copy
    assert single.select(model.expr()).to_series().to_list() == expected
    con = duckdb.connect()
    con.register("arrived", single.with_row_index("i").to_arrow())
    con.execute("CREATE TABLE t AS FROM arrived")
    for form in ("case", "lists"):
        query = model.database("duckdb").query("t", keep=["i"], form=form)
        assert [p for *_, p in sorted(con.sql(query).fetchall())] == expected, form


@pytest.mark.slow
def test_rows_that_cuts_do_not_come_from_are_coded_as_they_are_scored(monkeypatch):
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 100)
    for dtype, engine in ((pl.Float32, "numba"), (pl.Float32, "polars"), (pl.Float64, "duckdb")):
        rows = prices(800).with_columns(pl.col("price", "z", "k").cast(dtype))
        model = fb.fit(rows, "y", valid=rows.tail(400), train_metrics=True, n_estimators=3, engine=engine)
        errors = (model.predict(rows) - rows["y"]) ** 2
        history = model.history.tail(1).to_dicts()[0]
        found = [value for key, value in history.items() if "rmse" in key]
        expected = [errors.mean() ** 0.5, errors.tail(400).mean() ** 0.5]
        assert sorted(found) == pytest.approx(sorted(expected), rel=1e-12), (dtype, engine)


def test_thresholds_are_short():
    model = fb.fit(prices(), "y", n_estimators=20)
    used = model.trees.filter(pl.col("feature") == "price")["threshold"].to_list()
    assert max(map(digits, used)) <= 6
    assert set(model.trees.filter(pl.col("feature") == "k")["threshold"]) <= {-2.0, -1.0, 0.0, 0.5, 2.0, 3.0}
