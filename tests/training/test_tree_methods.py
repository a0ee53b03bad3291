"""The choice of a tree method by parameters; its table covers all their values and all engines."""

import typing

import pytest

import frameboost as fb
from frameboost.engines import contract
from frameboost.engines.choose import BUILT_IN
from frameboost.engines.contract import LinearEngine, VectorEngine
from frameboost.parameters.parameters import Parameters
from frameboost.training.open_nodes import GROW_POLICIES
from frameboost.training.train import choose_tree_method
from tests.support.cases import cases

HINTS = typing.get_type_hints(Parameters)


@cases(
    ("parameters", "needed", "of_held_out"),
    [
        ({}, contract.HistogramEngine, contract.HistogramEngine),
        ({"tree_method": "hist", "grow_policy": "lossguide"}, contract.HistogramEngine, contract.HistogramEngine),
        ({"grow_policy": "symmetric"}, contract.HistogramEngine, contract.HistogramEngine),
        ({"linear_tree": True}, LinearEngine, LinearEngine),
        ({"linear_tree": True, "grow_policy": "symmetric"}, LinearEngine, LinearEngine),
        ({"multi_strategy": "multi_output_tree"}, VectorEngine, VectorEngine),
        (
            {"multi_strategy": "multi_output_tree", "grow_policy": "symmetric", "linear_tree": True},
            contract.LinearVectorEngine,
            contract.LinearVectorEngine,
        ),
        ({"tree_method": "exact"}, contract.ColumnBlockEngine, contract.FollowerEngine),
        ({"tree_method": "approx"}, contract.RebinningEngine, contract.FollowerEngine),
        ({"tree_method": "approx", "proposal": "local"}, contract.NodeBinningEngine, contract.FollowerEngine),
    ],
)
def test_each_tree_method_asks_for_one_contract(parameters, needed, of_held_out):
    method = choose_tree_method(Parameters(**parameters))
    assert (method.contract, method.held_out_contract) == (needed, of_held_out)


def test_every_value_of_the_parameters_is_in_a_table():
    assert set(typing.get_args(HINTS["grow_policy"])) == set(GROW_POLICIES)
    for tree_method in typing.get_args(HINTS["tree_method"]):
        for proposal in typing.get_args(HINTS["proposal"]) if tree_method == "approx" else ["global"]:
            assert choose_tree_method(Parameters(tree_method=tree_method, proposal=proposal))


@pytest.mark.parametrize("engine", BUILT_IN, ids=lambda engine: engine.name)
def test_built_in_engines_satisfy_contracts_that_there_are(engine):
    known = {getattr(contract, name) for name in contract.__all__ if name.endswith("Engine")} - {contract.Engine}
    assert set(engine.openers) <= known
    assert contract.HistogramEngine in engine.openers


@cases(
    ("parameters", "message"),
    [
        ({"tree_method": "exact"},
         "cuts can't be combined with tree_method='exact', which splits between any two values"),
        ({"tree_method": "approx"},
         "cuts can't be combined with tree_method='approx', which finds its own for each tree"),
        ({"tree_method": "approx", "proposal": "local"},
         "cuts can't be combined with tree_method='approx' and proposal='local', which finds its own in each node"),
    ],
)  # fmt: skip
def test_cuts_are_refused_where_they_have_no_effect(parameters, message):
    with pytest.raises(fb.ParameterError) as error:
        choose_tree_method(Parameters(**parameters)).check_cuts({"x": [1.0]})
    assert str(error.value) == message
    choose_tree_method(Parameters(**parameters)).check_cuts(None)
    choose_tree_method(Parameters()).check_cuts({"x": [1.0]})
