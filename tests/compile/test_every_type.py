"""Every form of scoring in DuckDB takes the same branches for every feature type, also at and next to thresholds."""

import math
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.losses.built_in import get_loss
from frameboost.schema.types import TYPE_NAMES, Feature, FeatureType
from frameboost.trees.tree import Tree
from tests.support.cases import cases
from tests.support.models import model_of_parts
from tests.support.random_models import odd_values, to_duckdb, to_polars

DECIMALS = ["decimal(1,0)", "decimal(4,2)", "decimal(9,9)", "decimal(18,0)", "decimal(19,3)", "decimal(38,10)"]
NO_UDF = {"uint128", "duration[ms]", "duration[us]", "duration[ns]"}
# The type that a column of the feature has in DuckDB where it has not all of ours, and what else holds the same values.
COARSE = {"timestamptz[ms]": "timestamptz[us]", "duration[ms]": "duration[us]", "duration[ns]": "duration[us]",
          "codes": "int64"}  # fmt: skip
CASTS = {"timestamp[ms]": ["TIMESTAMP_S"], "string": ["ENUM"]}
PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
CATEGORIES = {"string": ("", "A", "a", "it's", "日本"), "codes": (-1, 0, 3, 2**40)}


def thresholds(kind: FeatureType) -> list:
    """Return the odd values, also such as no column of DuckDB's has."""
    numbers = sorted({value + 0 for value in odd_values(kind)})
    return [*numbers, 500, 1_001, -1] if kind.name == "duration[ns]" else numbers


def questions(kind: FeatureType) -> list[dict]:
    """Return what stumps ask: each threshold or set of categories with missing values on either side."""
    if kind.is_categorical:
        asked = [{"categories": codes} for codes in [(0,), (1, 2), (3,), (0, 2, 3)]]
    else:
        asked = [{"threshold": t + 0.0 if kind.is_float else t} for t in thresholds(kind)]
    return [{"threshold": None, "categories": None, "left": left} | q for q in asked for left in (False, True)] + [
        {"threshold": None, "categories": None, "left": False}  # the present go left
    ]


def model_of(kind: FeatureType) -> fb.Model:
    """Return a model whose margin has a bit for each question, set where a value goes left."""
    trees = [
        Tree(feature=(0, -1, -1), threshold=(q["threshold"], None, None), categories=(q["categories"], None, None),
             missing_left=(q["left"], False, False), left=(1, -1, -1), right=(2, -1, -1), gain=(0.0,) * 3,
             cover=(1.0,) * 3, value=(0.0, 2.0**bit, 0.0))
        for bit, q in enumerate(questions(kind))
    ]  # fmt: skip
    feature = Feature("x", kind, CATEGORIES.get(kind.name, ()))
    return model_of_parts(get_loss("reg:squarederror", {"scale_pos_weight": 1.0}), {}, [feature], [0.0], trees)


def expected(kind: FeatureType, stored: FeatureType, values: list) -> list[float]:
    """Return the margins, worked out from the questions in exact numbers."""
    scale = Fraction(PER_SECOND[kind.unit], PER_SECOND[stored.unit]) if kind.unit else 1
    margins = []
    for value in values:
        missing = value is None or value != value
        left = []
        for q in questions(kind):
            if missing:
                left.append(q["left"])
            elif q["categories"] is not None:
                named = value in [CATEGORIES[kind.name][code] for code in q["categories"]]
                left.append(named != q["left"])  # values that are not named go where missing ones do
            elif q["threshold"] is None:
                left.append(True)
            else:
                left.append((value if math.isinf(value) else value * scale) < q["threshold"])
        margins.append(float(sum(is_left << bit for bit, is_left in enumerate(left))))
    return margins


def column_values(kind: FeatureType, stored: FeatureType) -> list:
    """Return physical values of a column: the thresholds, their neighbours, missing values and what else is odd."""
    if kind.is_categorical:
        other = ["b", " a", "A "] if kind.name == "string" else [-2, 1, 2**40 + 1]
        return [*CATEGORIES[kind.name], None, *other]
    values = list(odd_values(stored))
    for threshold in thresholds(kind):
        if stored.is_float:
            number = np.float32 if stored.name == "float32" else np.float64
            with np.errstate(over="ignore"):
                values += (float(np.nextafter(number(threshold), number(way))) for way in (threshold, -np.inf, np.inf))
        else:
            at = threshold * PER_SECOND[stored.unit] // PER_SECOND[kind.unit] if kind.unit else threshold
            low, high = stored.bounds
            values += [value for value in (at - 1, at, at + 1) if low <= value <= high]
    return [*values, None, *([math.nan] if stored.is_float else [])]


@pytest.fixture(scope="module")
def con():
    con = duckdb.connect()
    con.execute("SET TimeZone = 'Pacific/Auckland'; SET threads = 1")
    return con


def load(con: duckdb.DuckDBPyConnection, stored: FeatureType, values: list, cast: str | None) -> list:
    """Make table t with columns position and x of the values, and return those that it holds."""
    if cast == "TIMESTAMP_S":
        values = [None if value is None else value // 1000 * 1000 for value in values]
    to_duckdb(con, pl.DataFrame([to_polars(stored, values, "x")]), "t")
    if cast == "ENUM":
        con.execute("CREATE OR REPLACE TYPE mood AS ENUM (SELECT DISTINCT x FROM t WHERE x IS NOT NULL)")
        cast = "mood"
    if cast is not None:
        con.execute(f"CREATE OR REPLACE TABLE t AS SELECT * REPLACE (CAST(x AS {cast}) AS x) FROM t")
    return values


COLUMNS = [(name, cast) for name in (*TYPE_NAMES, *DECIMALS) for cast in (None, *CASTS.get(name, ()))]


@pytest.mark.slow
@cases(("type_name", "cast"), COLUMNS)
def test_every_form_decides_alike(con, type_name, cast):
    kind, stored = FeatureType(type_name), FeatureType(COARSE.get(type_name, type_name))
    values = load(con, stored, column_values(kind, stored), cast)
    assert stored == FeatureType.from_duckdb(str(con.table("t").types[-1]).replace("mood", "ENUM()"))
    model, margins = model_of(kind), expected(kind, stored, values)

    def scored(query: str) -> list[float]:
        rows = sorted(con.execute(query).fetchall())
        assert [row[0] for row in rows] == list(range(len(values)))
        return [row[1] for row in rows]

    assert len(set(margins)) > 2, "the values do not tell the questions apart"
    assert scored(f"SELECT position, {model.sql('margin')} FROM t") == margins
    for statement in model.database().table_statements("trees"):
        con.execute(statement.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"))
    for form in ("case", "lists", "staged", "table", "sorted"):
        how = {"form": form, "trees": "trees" if form == "table" else None}
        assert scored(model.query("t", keep=["position"], output="margin", **how)) == margins, form
    assert model.predict(con.table("t"), output="margin").to_list() == margins
    if cast is None:  # the same column as a frame
        frame = pl.DataFrame([to_polars(stored, values, "x")])
        assert model.predict(frame, output="margin").to_list() == margins
        if stored == kind:
            assert frame.select(model.expr("margin")).to_series().to_list() == margins
    for form in ("macro", "udf"):
        if form == "macro" or type_name not in NO_UDF:
            model.register(con, f"{form}_{type_name}", output="margin", form=form)
            assert scored(f'SELECT position, "{form}_{type_name}"(x) FROM t') == margins, form
