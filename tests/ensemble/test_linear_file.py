"""Linear leaves in both forms of the model file, and files whose linear leaves are damaged."""

import copy
import json
import math
import random

import numpy as np
import pytest

from frameboost.checks.json_files import read_ubjson, to_ubjson
from frameboost.ensemble.model_file import dump_binary, dump_model, read_model
from frameboost.errors import ModelFileError
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.random_models import random_model


def ensemble_of(seed: int):
    kinds = [FeatureType(name) for name in ("float64", "int32", "string", "float32")]
    model = random_model(kinds, list("abcd"), random.Random(seed), n_trees=3, depth=2, linear=True)
    return model.ensemble


def document() -> dict:
    """Return a file whose first tree has a linear leaf."""
    for seed in range(100):
        found = json.loads(dump_model(ensemble_of(seed)))
        if "linear" in found["trees"][0] and len(found["trees"][0]["feature"]) > 1:
            return found
    raise AssertionError


def linear_leaf(found: dict) -> tuple[int, dict]:
    leaves = found["trees"][0]["linear"]
    return next((node, leaf) for node, leaf in enumerate(leaves) if leaf is not None)


@cases("seed", range(30))
def test_random_models_come_back(seed):
    ensemble = ensemble_of(seed)
    assert any(tree.linear for tree in ensemble.trees) == ensemble.is_linear
    assert read_model(dump_model(ensemble).encode()) == ensemble
    assert read_model(dump_binary(ensemble)) == ensemble
    assert dump_binary(read_model(dump_model(ensemble).encode())) == dump_binary(ensemble)


def set_term(field: str, value: object):
    def damage(found: dict) -> None:
        linear_leaf(found)[1]["terms"][0][field] = value

    return damage


def between_steps(field: str):
    def damage(found: dict) -> None:
        term = linear_leaf(found)[1]["terms"][0]
        term[field] = term[field] + term["step"] / 2

    return damage


def move_to_split(found: dict) -> None:
    node, leaf = linear_leaf(found)
    linear = found["trees"][0]["linear"]
    linear[node], linear[0] = None, leaf


def off_the_grid(found: dict) -> None:
    leaf = linear_leaf(found)[1]
    leaf["constant"] = math.nextafter(leaf["constant"], 2.0)


@cases(
    ("damage", "message"),
    [
        (set_term("feature", 9), '"feature" must be the number of a feature of floats or integers'),
        (set_term("feature", 2), '"feature" must be the number of a feature of floats or integers'),
        (set_term("feature", True), '"feature" must be a feature\'s number'),
        (set_term("slope", None), '"slope" must be a finite number'),
        (set_term("slope", "1"), '"slope" must be a finite number'),
        (set_term("step", 3.0), '"step" must be a power of two'),
        (set_term("step", -1.0), '"step" must be a power of two'),
        (set_term("step", 0), '"step" must be a power of two'),
        (set_term("step", 2.0**500), '"step" must be a power of two'),
        (set_term("more", 1), 'unknown field "more"'),
        (between_steps("centre"), '"centre" must be a multiple of the step'),
        (between_steps("low"), '"low" must be a multiple of the step'),
        (set_term("high", 2.0**300), '"high" must be a multiple of the step'),
        (set_term("low", 2.0**300), '"low" must be a multiple of the step'),
        (lambda found: found["trees"][0].update(linear=[]), "entries"),
        (lambda found: found["trees"][0].update(linear=3), '"linear" must be a list'),
        (
            lambda found: found["trees"][0].update(linear=[None] * len(found["trees"][0]["feature"])),
            "has no linear leaf",
        ),
        (lambda found: found["trees"][0].update(linear=[1] * len(found["trees"][0]["feature"])), "null or an object"),
        (lambda found: linear_leaf(found)[1].update(terms=[]), "1 to 6 terms"),
        (lambda found: linear_leaf(found)[1].update(terms=[4]), "a list of objects"),
        (lambda found: linear_leaf(found)[1].update(constant="x"), '"constant" must be a finite number'),
        (lambda found: linear_leaf(found)[1].update(other=1), 'unknown field "other"'),
        (lambda found: linear_leaf(found)[1].update(terms=2 * linear_leaf(found)[1]["terms"]), "different features"),
        (move_to_split, "only a leaf may be linear"),
        (off_the_grid, "on the grid of the leaf values"),
    ],
)
def test_damaged_files_say_what_is_wrong(damage, message):
    found = copy.deepcopy(document())
    damage(found)
    with pytest.raises(ModelFileError) as error:
        read_model(json.dumps(found).encode())
    assert message in str(error.value)


def binary(**changed: object) -> bytes:
    """Return a binary file with other columns of linear leaves; None leaves one out."""
    ensemble = next(each for each in map(ensemble_of, range(100)) if each.is_linear)
    parts = read_ubjson(dump_binary(ensemble), "test", arrays=True)
    for name, value in changed.items():
        if value is None:
            del parts["trees"][name]
        else:
            parts["trees"][name] = value(parts["trees"][name]) if callable(value) else value
    return to_ubjson(parts)


@cases(
    ("changed", "message"),
    [
        ({"linear_at": None}, '"linear_at" must be an array of numbers'),
        ({"linear_slope": None}, '"linear_slope" must be an array of numbers'),
        ({"linear_slope": lambda v: v[:-1]}, "must have equally many entries"),
        ({"linear_slope": lambda v: v * np.nan}, "must be finite"),
        ({"linear_constant": lambda v: v[:-1]}, "must have equally many entries"),
        ({"linear_constant": lambda v: v * np.inf}, '"constant" must be a finite number'),
        ({"linear_size": lambda v: v + 1}, '"linear_size" must be the numbers of terms'),
        ({"linear_size": lambda v: v * 0}, '"linear_size" must be the numbers of terms'),
        ({"linear_at": lambda v: v[::-1].copy()}, "nodes in ascending order"),
        ({"linear_at": lambda v: v + 10_000}, "nodes in ascending order"),
        ({"linear_step": lambda v: v * 3}, '"step" must be a power of two'),
        ({"linear_feature": lambda v: v + 7}, '"feature" must be the number of a feature'),
        ({"linear_feature": lambda v: v.astype(np.float64)}, '"linear_feature" must be an array of numbers of its'),
    ],
)
def test_damaged_binary_files_say_what_is_wrong(changed, message):
    with pytest.raises(ModelFileError) as error:
        read_model(binary(**changed))
    assert message in str(error.value)
