"""Folds of groups: the rows of a group stay together, in a frame as in a relation."""

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.data.held_out import fold_parts
from frameboost.data.opening import open_source
from frameboost.expressions.draws import draw_key, hash32
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.random_models import to_duckdb

CON = duckdb.connect()
GROUPS = st.lists(st.integers(-3, 9), min_size=12, max_size=40) | st.lists(st.sampled_from("abcdeé '"), min_size=12)


def dealt(data: object, folds: int, groups: str | None, seed: int) -> list[tuple[list[int], list[int]]]:
    def rows(part) -> list[int]:
        source = open_source(part)
        assert source.names() == ["row", "who"]
        return source.to_frame(["row"]).collect()["row"].to_list()

    return [(rows(a), rows(b)) for a, b in fold_parts(open_source(data), folds, None, seed, groups)]


@pytest.mark.slow
@settings(max_examples=examples(10), deadline=None)
@given(who=GROUPS.filter(lambda values: len(set(values)) >= 3), seed=st.integers(0, 5))
def test_groups_stay_together_and_are_dealt_evenly(who, seed):
    frame = pl.DataFrame({"row": range(len(who)), "who": who})
    parts = dealt(frame, 3, "who", seed)
    held_out = [{who[row] for row in held} for _, held in parts]
    assert sorted(row for _, held in parts for row in held) == list(range(len(who)))
    for (training, held), groups in zip(parts, held_out, strict=True):
        assert sorted(training + held) == list(range(len(who)))
        assert groups.isdisjoint(who[row] for row in training)
    sizes = sorted(map(len, held_out))
    assert sizes[-1] - sizes[0] <= 1
    CON.register("frame", frame)
    CON.execute("CREATE OR REPLACE TABLE rows AS FROM frame")
    assert dealt(CON.table("rows"), 3, "who", seed) == parts


@pytest.mark.slow
@settings(max_examples=examples(10), deadline=None)
@given(n=st.integers(5, 40), seed=st.integers(0, 50))
def test_no_fold_has_half_of_its_share_or_less(n, seed):
    drawn = [int(hash32(row, draw_key(seed, 20)) / 2**32 * 5) for row in range(n)]
    if min(map(drawn.count, range(5))) <= n // 5 / 2:  # dealt by rank of the draws
        order = sorted(range(n), key=lambda row: (hash32(row, draw_key(seed, 20)), row))
        drawn = [order.index(row) % 5 for row in range(n)]
    frame = pl.DataFrame({"row": range(n), "who": 0})
    expected = [([row for row in range(n) if drawn[row] != k], [row for row in range(n) if drawn[row] == k])
                for k in range(5)]  # fmt: skip
    CON.register("frame", frame)
    CON.execute("CREATE OR REPLACE TABLE few AS FROM frame")
    assert dealt(frame, 5, None, seed) == dealt(CON.table("few"), 5, None, seed) == expected


def test_fewer_rows_than_folds():
    with pytest.raises(fb.DataError, match="the data has 4 rows; 5 folds need as many"):
        fb.cv(pl.DataFrame({"x": range(4), "y": range(4)}), "y", folds=5)


@pytest.mark.parametrize(
    ("who", "message"),
    [
        (["a"] * 6, "groups column 'who' has one value in all rows; 3 folds need as many groups"),
        (["a", "b"] * 3, "groups column 'who' has 2 distinct values; 3 folds need as many groups"),
        (["a", "b", None] * 2, "groups column 'who' is NULL or NaN in 2 rows; set a group in every row"),
        ([[1], [2], [3]] * 2, r"groups column 'who' has type List\(Int64\), which can't identify groups"),
    ],
)
def test_groups_that_cannot_be_dealt(who, message):
    source = open_source(pl.DataFrame({"row": range(6), "who": who}))
    with pytest.raises(fb.DataError, match=message):
        list(fold_parts(source, 3, None, 0, "who"))


@pytest.mark.slow
@cases("options", [{"valid": 0.3}, {"valid": "last 20%", "time": "t"}, {"folds": "part"}])
def test_rows_of_a_database_stay_in_their_order(options):
    # Rows of a query are ranked by their positions where margins are equal, and samples are drawn by these.
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({name: rng.integers(0, high, 300) for name, high in zip("xzqt", (5, 4, 30, 20), strict=True)})
    frame = frame.with_columns(y=(pl.col("x") + pl.col("z")) // 3, part=pl.col("q") % 3)
    con = duckdb.connect()
    to_duckdb(con, frame, "rows_in_order")
    shape = {"n_estimators": 2, "max_depth": 2, "min_child_weight": 0, "subsample": 0.5, "verbose": False}
    options = {**options, **shape, "objective": "rank:ndcg", "group": "q", "features": ["x", "z"]}
    assert fb.fit(frame, "y", **options) == fb.fit(con.table("rows_in_order"), "y", **options)
