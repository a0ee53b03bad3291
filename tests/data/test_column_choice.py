"""Columns chosen by polars selectors and by functions of a name, and left out by ``exclude``."""

import re
from functools import cache

import duckdb
import polars as pl
import polars.selectors as cs
import pytest

import frameboost as fb
from frameboost.engines import query_costs
from tests.support.cases import cases
from tests.support.engines import as_relation

FRAME = pl.DataFrame(
    {
        "id": range(40), "x_1": [i % 7 for i in range(40)], "x_2": [i % 3 / 2 for i in range(40)],
        "kind": ["a", "b"] * 20, "w": [1.0, 2.0] * 20, "held": [i % 5 == 0 for i in range(40)],
        "y": [i % 7 * 1.0 for i in range(40)],
    }
)  # fmt: skip
ROLES = {"weight": "w", "valid": "held", "n_estimators": 1}
CHOICES = {
    "selector": (cs.numeric(), None, ["id", "x_1", "x_2"]),
    "difference": (cs.numeric() - cs.by_name("id"), None, ["x_1", "x_2"]),
    "by type": (cs.string(), None, ["kind"]),
    "all": (cs.all(), None, ["id", "x_1", "x_2", "kind"]),
    "expression": (pl.col("kind", "x_1"), None, ["kind", "x_1"]),
    "pattern": (pl.col("^x_.*$"), None, ["x_1", "x_2"]),
    "function": (lambda name: name.startswith("x"), None, ["x_1", "x_2"]),
    "function that is true or not": (re.compile("x|held").match, None, ["x_1", "x_2"]),
    "list": (["kind", cs.starts_with("x"), cs.by_name("kind")], None, ["kind", "x_1", "x_2"]),
    "exclude one": (None, "id", ["x_1", "x_2", "kind"]),
    "exclude several": (None, ["id", "kind"], ["x_1", "x_2"]),
    "exclude a selector": (None, cs.integer(), ["x_2", "kind"]),
    "exclude by a function": (None, lambda name: "_" in name, ["id", "kind"]),
    "exclude of a selector": (cs.numeric(), "id", ["x_1", "x_2"]),
    "exclude of names": (["kind", "id"], ["id", "y"], ["kind"]),
}


@pytest.fixture(autouse=True)
def _read(monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", 10**6)  # no engine has a say in this


@cache
def relation() -> duckdb.DuckDBPyRelation:
    return as_relation(FRAME)


@cases("name", CHOICES)
def test_columns_are_chosen(name):
    features, exclude, expected = CHOICES[name]
    assert fb.fit(FRAME, "y", features=features, exclude=exclude, **ROLES).features == expected


@pytest.mark.slow
def test_relations_are_chosen_from_by_the_types_that_polars_gives():
    con = duckdb.connect()
    con.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    rows = con.sql(
        "SELECT i, CAST(i AS HUGEINT) AS h, CAST(i / 2 AS DECIMAL(5, 1)) AS d, CAST('good' AS mood) AS m, [i] AS l, "
        "DATE '2020-01-01' + CAST(i AS INTEGER) AS day, CAST(i AS VARCHAR) AS s, i * 2.5 AS y FROM range(20) AS r(i)"
    )
    for choice, expected in (
        (cs.numeric(), ["i", "h", "d"]), (cs.decimal(), ["d"]), (cs.string() | cs.temporal(), ["day", "s"]),
        (cs.categorical(), ["m"]), (~cs.nested() - cs.numeric(), ["m", "day", "s"]),
    ):  # fmt: skip
        assert fb.fit(rows, "y", features=choice, n_estimators=1).features == expected
    with pytest.raises(fb.DataError, match=r"^feature 'l' has type BIGINT\[\], which can't .* with exclude=\['l'\]$"):
        fb.fit(rows, "y", features=cs.all())


def test_cross_validation_chooses_alike():
    expected = fb.cv(FRAME, "y", features=["x_1", "x_2"], folds="kind", n_estimators=2)
    for data in (FRAME, relation()):
        chosen = fb.cv(data, "y", features=cs.starts_with("x", "kind"), folds="kind", n_estimators=2)
        assert chosen.equals(expected)
        left = fb.cv(data, "y", exclude=["id", "w", "held"], folds="kind", n_estimators=2)
        assert left.equals(expected)


_REFUSED = {
    "misspelt": ({"exclude": ["x_3"]}, "exclude column 'x_3' is not in the data; did you mean 'x_2'?"),
    "one misspelt": ({"exclude": "knd"}, "exclude column 'knd' is not in the data; did you mean 'kind'?"),
    "misspelt in a selector": ({"features": cs.numeric() - cs.by_name("idd")},
                               "feature column 'idd' is not in the data; did you mean 'id'?"),
    "computed": ({"features": pl.col("x_1") + 1},
                 "features takes columns of the data; [(col(\"x_1\")) + (dyn int: 1)] computes one: add it to the data "
                 "with with_columns first"),
    "nothing": ({"features": cs.duration()}, "selects no column of 'id', 'x_1', 'x_2', 'kind', 'w', 'held', 'y'"),
    "nothing left": ({"features": ["x_1"], "exclude": cs.integer()}, "leaves no feature of 'x_1'"),
    "a number": ({"exclude": 3},
                 "exclude must be a list of column names, a polars selector or a function of a name, not 3"),
    "a list of numbers": ({"exclude": [3]}, "exclude must name columns, not 3"),
    "twice": ({"features": ["x_1", cs.by_name("x_2"), "x_1"]}, "feature 'x_1' is listed 2 times"),
    "a name with a role": ({"features": ["x_1", "y"]}, "feature 'y' is also the target"),
}  # fmt: skip


@cases("name", _REFUSED)
def test_what_is_no_choice_is_refused(name):
    arguments, message = _REFUSED[name]
    for data in (FRAME, relation()):
        with pytest.raises((fb.DataError, fb.ParameterError)) as error:
            fb.fit(data, "y", **arguments)
        assert str(error.value).endswith(message), str(error.value)
