"""Tables with many rows a key, aggregated: the same numbers in polars, in DuckDB and in every database's SQL."""

import json
import math

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.examples import examples
from tests.support.warehouses import ALL, open_warehouse

STRING, INT, FLOAT = (FeatureType(name) for name in ("string", "int64", "float32"))
FUNCTIONS = ["sum", "mean", "min", "max", "last"]
COLUMNS = {"price": FUNCTIONS, "rate": FUNCTIONS, "what": ["last"]}
NAMES = ["count", *(f"{name}_{function}" for name in ("price", "rate") for function in FUNCTIONS), "what_last"]


def tables(seed, n_visits=30, n_orders=60):
    """Return visits and the orders of customers: keys and times are missing, and several orders are at one time."""
    rng = np.random.default_rng(seed)

    def some(values, share=0.1):
        return [None if rng.random() < share else value for value in values]

    visits = {
        "customer": (STRING, some(rng.choice(["a", "A", "b", "c", "z"], n_visits).tolist())),
        "at": (INT, some(rng.integers(0, 10, n_visits).tolist())),
        "y": (INT, rng.integers(0, 50, n_visits).tolist()),
    }
    orders = {
        "customer": (STRING, some(rng.choice(["a", "A", "b", "c", "d"], n_orders).tolist())),
        "day": (INT, some(rng.integers(0, 10, n_orders).tolist())),
        "price": (INT, some(rng.integers(-9, 9, n_orders).tolist(), 0.3)),
        "rate": (FLOAT, some(rng.choice([math.nan, -1.5, 0.0, 2.5], n_orders).tolist(), 0.3)),
        "what": (STRING, some(rng.choice(["u", "V", "w"], n_orders).tolist(), 0.3)),
    }
    return visits, orders


def frame(columns):
    return pl.DataFrame({name: pl.Series(values, dtype=kind.to_polars()) for name, (kind, values) in columns.items()})


def by_hand(visits, orders, before):
    """Return the aggregates of each visit, worked out row by row."""
    rows = [row for row in frame(orders).to_dicts() if row["day"] is not None]
    found = []
    for visit in frame(visits).to_dicts():
        seen = [
            row for row in rows
            if visit["customer"] is not None and row["customer"] == visit["customer"]
            and (not before or (visit["at"] is not None and row["day"] < visit["at"]))
        ]  # fmt: skip
        if not seen:
            found.append((None,) * len(NAMES))
            continue
        latest = [row for row in seen if row["day"] == max(row["day"] for row in seen)]
        of_columns = []
        for name in ("price", "rate"):
            values, last = ([row[name] for row in rows if is_present(row[name])] for rows in (seen, latest))
            of_columns += [sum(values), sum(values) / len(values), min(values), max(values)] if values else [None] * 4
            of_columns.append(max(last, default=None))
        of_text = max((row["what"] for row in latest if row["what"] is not None), default=None)
        found.append((len(seen), *of_columns, of_text))
    return found


def is_present(value):
    return value is not None and value == value


def joined(visits, orders, before):
    aggregates = fb.aggregate(orders, by="customer", columns=COLUMNS, time="day")
    return fb.join(visits, aggregates, on="customer", before="at" if before else None, name="orders")


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(3))
@given(st.integers(0, 10**6), st.booleans())
def test_aggregates_are_those_by_hand(seed, before):
    visits, orders = tables(seed)
    expected = by_hand(visits, orders, before)
    assert joined(frame(visits), frame(orders), before).collect().select(NAMES).rows() == expected
    with duckdb.connect() as con:
        con.register("visits", frame(visits))
        con.register("orders", frame(orders))
        found = joined(con.table("visits"), con.table("orders"), before).collect()
        assert found.select(NAMES).rows() == expected
        assert found.schema == joined(frame(visits), frame(orders), before).collect().schema


@pytest.mark.parametrize("name", ALL)
def test_a_query_has_the_aggregates(name):
    visits, orders = tables(5)
    database = open_warehouse(name)
    database.fill("visits", visits)
    kind, rates = orders["rate"]
    held = {**orders, "rate": (kind, [rate if database.holds(FLOAT, rate) else None for rate in rates])}
    database.fill("orders", held)
    for before in (False, True):
        star = joined(frame(visits), frame(orders), before)
        model = star.pipe(fb.fit, target="y", features=NAMES, n_estimators=2, min_child_weight=0)
        found = sorted(database.rows(model.query("visits", name, keep=["id"])))
        assert [value for _, value in found] == model.predict(star).to_list()
        assert len({value for _, value in found}) > 3


def test_trees_are_those_of_the_aggregated_columns():
    visits, orders = tables(6, 500, 900)
    star = joined(frame(visits), frame(orders), before=True)
    by_columns = frame(visits).hstack(pl.DataFrame(by_hand(visits, orders, before=True), schema=NAMES, orient="row"))
    by_columns = by_columns.with_columns(pl.col("price_sum").cast(pl.Float64))
    how = {"target": "y", "features": NAMES, "n_estimators": 5}
    assert star.pipe(fb.fit, **how).trees.equals(fb.fit(by_columns, **how).trees)


