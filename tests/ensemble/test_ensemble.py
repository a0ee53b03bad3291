"""An ensemble counts its rounds, and hands out its trees by output and by round."""

import pickle
from functools import cache

import polars as pl
import pytest

import frameboost as fb

FRAME = pl.DataFrame({"x": [1, 2, 3, 4, 5, 6], "y": [0, 1, 2, 0, 1, 2]})


@cache
def ensemble():
    return fb.fit(FRAME, "y", objective="multi:softprob", n_estimators=4, num_parallel_tree=2).ensemble


def test_a_round_has_a_tree_for_each_output_and_parallel_tree():
    assert (ensemble().n_outputs, ensemble().parallel_trees, ensemble().trees_per_round) == (3, 2, 6)
    assert (len(ensemble().trees), ensemble().n_rounds) == (24, 4)
    assert [tree.output for tree in ensemble().trees[:6]] == [0, 0, 1, 1, 2, 2]


def test_trees_by_output_and_by_round():
    assert ensemble().trees_of(1) == [tree for i, tree in enumerate(ensemble().trees) if i % 6 in (2, 3)]
    middle = ensemble().rounds(1, 3)
    assert middle.trees == ensemble().trees[6:18]
    assert (middle.n_rounds, middle.features, middle.base_margins) == (2, ensemble().features, ensemble().base_margins)


def test_a_margin_needs_a_number_if_there_are_several():
    assert fb.fit(FRAME, "y", n_estimators=1).ensemble.margin_number(None) == 0
    assert ensemble().margin_number(2) == 2
    for wrong in (None, 3, -1, True, "0", 1.0):
        with pytest.raises(fb.ParameterError, match="output must be the number of a margin, from 0 to 2, not "):
            ensemble().margin_number(wrong)


def test_an_ensemble_is_frozen_and_is_all_that_a_model_file_holds(tmp_path):
    with pytest.raises(AttributeError):
        ensemble().trees = ()
    assert repr(ensemble()) == "Ensemble: multi:softprob, 24 trees, 1 feature"
    fb.Model(ensemble()).save(tmp_path / "model.json")
    read = fb.load(tmp_path / "model.json").ensemble
    for part in ("trees", "base_margins", "features"):
        assert getattr(read, part) == getattr(ensemble(), part)
    assert fb.Model(pickle.loads(pickle.dumps(ensemble()))) == fb.Model(ensemble())
