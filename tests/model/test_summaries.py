"""Trees and importances as frames, worked out by hand."""

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest

import frameboost as fb

HAND = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0}


def test_a_tree_by_hand():
    # The mean is 4, so g = 4, 2, 0, -6 and h = 1. x < 2 gains 16/1 + 16/3, x < 3 36/2 + 36/2, x < 4 36/3 + 36/1 = 48.
    # Of the first three x < 2 gains 16/1 + 4/2 - 36/3 = 6 and x < 3 36/2 + 0/1 - 36/3 = 6: the lower threshold it is.
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 2.0, 4.0, 10.0]})
    model = fb.fit(frame, "y", max_depth=2, **HAND)
    assert model.base_margin == 4.0
    assert model.trees.drop("categories", "tree").rows() == [
        (0, 0, "x", 4.0, "right", 1, 2, 48.0, 4.0, 0.0, '"x" < 4'),
        (1, 1, "x", 2.0, "right", 3, 4, 6.0, 3.0, -2.0, '"x" < 2'),
        (2, 1, None, None, None, None, None, 0.0, 1.0, 6.0, None),
        (3, 2, None, None, None, None, None, 0.0, 1.0, -4.0, None),
        (4, 2, None, None, None, None, None, 0.0, 2.0, -1.0, None),
    ]
    assert model.trees.schema == {
        "tree": pl.Int32, "node": pl.Int32, "depth": pl.Int32, "feature": pl.String, "threshold": pl.Float64,
        "categories": pl.List(pl.String), "missing": pl.String, "left": pl.Int32, "right": pl.Int32,
        "gain": pl.Float64, "cover": pl.Float64, "value": pl.Float64, "condition": pl.String,
    }  # fmt: skip
    assert model.importance("weight").rows() == [("x", 2.0)]
    assert model.importance("gain").rows() == [("x", 27.0)]
    assert model.importance("total_gain").rows() == [("x", 54.0)]
    assert model.importance("cover").rows() == [("x", 3.5)]
    assert model.importance("total_cover").rows() == [("x", 7.0)]


@pytest.mark.parametrize(
    ("values", "threshold", "condition"),
    [
        ([1.5, 2.5], 2.0, '"x" < 2.0e0'),
        ([Decimal("1.25"), Decimal("2.50")], 2.5, "\"x\" < CAST('2.50' AS DECIMAL(38, 2))"),
        ([dt.date(2013, 7, 1), dt.date(2013, 7, 2)], 15_888.0, "\"x\" < DATE '2013-07-02'"),
        ([dt.timedelta(seconds=1), dt.timedelta(seconds=2)], 2e6, '"x" < to_microseconds(2000000)'),
        ([dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 2, 3)], 97_200e6, "\"x\" < TIMESTAMP '1970-01-02 03:00:00'"),
        ([False, True], 1.0, '"x" < TRUE'),
    ],
)
def test_conditions_are_in_the_columns_own_terms(values, threshold, condition):
    frame = pl.DataFrame({"x": values, "y": [0.0, 2.0]})
    root = fb.fit(frame, "y", **HAND).trees.row(0, named=True)
    assert (root["threshold"], root["condition"], root["categories"]) == (threshold, condition, None)


def test_categories_are_those_that_missing_does_not_go_with():
    frame = pl.DataFrame({"x": ["a", "b", "c", None], "y": [0.0, 0.0, 4.0, 4.0]})
    root = fb.fit(frame, "y", **HAND, cat_smooth=0).trees.row(0, named=True)
    # c is parted from the rest and missing goes with it, so a and b are named.
    assert (root["categories"], root["missing"], root["condition"]) == (["a", "b"], "right", "\"x\" IN ('a', 'b')")
    root = fb.fit(frame, "y", **HAND, max_cat_to_onehot=1, cat_smooth=0).trees.row(0, named=True)
    # Sorted by weight a and b are the lowest, and go right.
    assert (root["categories"], root["missing"], root["condition"]) == (["a", "b"], "left", "NOT \"x\" IN ('a', 'b')")


def test_presence_has_neither_threshold_nor_categories():
    frame = pl.DataFrame({"x": [1, 1, None], "y": [0.0, 0.0, 3.0]})
    root = fb.fit(frame, "y", **HAND).trees.row(0, named=True)
    assert (root["threshold"], root["categories"], root["missing"], root["condition"]) == (
        None, None, "right", '"x" IS NOT NULL',
    )  # fmt: skip


def test_features_never_split_on_matter_not():
    frame = pl.DataFrame({"x": [1, 2], "z": [1, 1], "y": [0.0, 2.0]})
    for kind in ("gain", "total_gain", "weight", "cover", "total_cover"):
        assert fb.fit(frame, "y", **HAND).importance(kind).rows()[1] == ("z", 0.0)


def test_an_unknown_importance_is_refused():
    model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 1]}), "y", n_estimators=1)
    with pytest.raises(fb.ParameterError, match=r"^importance must be one of 'gain', .*, not 'split'$"):
        model.importance("split")


def test_repr_is_a_few_lines_for_any_model():
    frame = pl.DataFrame({f"feature_{i}": [1, 2, 3] for i in range(50)} | {"y": [0.0, 1.0, 5.0]})
    text = repr(fb.fit(frame, "y", n_estimators=2))
    assert text.startswith("Model: reg:squarederror, 2 trees (depth ")
    assert "50 features" in text
    assert len(text.splitlines()) == 10
    assert text.endswith("... and 42 more")


def test_a_name_without_end_is_cut():
    name = "x" * 10**6
    model = fb.fit(pl.DataFrame({name: [1, 2, 3], "y": [0, 1, 2]}), "y", n_estimators=1)
    assert repr(model).splitlines()[1] == "  " + "x" * 77 + "...  int64"