def test_the_future_does_not_leak():
    # Every order comes after the visit that it was caused by: what is known before says nothing.
    rng = np.random.default_rng(0)
    bought = rng.random(2_000) < 0.5
    visits = pl.DataFrame({"customer": np.arange(2_000), "at": 10, "bought": bought.astype(int)})
    orders = visits.filter(bought=1).select("customer", day=pl.col("at") + 1)
    old = pl.DataFrame({"customer": rng.integers(0, 2_000, 1_000), "day": 3}).with_columns(pl.col("day").cast(pl.Int32))
    aggregates = fb.aggregate(pl.concat([orders, old]), by="customer", time="day")
    errors = []
    for before in (None, "at"):
        star = fb.join(visits, aggregates, on="customer", before=before)
        model = star.pipe(fb.fit, target="bought", features=["count"])
        errors.append((model.predict(star) - visits["bought"]).pow(2).mean())
    assert errors[0] < 0.2 < 0.23 < errors[1]


def test_a_key_of_several_columns():
    facts = pl.DataFrame({"c": [1, 1, 2], "store": ["n", "s", "n"], "y": [1.0, 2.0, 3.0]})
    sales = pl.DataFrame({"who": [1, 1, 1, 2], "shop": ["n", "n", "s", "s"], "v": [1, 2, 3, 4]})
    sums = fb.aggregate(sales, ["who", "shop"], {"v": "sum"})
    swapped = {"left_on": ["store", "c"], "right_on": ["shop", "who"]}
    for star in (fb.join(facts, sums, left_on=["c", "store"]), fb.join(facts, sums, **swapped)):
        assert star.collect().select("count", "v_sum").rows() == [(2, 3.0), (1, 3.0), (None, None)]


@pytest.fixture(scope="module")
def model():
    visits, orders = tables(5)
    star = joined(frame(visits), frame(orders), before=True)
    return star.pipe(fb.fit, target="y", features=NAMES, n_estimators=2, min_child_weight=0)


def test_the_aggregation_is_in_the_file(tmp_path, model):
    model.save(tmp_path / "m.json")
    loaded = fb.load(tmp_path / "m.json")
    assert loaded == model
    assert loaded.query("visits") == model.query("visits")
    aggregation = json.loads(model.to_json())["joins"][0]["aggregation"]
    assert aggregation["by"] == ["customer"]
    assert aggregation["values"]["price_mean"] == {"function": "mean", "column": "price"}
    assert (aggregation["time"], aggregation["before"]) == ("day", True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ([], "GROUP BY"), (["by"], []), (["by"], ["id"]), (["values"], []),
        (["values", "count"], {"function": "count", "column": "price"}),
        (["values", "price_sum"], {"function": "sum(x)); DROP", "column": "price"}), (["values", "price_sum"], "sum"),
        (["values"], {"count": {"function": "count", "column": ""}}), (["time"], None), (["time"], 3),
        (["before"], "yes"), (["types"], ["price"]), (["types", "price"], "INTEGER"), (["types", "other"], "int64"),
        (["more"], 1),
    ],
)  # fmt: skip
def test_damaged_files(tmp_path, model, path, value):
    document = json.loads(model.to_json())
    place, keys = document["joins"][0], ["aggregation", *path]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    (tmp_path / "m.json").write_text(json.dumps(document))
    with pytest.raises(fb.ModelFileError, match="join 0"):
        fb.load(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"by": []}, fb.ParameterError, "by is an empty list; name at least one column"),
        ({"by": "id"}, fb.DataError, "column 'id' is not in the table to aggregate"),
        ({"by": "customer", "columns": ["price"]}, fb.ParameterError, "columns must be a dict"),
        ({"by": "customer", "columns": {"price": "median"}}, fb.ParameterError, "columns has 'median' for 'price'"),
        ({"by": "customer", "columns": {"price": "last"}}, fb.ParameterError, "'last' needs time"),
        ({"by": "customer", "columns": {"what": "sum"}}, fb.DataError, "'what' has type String, which has no sum"),
        ({"by": "customer", "columns": {"prise": "sum"}}, fb.DataError, "'prise' is not in the table"),
    ],
)
def test_refused_aggregates(how, error, message):
    with pytest.raises(error, match=message):
        fb.aggregate(frame(tables(0)[1]), **how)


def test_refused_joins_of_aggregates():
    visits, orders = (frame(columns) for columns in tables(0))
    untimed, timed = fb.aggregate(orders, "customer"), fb.aggregate(orders, "customer", time="day")
    with pytest.raises(fb.ParameterError, match="before needs the times of the rows"):
        fb.join(visits, untimed, before="at")
    with pytest.raises(fb.ParameterError, match="the key of the aggregates is 'customer', not 'day'"):
        fb.join(visits, timed, left_on="at", right_on="day")
    with pytest.raises(fb.ParameterError, match=r"before is for aggregates; pass fb\.aggregate"):
        fb.join(visits, orders, on="customer", before="at")
    with pytest.raises(fb.DataError, match="'customer' has type String, and 'day' of dimension 1 has type Int64"):
        fb.join(visits, timed, on="customer", before="customer")
