"""A class is known wherever its rows are in the table, also if all of them are held out."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases

RNG = np.random.default_rng(0)
CODES = RNG.permutation(np.repeat([0, 1, 2, 3], [40, 40, 39, 1]))
FRAME = pl.DataFrame({
    "x": CODES + RNG.normal(size=120), "z": RNG.normal(size=120), "y": CODES, "held": CODES == 3,
    "day": np.argsort(np.argsort(CODES, kind="stable")),
})  # fmt: skip
FEATURES = {"features": ["x", "z"], "n_estimators": 2, "max_depth": 2, "verbose": False}
SPLITS = [{"valid": "held"}, {"valid": "y = 3 OR z > 1"}, {"valid": "last 10%", "time": "day"}, {"folds": 4}]


@pytest.mark.slow
@cases("options", SPLITS)
def test_numbers_of_classes_that_are_only_held_out_are_counted(options):
    """As if their number were set."""
    data = duckdb.from_arrow(FRAME.to_arrow()) if options == SPLITS[0] else FRAME
    made, told = (
        fb.fit(data, "y", objective="multi:softprob", **FEATURES, **options, **more) for more in ({}, {"num_class": 4})
    )
    assert made.ensemble.n_outputs == 4
    assert made.ensemble.trees == told.ensemble.trees


@pytest.mark.slow
@cases("options", SPLITS)
def test_labels_that_are_only_held_out_are_known(options):
    labelled = FRAME.with_columns(pl.col("y").replace_strict({0: "it's", 1: 'a "b"', 2: "c", 3: "rare"}))
    options = {name: "y = 'rare' OR z > 1" if value == "y = 3 OR z > 1" else value for name, value in options.items()}
    made = fb.fit(labelled, "y", **FEATURES, **options)
    assert list(made.ensemble.labels) == ['a "b"', "c", "it's", "rare"]


@pytest.mark.slow
def test_folds_of_a_class_of_one_row_are_all_of_its_classes():
    frames = [FRAME, FRAME.with_columns(pl.col("y").cast(pl.String))]
    for frame in frames:
        result = fb.cv(frame, "y", objective="multi:softprob", folds=3, return_models=True, **FEATURES)
        assert [model.ensemble.n_outputs for model in result.models] == [4, 4, 4]
    model = fb.auto(FRAME, "y", objective="multi:softprob", quality=2, **FEATURES)
    assert model.ensemble.n_outputs == 4


def test_rows_of_their_own_have_no_other_classes():
    """A label that is only there is taken for a mistake."""
    for frame in (FRAME, FRAME.with_columns(pl.col("y").cast(pl.String))):
        parts = frame.partition_by("held", as_dict=True)
        training, other = parts[(False,)], parts[(True,)]
        with pytest.raises(fb.DataError, match=r"classes 0 to 2|unknown from training"):
            fb.fit(training, "y", objective="multi:softprob", valid=other, **FEATURES)
