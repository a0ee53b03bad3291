"""An ensemble counts its rounds, and hands out its trees by output and by round."""

import pickle

import polars as pl
import pytest

import frameboost as fb

FRAME = pl.DataFrame({"x": [1, 2, 3, 4, 5, 6], "y": [0, 1, 2, 0, 1, 2]})
ENSEMBLE = fb.fit(FRAME, "y", objective="multi:softprob", n_estimators=4, num_parallel_tree=2).ensemble


def test_a_round_has_a_tree_for_each_output_and_parallel_tree():
    assert (ENSEMBLE.n_outputs, ENSEMBLE.parallel_trees, ENSEMBLE.trees_per_round) == (3, 2, 6)
    assert (len(ENSEMBLE.trees), ENSEMBLE.n_rounds) == (24, 4)
    assert [tree.output for tree in ENSEMBLE.trees[:6]] == [0, 0, 1, 1, 2, 2]


def test_trees_by_output_and_by_round():
    assert ENSEMBLE.trees_of(1) == [tree for i, tree in enumerate(ENSEMBLE.trees) if i % 6 in (2, 3)]
    middle = ENSEMBLE.rounds(1, 3)
    assert middle.trees == ENSEMBLE.trees[6:18]
    assert (middle.n_rounds, middle.features, middle.base_margins) == (2, ENSEMBLE.features, ENSEMBLE.base_margins)


def test_a_margin_needs_a_number_if_there_are_several():
    assert fb.fit(FRAME, "y", n_estimators=1).ensemble.margin_number(None) == 0
    assert ENSEMBLE.margin_number(2) == 2
    for wrong in (None, 3, -1, True, "0", 1.0):
        with pytest.raises(fb.ParameterError, match="output must be the number of a margin, from 0 to 2, not "):
            ENSEMBLE.margin_number(wrong)


def test_an_ensemble_is_frozen_and_is_all_that_a_model_file_holds(tmp_path):
    with pytest.raises(AttributeError):
        ENSEMBLE.trees = ()
    assert repr(ENSEMBLE) == "Ensemble: multi:softprob, 24 trees, 1 feature"
    fb.Model(ENSEMBLE).save(tmp_path / "model.json")
    read = fb.load(tmp_path / "model.json").ensemble
    assert (read.trees, read.base_margins, read.features) == (ENSEMBLE.trees, ENSEMBLE.base_margins, ENSEMBLE.features)
    assert fb.Model(pickle.loads(pickle.dumps(ENSEMBLE))) == fb.Model(ENSEMBLE)
