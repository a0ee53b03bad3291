"""Drift of a model's inputs: bins, shares and the population stability index.

Expected values are computed in plain Python over physical values, by the edges in the baseline.
"""

import datetime as dt
import json
import math
import random

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.sql.stages import TableSource
from frameboost.database.drift import drift_tests
from frameboost.losses.built_in import get_loss
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree
from tests.support.cases import cases
from tests.support.models import model_of_parts
from tests.support.random_models import NAMES, TYPES, frame_of, random_model, random_values, to_duckdb
from tests.support.warehouses import ALL, ALL_BUT_SPARK, databases, nameable, open_warehouse

COLUMNS = ["feature", "bin", "lower", "upper", "category", "share"]


@pytest.fixture(params=ALL_BUT_SPARK)
def warehouse(request):
    return open_warehouse(request.param)


def model_of(*features: tuple[str, FeatureType]) -> fb.Model:
    return random_model([kind for _, kind in features], [name for name, _ in features], random.Random(1), 2, 2)


def built(*features: Feature) -> fb.Model:
    """Return a model of a single leaf: its features are all that is of interest here."""
    leaf = Tree((-1,), (None,), (None,), (False,), (-1,), (-1,), (0.0,), (1.0,), (0.0,))
    return model_of_parts(get_loss("reg:squarederror", {"scale_pos_weight": 1.0}), {}, features, (0.0,), [leaf])


def drifted(opened, model: fb.Model, baseline: pl.DataFrame, today: dict[str, list]) -> list[tuple]:
    """Return what the database says of rows as they are today."""
    opened.fill_features("t", model, today)
    return [tuple(row) for row in opened.rows(model.database(opened.name).drift_query("t", baseline))]


def is_missing(value) -> bool:
    return value is None or value != value


def counted(rows: list[tuple], values: list) -> dict[int, int]:
    """Return how many of the physical values are in each bin of a feature's baseline."""
    parsed = [(n, *(None if t is None else json.loads(t) for t in texts)) for _, n, *texts, _ in rows]
    named = [category for *_, category in parsed if category is not None]
    ranges = not named and len(parsed) > 1 and any(low is not None or high is not None for _, low, high, _ in parsed)
    counts = {}
    for number, low, high, category in parsed:
        if number == -1:
            counts[number] = sum(map(is_missing, values))
            continue
        present = [value for value in values if not is_missing(value)]
        if category is not None:
            inside = [value for value in present if value == category]
        elif ranges:
            inside = [v for v in present if (low is None or v >= low) and (high is None or v < high)]
        else:
            inside = [value for value in present if value not in named]
        counts[number] = len(inside)
    return counts


def index(before: list[float], now: list[float]) -> float:
    e, a = np.maximum(before, 1e-4), np.maximum(now, 1e-4)
    return float(np.sum((a - e) * np.log(a / e)))


def of_feature(baseline: pl.DataFrame, name: str) -> list[tuple]:
    return [row for row in baseline.rows() if row[0] == name]


def assert_drift(rows: list[tuple], baseline: pl.DataFrame, today: dict[str, list]) -> None:
    """Compare the rows of a drift query with what it says by hand."""
    found = {(name, number): (label, float(e), float(a), float(psi)) for name, number, label, e, a, psi in rows}
    assert len(found) == len(rows) == baseline.height
    for name, values in today.items():
        of_baseline = of_feature(baseline, name)
        shares = {number: count / len(values) for number, count in counted(of_baseline, values).items()}
        assert math.isclose(sum(shares.values()), 1)
        psi = index([row[-1] for row in of_baseline], list(shares.values()))
        for _, number, *_, before in of_baseline:
            label, e, a, said = found[name, number]
            assert isinstance(label, str) and label
            assert (e, a) == (before, shares[number]), (name, number)
            assert math.isclose(said, psi, rel_tol=1e-11, abs_tol=1e-13), name


def assert_same(rows: list[tuple]) -> None:
    """The rows are those of training: nothing has changed."""
    for *_, e, a, psi in rows:
        assert (float(e), float(psi)) == (pytest.approx(float(a), rel=1e-15), pytest.approx(0, abs=1e-30))


def assert_ordered(rows: list[tuple]) -> None:
    """The features that have changed most come first, each with its bins in order."""
    keys = [(-float(psi), name.encode(), number) for name, number, *_, psi in rows]
    assert keys == sorted(keys)


