"""Conversion of an XGBoost booster's trees to a frameboost model, to compare what both compute from the same trees."""

from __future__ import annotations

import json

import numpy as np
import xgboost

import frameboost as fb
from frameboost.losses.built_in import get_loss
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree
from tests.support.models import model_of_parts

__all__ = ["from_xgboost"]


def from_xgboost(booster: xgboost.Booster, features: list[tuple[str, tuple[str, ...]]], base: float) -> fb.Model:
    """Return a model of the same trees; ``features`` are names and categories (empty for numbers)."""
    document = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    described = [
        Feature(name, FeatureType("string" if categories else "float32"), categories) for name, categories in features
    ]
    trees = [_tree(tree, [len(categories) for _, categories in features]) for tree in document["trees"]]
    return model_of_parts(get_loss("reg:squarederror", {"scale_pos_weight": 1.0}), {}, described, [base], trees)


def _tree(tree: dict, n_categories: list[int]) -> Tree:
    n = len(tree["left_children"])
    is_leaf = [left < 0 for left in tree["left_children"]]
    goes_right = {
        node: set(tree["categories"][start : start + size])
        for node, start, size in zip(
            tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
        )
    }
    missing_left = [bool(default) and not leaf for default, leaf in zip(tree["default_left"], is_leaf, strict=True)]
    categories = [None] * n
    for node, codes in goes_right.items():
        # A frameboost split names the categories on the side opposite to missing values.
        all_codes = set(range(n_categories[tree["split_indices"][node]]))
        categories[node] = tuple(sorted(codes if missing_left[node] else all_codes - codes))
    numbers = [float(np.float32(v)) for v in tree["split_conditions"]]  # JSON has the shortest text of each float32
    return Tree(
        feature=tuple(-1 if leaf else f for leaf, f in zip(is_leaf, tree["split_indices"], strict=True)),
        threshold=tuple(None if is_leaf[i] or categories[i] is not None else numbers[i] for i in range(n)),
        categories=tuple(categories),
        missing_left=tuple(missing_left),
        left=tuple(tree["left_children"]),
        right=tuple(tree["right_children"]),
        gain=(0.0,) * n,
        cover=tuple(map(float, tree["sum_hessian"])),
        value=tuple(numbers[i] if is_leaf[i] else 0.0 for i in range(n)),
    )
