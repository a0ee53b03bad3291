"""Trees without branches that do not matter: the same value for every row, in fewer nodes, and short SQL of them."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from frameboost.compile.sql import sql_model
from frameboost.compile.sql.simplified_trees import simplified
from frameboost.dialects.built_in import get_dialect
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree, on_leaf_grid, shared_splits
from tests.support.cases import cases
from tests.support.models import grown, made, model_of_parts
from tests.support.random_models import (
    NAMES,
    bits,
    naive_margins,
    odd_values,
    random_categories,
    random_model,
    random_values,
)
from tests.support.warehouses import ALL, nameable, open_warehouse

SQLITE = get_dialect("sqlite")  # which has no lookups
FLOAT, STRING = FeatureType("float64"), FeatureType("string")


def shape(tree: Tree, node: int = 0):
    """Return a tree as `grown` takes it, with the codes of categories."""
    if tree.is_leaf(node):
        return tree.value[node]
    asked = tree.threshold[node] if tree.categories[node] is None else set(tree.categories[node])
    missing = "left" if tree.missing_left[node] else "right"
    return (tree.feature[node], asked, missing, shape(tree, tree.left[node]), shape(tree, tree.right[node]))


# Each with what is left of it, worked out by hand.
@cases(("before", "after"), [
    ((0, 5.0, "right", (0, 7.0, "right", 1.0, 2.0), (1, 2.0, "right", (0, 3.0, "right", 3.0, 3.0), 4.0)),
     (0, 5.0, "right", 1.0, (1, 2.0, "right", 3.0, 4.0))),
    # Missing values have gone left, so that x is a number on the right, and above 5 on the left only where missing.
    ((0, 5.0, "left", (0, 6.0, "right", 1.0, 2.0), (0, None, "right", 3.0, 4.0)),
     (0, 5.0, "left", (0, 6.0, "right", 1.0, 2.0), 3.0)),
    ((0, 5.0, "right", 1.0, (0, 5.0, "left", 2.0, 3.0)), (0, 5.0, "right", 1.0, (0, 5.0, "left", 2.0, 3.0))),
    # Where nothing is missing, missing values need no test.
    ((0, 5.0, "right", (0, 3.0, "left", 1.0, 2.0), 3.0), (0, 5.0, "right", (0, 3.0, "right", 1.0, 2.0), 3.0)),
    ((0, None, "right", 1.0, (0, 3.0, "left", 2.0, 3.0)), (0, None, "right", 1.0, 2.0)),
    # Categories: 0 and 1 have gone right, so that 1 is not asked for on the left, and 2 is none of theirs on the right.
    ((2, {0, 1}, "left", (2, {1, 2}, "left", 1.0, 2.0), (2, {2}, "left", 3.0, 4.0)),
     (2, {0, 1}, "left", (2, {2}, "left", 1.0, 2.0), 3.0)),
    ((2, {0, 1}, "left", 1.0, (2, {1, 2, 3}, "right", 2.0, 3.0)),
     (2, {0, 1}, "left", 1.0, (2, {1}, "right", 2.0, 3.0))),
    # Equal below different splits is not equal; equal subtrees are.
    ((0, 5.0, "right", (1, 2.0, "right", 1.0, 2.0), (1, 2.0, "right", 1.0, 2.0)), (1, 2.0, "right", 1.0, 2.0)),
    ((0, 5.0, "right", (1, 2.0, "right", 1.0, 2.0), (1, 2.0, "left", 1.0, 2.0)),
     (0, 5.0, "right", (1, 2.0, "right", 1.0, 2.0), (1, 2.0, "left", 1.0, 2.0))),
    ((0, 5.0, "right", 1.0, 1.0), 1.0),
])  # fmt: skip
def test_branches_that_do_not_matter_are_left_out(before, after):
    tree = grown(before)
    (simpler,) = simplified([tree], SQLITE)
    assert shape(simpler) == after
    assert simplified([simpler], SQLITE) == [simpler]
    assert shape(tree) == before


def with_named_beside_missing(tree: Tree, rng: random.Random) -> Tree:
    named = [categories is not None and rng.random() < 0.5 for categories in tree.categories]
    return replace(tree, with_missing=tuple(named))


@pytest.mark.parametrize("seed", range(40))
def test_every_row_has_the_same_value(seed):
    rng = random.Random(seed)
    kinds = [FeatureType(name) for name in ("float64", "int8", "boolean", "string", "codes", "decimal(4,2)")]
    model = random_model(kinds, list("abcdef"), rng, n_trees=5, depth=7, linear=seed % 4 == 0)
    trees = [with_named_beside_missing(tree, rng) for tree in model.ensemble.trees]
    # Few values, so that subtrees are equal.
    trees = [replace(tree, value=tuple([round(value) / 2 for value in tree.value])) for tree in trees]
    parts = (model.ensemble.loss, {}, model.ensemble.features, [0.5])
    before = model_of_parts(*parts, trees)
    after = model_of_parts(*parts, simplified(before.ensemble.trees, SQLITE))
    columns = {f.name: random_values(f.type, 300, rng) for f in before.ensemble.features}
    columns["d"] = [rng.choice([*before.ensemble.features[3].categories, "unseen", None]) for _ in range(300)]
    assert bits(naive_margins(after, columns)) == bits(naive_margins(before, columns))
    sizes = [(len(a), len(b)) for a, b in zip(after.ensemble.trees, before.ensemble.trees, strict=True)]
    assert all(a <= b for a, b in sizes)
    assert sum(a for a, _ in sizes) < sum(b for _, b in sizes)


def test_trees_with_the_same_splits_stay_alike():
    def of_output(output: int, right: float) -> Tree:
        return grown((0, 5.0, "right", (0, 7.0, "right", 1.0, 2.0), (1, 2.0, "right", 3.0, right)), output=output)

    # The second's leaves on the right are equal, those of the first are not.
    trees = simplified([of_output(0, 4.0), of_output(1, 3.0)], SQLITE)
    assert list(map(shape, trees)) == [(0, 5.0, "right", 1.0, (1, 2.0, "right", 3.0, right)) for right in (4.0, 3.0)]
    assert shared_splits(trees) == [[0, 1]]


def test_trees_without_a_split_are_added_to_the_base():
    trees = [grown((0, 5.0, "right", 0.25, 0.25)), grown((0, 3.0, "right", 1.0, 2.0)), grown(0.5)]
    assert made([Feature("x", FLOAT)], trees, (1.0,)).sql(dialect="sqlite") == (
        "(1.75 +\n  CASE WHEN `x` < 3.0 THEN 1.0 ELSE 2.0 END)"
    )


# --- what nobody reads ------------------------------------------------------------------------------------------------


def symmetric(
    features: list[Feature], rng: random.Random, depth: int, missing: Sequence[str] = ("left", "right")
) -> Tree:
    """Return a tree with one split a level, of leaves some of which are equal."""

    def split(feature: int):
        kind, categories = features[feature].type, features[feature].categories
        asked = set(rng.sample(range(len(categories)), 3)) if categories else rng.choice(odd_values(kind))
        return feature, asked, rng.choice(missing)

    levels = [split(rng.randrange(len(features))) for _ in range(depth)]

    def below(level: int):
        if level == depth:
            return rng.choice([-0.75, rng.random()])
        return (*levels[level], below(level + 1), below(level + 1))

    return grown(below(0))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["case", "staged"])
@pytest.mark.parametrize("name", ALL)
def test_sql_that_nobody_reads_has_the_same_bits(name, form, monkeypatch):
    monkeypatch.setattr(sql_model, "_MIN_UNREAD", 0)
    warehouse, rng = open_warehouse(name), random.Random(f"{name} {form}")
    usable = map(FeatureType, ["float64", "float32", "int8", "int64", "boolean", "string", "date", "string"])
    kinds = [kind for kind in usable if warehouse.column_type(kind) is not None]
    names = nameable(warehouse.dialect, [each for each in NAMES if each.strip()])[: len(kinds)]
    features = [Feature(each, kind, random_categories(kind, rng)) for each, kind in zip(names, kinds, strict=True)]
    few = name == "spark"
    drawn = random_model(kinds, names, rng, n_trees=2 if few else 8, depth=4)
    features = list(drawn.ensemble.features)
    trees = [with_named_beside_missing(tree, rng) for tree in drawn.ensemble.trees]
    trees += [symmetric(features, rng, depth) for depth in ((3,) if few else (2, 3, 4, 6))]
    # Over two features, with one missing direction: these share tables.
    trees += [symmetric(features[:2], rng, 4, missing) for missing in [["left"], ["right"]] * (1 if few else 4)]
    base, trees = on_leaf_grid([rng.uniform(-3, 3)], trees)
    model = model_of_parts(drawn.ensemble.loss, {}, features, base, trees)
    values = warehouse.fill_features("t", model, {f.name: random_values(f.type, 60, rng) for f in features})
    query = model.query("t", name, keep=["id"], output="margin", form=form)
    rows = sorted(tuple(row) for row in warehouse.rows(query))
    assert bits([row[1] for row in rows]) == bits(naive_margins(model, values))
    # One expression has no stage for names, but is written in steps.
    (margins,) = np.array(warehouse.rows(f"SELECT {model.sql('margin', name)} FROM {warehouse.dialect.quote('t')} "
                                         f"ORDER BY {warehouse.dialect.quote('id')}"), dtype=float).T  # fmt: skip
    assert bits(margins) == bits(naive_margins(model, values))