# --- the baseline -----------------------------------------------------------------------------------------------------


@cases("type_name", TYPES)
def test_bins_of_every_type_cover_all_rows_once(type_name):
    rng, kind = random.Random(f"baseline {type_name}"), FeatureType(type_name)
    values = random_values(kind, 300, rng)
    model = model_of(("x", kind))
    baseline = model.database().baseline(frame_of(model, {"x": values}), bins=6)
    assert baseline.columns == COLUMNS
    rows = of_feature(baseline, "x")
    assert [row[1] for row in rows] == [-1, *range(len(rows) - 1)]
    assert len(rows) <= 7
    counts = counted(rows, values)
    assert sum(counts.values()) == len(values)
    assert [row[-1] for row in rows] == pytest.approx([counts[row[1]] / len(values) for row in rows], rel=1e-15)
    if kind.is_categorical:
        assert all(row[2:4] == (None, None) for row in rows)
        return
    assert [row[2] for row in rows[2:]] == [row[3] for row in rows[1:-1]]
    assert rows[1][2] is rows[-1][3] is None
    edges = [json.loads(row[2]) for row in rows[2:]]
    assert edges == sorted(set(edges))
    assert kind.is_float or set(edges) <= {value for value in values if not is_missing(value)}
    # As equal as values let them be: none is larger than its part and the most frequent value.
    present = [value for value in values if not is_missing(value)]
    most = max(present.count(value) for value in set(present))
    assert max(count for number, count in counts.items() if number >= 0) <= len(present) / 5 + most


def test_the_most_frequent_categories_have_bins_and_all_others_one():
    data = ["a"] * 5 + ["b"] * 9 + ["c"] * 5 + ["d"] * 2 + ["e"] + [None] * 3
    baseline = model_of(("s", FeatureType("string"))).database().baseline(pl.DataFrame({"s": data}), bins=4)
    counts = pd.Series(data).value_counts()  # which leaves NULL out
    kept = sorted(counts.index, key=lambda name: (-counts[name], name))[:3]
    assert kept == ["b", "a", "c"]
    n = len(data)
    expected = [("s", -1, None, None, None, 3 / n)]
    expected += [("s", i, None, None, json.dumps(name), counts[name] / n) for i, name in enumerate(kept)]
    assert baseline.rows() == [*expected, ("s", 3, None, None, None, 3 / n)]


def test_equal_parts_are_numpys_quantiles():
    x = np.random.default_rng(5).permutation(1000).astype(float)
    rows = model_of(("x", FeatureType("float64"))).database().baseline(pl.DataFrame({"x": x}), bins=10).rows()
    assert [row[-1] for row in rows] == [0.0] + [0.1] * 10
    edges = [float(row[2]) for row in rows[2:]]
    assert edges == np.quantile(x, np.arange(1, 10) / 10, method="higher").tolist()


def test_missing_values_take_no_bin_from_the_others():
    model = model_of(("x", FeatureType("int64")))
    full, holed = ([1, 2, 3, 4] * 5, [1, 2, 3, 4] * 5 + [None])
    edges = [
        model.database().baseline(pl.DataFrame({"x": x}), bins=bins)["lower"].drop_nulls().to_list()
        for x in (full, holed)
        for bins in (2, 4)
    ]
    assert edges[0] == edges[2] and edges[1] == edges[3] == ["2", "3", "4"]


def test_a_feature_with_only_missing_values():
    kinds = {"i": FeatureType("int64"), "f": FeatureType("float64"), "s": FeatureType("string")}
    model = model_of(*kinds.items())
    empty = frame_of(model, {"i": [None] * 4, "f": [math.nan] * 4, "s": [None] * 4})
    baseline = model.database().baseline(empty)
    assert baseline.select("feature", "bin", "share").rows() == [
        (name, number, share) for name in kinds for number, share in ((-1, 1.0), (0, 0.0))
    ]
    con = duckdb.connect()
    to_duckdb(con, empty, "t")
    found = con.sql(model.database().drift_query("t", baseline)).fetchall()
    assert [row[3:] for row in found] == [(1, 1, 0), (0, 0, 0)] * 3
    to_duckdb(con, frame_of(model, {"i": [1] * 4, "f": [1.0] * 4, "s": ["a"] * 4}), "t")
    found = con.sql(model.database().drift_query("t", baseline)).fetchall()
    assert [row[3:5] for row in found] == [(1, 0), (0, 1)] * 3
    assert [row[5] for row in found] == pytest.approx([2 * (1 - 1e-4) * math.log(1e4)] * 6, rel=1e-12)


