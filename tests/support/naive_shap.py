"""Contributions by definition: Shapley's sum over all subsets, and algorithm 2 of the paper, one row at a time.

The paper is Lundberg, Erion & Lee 2018, "Consistent individualized feature attribution for tree ensembles". Only the
trees come from the package.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from math import factorial

import frameboost as fb
from frameboost.trees.tree import Tree
from tests.support.models import model_of_parts

__all__ = ["algorithm_2", "expectation", "goes_left", "interaction", "saabas", "shapley", "with_covers"]

Row = dict[str, object]


def with_covers(model: fb.Model, rng: random.Random, *, empty: float = 0.2) -> fb.Model:
    """Return the model with random covers; a share ``empty`` of the leaves has cover 0."""
    trees = []
    for tree in model.ensemble.trees:
        cover = [0.0 if rng.random() < empty else rng.uniform(0.1, 9.0) for _ in range(len(tree))]
        for node in reversed(range(len(tree))):
            if not tree.is_leaf(node):
                cover[node] = cover[tree.left[node]] + cover[tree.right[node]]
        trees.append(replace(tree, cover=tuple(cover)))
    return model_of_parts(model.ensemble.loss, {}, model.ensemble.features, [model.base_margin], trees)


def goes_left(model: fb.Model, tree: Tree, node: int, row: Row) -> bool:
    feature = model.ensemble.features[tree.feature[node]]
    value = row[feature.name]
    if value is None or value != value:
        return tree.missing_left[node]
    if tree.categories[node] is not None:
        named = {feature.categories[code] for code in tree.categories[node]}
        return (value in named) != tree.missing_left[node]
    return tree.threshold[node] is None or value < tree.threshold[node]


def _shares(tree: Tree, node: int) -> tuple[float, float]:
    left, right = tree.cover[tree.left[node]], tree.cover[tree.right[node]]
    return (left / (left + right), right / (left + right)) if left + right else (0.5, 0.5)


def expectation(model: fb.Model, tree: Tree, row: Row, known: set[int], node: int = 0) -> float:
    """Return v(S), the expectation of the tree given the features in ``known`` (algorithm 1 of the paper)."""
    if tree.is_leaf(node):
        return tree.value[node]
    left, right = tree.left[node], tree.right[node]
    if tree.feature[node] in known:
        return expectation(model, tree, row, known, left if goes_left(model, tree, node, row) else right)
    share_left, share_right = _shares(tree, node)
    return share_left * expectation(model, tree, row, known, left) + share_right * expectation(
        model, tree, row, known, right
    )


def _game(model: fb.Model, row: Row) -> Callable[[set[int]], float]:
    """Return the function v(S) of all trees, memoised."""
    found: dict[frozenset[int], float] = {}

    def v(known: set[int]) -> float:
        key = frozenset(known)
        if key not in found:
            found[key] = sum(expectation(model, tree, row, known) for tree in model.ensemble.trees)
        return found[key]

    return v


def shapley(model: fb.Model, row: Row) -> list[float]:
    """Return φ_i = Σ_S |S|! (M − |S| − 1)! / M! (v(S ∪ i) − v(S)) for each feature i."""
    v, m = _game(model, row), len(model.features)
    return [
        sum(
            factorial(size) * factorial(m - size - 1) / factorial(m) * (v({*subset, i}) - v(set(subset)))
            for size in range(m)
            for subset in combinations([f for f in range(m) if f != i], size)
        )
        for i in range(m)
    ]


def interaction(model: fb.Model, row: Row, i: int, j: int) -> float:
    """Return Φ_ij = Σ_S |S|! (M − |S| − 2)! / (2 (M − 1)!) (v(S ∪ ij) − v(S ∪ i) − v(S ∪ j) + v(S)), i ≠ j."""
    v, m = _game(model, row), len(model.features)
    return sum(
        factorial(size)
        * factorial(m - size - 2)
        / (2 * factorial(m - 1))
        * (v({*subset, i, j}) - v({*subset, i}) - v({*subset, j}) + v(set(subset)))
        for size in range(m - 1)
        for subset in combinations([f for f in range(m) if f not in (i, j)], size)
    )


def saabas(model: fb.Model, row: Row) -> list[float]:
    """Return for each feature the sum of the changes of the mean at its splits on the row's path."""
    out = [0.0] * len(model.features)
    for tree in model.ensemble.trees:
        node = 0
        while not tree.is_leaf(node):
            child = tree.left[node] if goes_left(model, tree, node, row) else tree.right[node]
            out[tree.feature[node]] += expectation(model, tree, row, set(), child) - expectation(
                model, tree, row, set(), node
            )
            node = child
    return out


Path = list[tuple[int, float, float, float]]  # feature, z, o, w


def algorithm_2(model: fb.Model, tree: Tree, row: Row) -> list[float]:
    """Return the Shapley values of one tree. Names are the paper's: z and o are shares of zeros and ones, w weights."""
    phi = [0.0] * len(model.features)

    def recurse(node: int, path: Path, z: float, o: float, feature: int) -> None:
        path = _extend(path, z, o, feature)
        if tree.is_leaf(node):
            for i in range(1, len(path)):
                weight = sum(w for *_, w in _unwind(path, i))
                phi[path[i][0]] += weight * (path[i][2] - path[i][1]) * tree.value[node]
            return
        split_feature = tree.feature[node]
        left, right = _shares(tree, node)
        branches = [(tree.left[node], left), (tree.right[node], right)]
        if not goes_left(model, tree, node, row):
            branches.reverse()
        z_in, o_in = 1.0, 1.0
        for k in range(1, len(path)):
            if path[k][0] == split_feature:
                _, z_in, o_in, _ = path[k]
                path = _unwind(path, k)
                break
        (hot, hot_share), (cold, cold_share) = branches
        recurse(hot, path, z_in * hot_share, o_in, split_feature)
        recurse(cold, path, z_in * cold_share, 0.0, split_feature)

    recurse(0, [], 1.0, 1.0, -1)
    return phi


def _extend(path: Path, z: float, o: float, feature: int) -> Path:
    size = len(path)
    weights = [w for *_, w in path] + [0.0 if size else 1.0]
    for i in range(size - 1, -1, -1):
        weights[i + 1] += o * weights[i] * (i + 1) / (size + 1)
        weights[i] = z * weights[i] * (size - i) / (size + 1)
    entries = [entry[:3] for entry in path] + [(feature, z, o)]
    return [(*entry, w) for entry, w in zip(entries, weights, strict=True)]


def _unwind(path: Path, at: int) -> Path:
    size = len(path)
    _, z, o, _ = path[at]
    weights = [w for *_, w in path]
    carried = weights[-1]
    for i in range(size - 2, -1, -1):
        if o != 0:
            before = weights[i]
            weights[i] = carried * size / ((i + 1) * o)
            carried = before - weights[i] * z * (size - 1 - i) / size
        else:
            weights[i] = weights[i] * size / (z * (size - 1 - i))
    entries = [entry[:3] for i, entry in enumerate(path) if i != at]
    return [(*entry, w) for entry, w in zip(entries, weights[:-1], strict=True)]