def test_a_baseline_is_of_any_source():
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    model = fb.fit(frame, "y", n_estimators=1)
    con = duckdb.connect()
    con.register("t", frame)
    sources = [frame, frame.lazy(), con.table("t"), frame.to_pandas(), frame.to_arrow()]
    first = model.database().baseline(frame, bins=2)
    assert all(model.database().baseline(source, bins=2).equals(first) for source in sources)


# --- every type, in DuckDB --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.slow
@cases("type_name", TYPES)
def test_shares_and_index_of_every_type(con, type_name):
    rng, kind = random.Random(f"drift {type_name}"), FeatureType(type_name)
    training, today = random_values(kind, 200, rng), random_values(kind, 150, rng)
    today = today[:100] + [value for value in today[100:] if value in today[:4]]
    if type_name == "string":
        today.append("never seen")
    if type_name == "float64":
        today += [math.nan] * 7 + [math.inf, -math.inf] * 3
    model = model_of(("x", kind))
    baseline = model.database().baseline(frame_of(model, {"x": training}), bins=5)
    to_duckdb(con, frame_of(model, {"x": today}), "t")
    rows = con.sql(model.database().drift_query("t", baseline)).fetchall()
    assert_ordered(rows)
    assert_drift(rows, baseline, {"x": today})
    to_duckdb(con, frame_of(model, {"x": training}), "t")
    assert_same(con.sql(model.database().drift_query("t", baseline)).fetchall())


def test_infinite_edges():
    inf, model = math.inf, model_of(("x", FeatureType("float32")))
    values = [-inf, 0.0, inf, None, math.nan, inf]
    baseline = model.database().baseline(frame_of(model, {"x": values * 3}), bins=10)
    assert [row[2:4] for row in baseline.rows()[1:]] == [(None, "0.0"), ("0.0", "2e+38"), ("2e+38", None)]
    con = duckdb.connect()
    to_duckdb(con, frame_of(model, {"x": values}), "t")
    rows = con.sql(model.database().drift_query("t", baseline)).fetchall()
    assert_drift(rows, baseline, {"x": values})
    assert [row[2] for row in rows] == ["missing", "below 0.0", "from 0.0 to below 2e+38", "from 2e+38"]


def test_codes_of_other_libraries_are_categories():
    model = built(Feature("c", FeatureType("codes"), (1, 3, 7)))
    codes = [3] * 5 + [1] * 3 + [7] * 2 + [9] + [None] * 2
    con = duckdb.connect()
    to_duckdb(con, pl.DataFrame({"c": [3, 3, 8, None, 1]}), "t")
    for dtype in (pl.Int64, pl.Int32, pl.Float64):
        frame = pl.DataFrame({"c": pl.Series(codes, dtype=dtype)})
        baseline = model.database().baseline(frame, bins=3)
        assert [json.loads(c) for c in baseline["category"].drop_nulls()] == [3, 1], dtype
        n = len(codes)
        assert baseline["share"].to_list() == [2 / n, 5 / n, 3 / n, 3 / n]
        rows = con.sql(model.database().drift_query("t", baseline)).fetchall()
        assert_drift(rows, baseline, {"c": [3, 3, 8, None, 1]})
        assert [row[2] for row in rows] == ["missing", "3", "1", "other"]


def test_zeros_that_are_missing_are_in_the_bin_of_missing_values():
    model = built(Feature("z", FeatureType("float64"), (), zero_is_missing=True))
    frame = pl.DataFrame({"z": [0.0, -0.0, 1e-36, 1.0, 2.0, None, math.nan, -1.0]})
    baseline = model.database().baseline(frame, bins=3)
    assert baseline.filter(bin=-1)["share"].to_list() == [5 / 8]
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    assert_same(con.sql(model.database().drift_query("t", baseline)).fetchall())


def test_bin_labels_are_readable():
    day = dt.date(2026, 11, 21)
    frame = pl.DataFrame({
        "d": [day, day + dt.timedelta(1), day + dt.timedelta(2)], "b": [True, False, None],
        "m": pl.Series(["1.50", "2.25", "-0.75"]).cast(pl.Decimal(9, 2)),
        "t": [dt.datetime(2026, 11, 21, 7, 30), dt.datetime(2026, 11, 21, 7, 30, 0, 5), None],
        "s": ["it's", 'a"b', "new\nline"],
    })  # fmt: skip
    model = model_of(*((name, FeatureType.from_polars(dtype)) for name, dtype in frame.schema.items()))
    baseline = model.database().baseline(frame, bins=3)
    con = duckdb.connect()
    con.register("t", frame)
    labels: dict[str, list[str]] = {}
    for name, _, label, *_ in con.sql(model.database().drift_query("t", baseline)).fetchall():
        labels.setdefault(name, []).append(label)
    assert labels == {
        "d": ["missing", "below 2026-11-22", "from 2026-11-22 to below 2026-11-23", "from 2026-11-23"],
        "b": ["missing", "below true", "from true"],
        "m": ["missing", "below 1.50", "from 1.50 to below 2.25", "from 2.25"],
        "t": ["missing", "below 2026-11-21 07:30:00.000005", "from 2026-11-21 07:30:00.000005"],
        "s": ["missing", 'a"b', "it's", "other"],
    }


def test_rows_columns_and_features_may_be_chosen():
    kinds = {"x": FeatureType("int64"), "y": FeatureType("float64")}
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [1.0, 2.0, 3.0, 4.0]})
    model = model_of(*kinds.items())
    baseline = model.database().baseline(frame, bins=2)
    con = duckdb.connect()
    con.execute("""CREATE TABLE t AS SELECT unnest([1, 1, 4, NULL]) AS "X 2", 1e0 AS y, unnest([1, 2, 3, 4]) AS i""")
    query = model.database(columns={"x": "X 2"}).drift_query("t", baseline, where="i > 1")
    assert_drift(con.sql(query).fetchall(), baseline, {"x": [1, 4, None], "y": [1.0] * 3})
    some = baseline.filter(feature="y")
    rows = con.sql(model.database().drift_query("t", some)).fetchall()  # x is not even there
    assert_drift(rows, some, {"y": [1.0] * 4})


# --- in every database ------------------------------------------------------------------------------------------------

KINDS = {name: FeatureType(name) for name in ("float64", "int64", "string", "date")}
TRAINING = {
    "float64": [0.5, -1.5, 2.25, 1e300, None, math.nan, 0.1, 3.0, 3.0, -0.0] * 4,
    "int64": [1, 2, 3, 4, 5, -6, None, 2**53 + 1, 2**53, 7] * 4,
    "string": ["a", "a", "A", "A", "A", "it's", "日本", "back\\slash", None, "é"] * 4,
    "date": [0, 1, 2, 15_000, 15_001, -700, None, 20_000, 20_001, 20_002] * 4,
}
TODAY = {
    "float64": [0.5, -1.5, None, math.nan, 4.0, 4.0, 3.0],
    "int64": [2**53 + 1, 2**53, None, -(2**60), 2, 2, 2],
    "string": ["a", "A", "a ", "á", "e", "new", None],
    "date": [15_000, 14_999, None, 2, 2, 2, -20_000],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@cases("bins", [2, 4, 100])
def test_in_every_database(name, bins):
    opened, columns = open_warehouse(name), KINDS
    if name == "spark":
        if bins > 2:
            return
        columns = ("float64", "string")
    model = model_of(*((column, KINDS[column]) for column in columns))
    today, training = (opened.fill_features("t", model, values) for values in (TODAY, TRAINING))
    baseline = model.database().baseline(frame_of(model, training), bins=bins)
    assert_same(drifted(opened, model, baseline, training))
    rows = drifted(opened, model, baseline, today)
    assert_drift(rows, baseline, today)
    assert [float(row[5]) for row in rows] == sorted((float(row[5]) for row in rows), reverse=True)


@cases("bins", [3, 100])
def test_an_empty_table_is_an_alarm(warehouse, bins):
    model = model_of(*KINDS.items())
    training = warehouse.fill_features("t", model, TRAINING)
    baseline = model.database().baseline(frame_of(model, training), bins=bins)
    query = model.database(warehouse.name).drift_query("t", baseline, where="1 = 0")
    rows = [tuple(row) for row in warehouse.rows(query)]
    assert len(rows) == baseline.height
    shares = {(name, number): share for name, number, *_, share in baseline.rows()}
    assert {(row[0], row[1]): float(row[3]) for row in rows} == shares
    for name, *_, share, psi in rows:
        of_training = [row[-1] for row in of_feature(baseline, name)]
        assert share == 0
        assert float(psi) == pytest.approx(index(of_training, [0.0] * len(of_training)), rel=1e-11)
        assert float(psi) > 4.5


@pytest.mark.slow
@cases("limits", [{}, {"columns": 12}])
def test_a_test_has_the_features_above_a_number_and_is_a_subquery(warehouse, limits):
    model = model_of(*KINDS.items())
    training = warehouse.fill_features("t", model, TRAINING)
    baseline = model.database().baseline(frame_of(model, training), bins=4)
    database = model.database(warehouse.name, limits=limits)
    quote, today = warehouse.dialect.quote, {**TODAY, "int64": TRAINING["int64"][: len(TODAY["date"])]}
    warehouse.fill_features("t", model, today)
    query = model.database(warehouse.name).drift_query("t", baseline)
    indexes = {row[0]: float(row[5]) for row in warehouse.rows(query)}
    for above in (0.25, 0.9, sorted(indexes.values())[1]):
        tests = drift_tests(database._source("t"), baseline, database.columns, database.dialect, above)
        assert (len(tests) > 1) == bool(limits)
        rows = [row for test in tests
                for row in warehouse.rows(f"SELECT {quote('feature')}, {quote('psi')} FROM ({test}) q")]  # fmt: skip
        clearly = above * (1 + 1e-11)
        expected = {name: index for name, index in indexes.items() if index > clearly}
        assert {name: float(psi) for name, psi in rows if psi > clearly} == pytest.approx(expected, rel=1e-11)
    none = TableSource(f"(SELECT * FROM {quote('t')} WHERE 1 = 0) none_", "none_")
    tests = drift_tests(none, baseline, database.columns, database.dialect, 4.5)
    assert sorted(row[0] for test in tests for row in warehouse.rows(test)) == sorted(KINDS)


@cases("missing", [0.0, 0.5, 1.0])
def test_a_column_without_values_is_an_alarm_unless_it_had_none_in_training(missing):
    rows = [None if i < 100 * missing else i for i in range(100)]
    model = model_of(("x", FeatureType("int64")))
    baseline = model.database().baseline(pl.DataFrame({"x": rows}, schema={"x": pl.Int64}))
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT NULL::BIGINT AS x FROM range(50)")
    found = {psi for *_, psi in con.sql(model.database().drift_query("t", baseline)).fetchall()}
    assert (min(found) > 0.25) == (missing < 1)


@pytest.mark.slow
def test_hostile_names(warehouse):
    rng = random.Random("hostile")
    names, kind = nameable(warehouse.dialect, [name for name in NAMES if name.strip()]), FeatureType("int32")
    model = model_of(*((name, kind) for name in names))
    training = {name: random_values(kind, 40, rng) for name in names}
    today = {name: random_values(kind, 20, rng) for name in names}
    baseline = model.database().baseline(frame_of(model, training), bins=4)
    assert_drift(drifted(warehouse, model, baseline, today), baseline, today)


def test_hostile_categories(warehouse):
    names, model = [name for name in NAMES if "\0" not in name], model_of(("s", FeatureType("string")))
    values = [name for i, name in enumerate(names) for _ in range(i + 1)]
    baseline = model.database().baseline(frame_of(model, {"s": values}), bins=12)
    rows = drifted(warehouse, model, baseline, {"s": names})
    found = {(row[0], row[1]): (float(row[4]), row[2]) for row in rows}
    for _, number, *_, category, _ in of_feature(baseline, "s")[1:-1]:
        assert found["s", number] == (1 / len(names), json.loads(category))
    assert found["s", 11][0] == (len(names) - 11) / len(names)


def test_features_whose_names_a_database_considers_equal_have_an_index_each(warehouse):
    kind = FeatureType("int64")
    names = {"x": "c0", "X": "c1", "e": "c2", "é": "c3", "e ": "c4"}
    training = {name: [0, 1] * 8 for name in names}
    today = {name: [0] * (10 - i) + [1] * i for i, name in enumerate(names)}
    model = model_of(*((name, kind) for name in names))
    database = model.database(warehouse.name, columns=names)
    baseline = database.baseline(frame_of(model, training), bins=2)
    warehouse.fill("t", {names[name]: (kind, values) for name, values in today.items()})
    assert_drift(warehouse.rows(database.drift_query("t", baseline)), baseline, today)


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("sqlite", "postgres"))
def test_more_bins_than_a_union_takes(name):
    opened = open_warehouse(name)
    rng, kind = random.Random("many"), FeatureType("int64")
    names = [f"x{i}" for i in range(45)]
    training = {name: [rng.randrange(10) for _ in range(100)] for name in names}
    today = {name: [rng.randrange(10) for _ in range(30)] for name in names}
    model = model_of(*((name, kind) for name in names))
    baseline = model.database().baseline(frame_of(model, training), bins=10)
    assert baseline.height > 400
    rows = drifted(opened, model, baseline, today)
    assert_drift(rows, baseline, today)
    assert [float(row[5]) for row in rows] == sorted((float(row[5]) for row in rows), reverse=True)


def test_more_bins_than_a_select_has_columns():
    kind = FeatureType("int64")
    names = [f"x{i}" for i in range(200)]
    model = model_of(*((name, kind) for name in names))
    baseline = model.database().baseline(frame_of(model, {name: list(range(10)) for name in names}))
    with pytest.raises(fb.ParameterError, match=r"the query would have 2,201 columns, and a SELECT in sqlite has at "):
        model.database("sqlite").drift_query("t", baseline)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simple() -> tuple[fb.Model, pl.DataFrame]:
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    model = fb.fit(frame, "y", n_estimators=1)
    return model, model.database().baseline(frame, bins=2)


@cases("bins", [1, 0, -1, 101, 2.0, True, "5", None])
def test_bins_out_of_range(simple, bins):
    with pytest.raises(fb.ParameterError) as error:
        simple[0].database().baseline(pl.DataFrame({"x": [1, 2]}), bins=bins)
    assert str(error.value) == f"bins must be an integer from 2 to 100, not {bins!r}"


def test_data_of_another_kind(simple):
    model = simple[0]
    for frame, sentence in [
        (pl.DataFrame({"x": pl.Series([1], dtype=pl.Int32)}),
         "feature 'x' has type Int32, but int64 in the model; cast it to the same type"),
        (pl.DataFrame({"x": ["1"]}),
         "feature 'x' has type String, but the model was trained on int64; cast it to a number"),
        (pl.DataFrame({"z": [1]}), "the data lacks 1 feature of the model: 'x'; it has 'z'"),
        (pl.DataFrame({"x": []}, schema={"x": pl.Int64}), "the data has no rows"),
    ]:  # fmt: skip
        with pytest.raises(fb.DataError) as error:
            model.database().baseline(frame)
        assert str(error.value) == sentence
    with pytest.raises(fb.DataError, match="data is a list; it must be a polars DataFrame"):
        model.database().baseline([1, 2])


NOT_A_BASELINE = "baseline must be a frame that DatabaseModel.baseline returned"


def test_an_invalid_baseline_is_refused(simple):
    model, baseline = simple
    for wrong in ([1], baseline.to_pandas(), baseline.lazy(), baseline.drop("bin"), pl.DataFrame()):
        with pytest.raises(fb.ParameterError) as error:
            model.database().drift_query("t", wrong)
        assert str(error.value) == NOT_A_BASELINE
    other = fb.fit(pl.DataFrame({"z": [1, 2], "y": [0.0, 1.0]}), "y", n_estimators=1)
    with pytest.raises(fb.ParameterError, match=r"^baseline has feature 'x', which is not one of the model's$"):
        other.database().drift_query("t", baseline)


@cases("text", ['"a"', "1.5", "true", "[1", "9223372036854775808", "1e400", "NaN"])
def test_a_baseline_of_other_values(simple, text):
    model, baseline = simple
    wrong = baseline.with_columns(lower=pl.when(pl.col("lower").is_not_null()).then(pl.lit(text)))
    with pytest.raises(fb.ParameterError, match=r"^baseline has .* not a value of feature 'x', int64$"):
        model.database().drift_query("t", wrong)


@cases("damage", [
    lambda b: b.clear(), lambda b: b.with_columns(share=pl.lit(None, dtype=pl.Float64)), lambda b: pl.concat([b, b]),
    lambda b: b.with_columns(share=pl.lit(math.nan)), lambda b: b.with_columns(bin=pl.lit(None, dtype=pl.Int32)),
])  # fmt: skip
def test_a_damaged_baseline(simple, damage):
    model, baseline = simple
    with pytest.raises(fb.ParameterError, match=r"^baseline "):
        model.database().drift_query("t", damage(baseline))
