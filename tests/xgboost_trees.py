"""Trees of frameboost and XGBoost side by side, node for node.

Both see the same rows and the same margins, one tree at a time. XGBoost works in float32, so two candidate splits whose
gains it can't tell apart are taken as equal; how far that goes is worked out from the rows, not from either library.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
import xgboost

import frameboost as fb

__all__ = ["Case", "Node", "compare_models", "our_trees", "to_frame"]

FLOAT32 = 2.0**-23


@dataclass(frozen=True)
class Node:
    """A node of either library's tree; ``threshold`` None asks whether the value is present."""

    feature: int
    threshold: float | None
    missing_left: bool
    left: int
    right: int
    value: float
    cover: float

    @property
    def is_leaf(self) -> bool:
        return self.feature < 0

    def goes_left(self, column: np.ndarray) -> np.ndarray:
        present = True if self.threshold is None else column < self.threshold
        return np.where(np.isnan(column), self.missing_left, present)


@dataclass(frozen=True)
class Case:
    """Data and settings that both libraries are given."""

    x: np.ndarray  # float32, NaN is missing
    y: np.ndarray
    objective: str
    settings: dict
    weight: np.ndarray | None = None
    cuts: dict | None = None


def to_frame(case: Case) -> pl.DataFrame:
    columns = {f"x{i}": case.x[:, i] for i in range(case.x.shape[1])}
    frame = pl.DataFrame(columns).with_columns(pl.Series("y", case.y))
    return frame if case.weight is None else frame.with_columns(pl.Series("w", case.weight))


def our_trees(model: fb.Model) -> list[list[Node]]:
    number = {name: i for i, name in enumerate(model.features)}
    trees = []
    for (_,), rows in model.trees.group_by("tree", maintain_order=True):
        trees.append([
            Node(
                -1 if r["feature"] is None else number[r["feature"]], r["threshold"], r["missing"] == "left",
                r["left"], r["right"], r["value"], r["cover"],
            )
            for r in rows.iter_rows(named=True)
        ])  # fmt: skip
    return trees


def their_tree(booster: xgboost.Booster) -> list[Node]:
    (tree,) = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    fields = ("split_indices", "split_conditions", "default_left", "left_children", "right_children", "sum_hessian")
    return [
        # Of a leaf the condition is its value. JSON has the shortest text of each float32.
        Node(
            -1 if left < 0 else feature, float(np.float32(condition)), bool(default_left), left, right, condition, cover
        )
        for feature, condition, default_left, left, right, cover in zip(*(tree[f] for f in fields), strict=True)
    ]


def predict(tree: list[Node], x: np.ndarray) -> np.ndarray:
    out = np.empty(len(x))
    stack = [(0, np.arange(len(x)))]
    while stack:
        at, rows = stack.pop()
        node = tree[at]
        if node.is_leaf:
            out[rows] = node.value
            continue
        left = node.goes_left(x[rows, node.feature])
        stack += [(node.left, rows[left]), (node.right, rows[~left])]
    return out


def compare_models(case: Case, tree_method: str) -> Counter:
    """Train both, compare tree by tree; return how many nodes were equal, tied or left out below a tie."""
    data = to_frame(case)
    model = fb.fit(
        data, "y", objective=case.objective, tree_method=tree_method, weight=None if case.weight is None else "w",
        cuts=case.cuts, verbose=False, **case.settings,
    )  # fmt: skip
    margin = np.full(len(case.y), model.base_margin)
    counts: Counter = Counter()
    for tree in our_trees(model):
        theirs = their_tree(_train_one(case, tree_method, margin))
        _Comparison(case, margin, tree, theirs, counts).at(0, 0, np.arange(len(case.y)))
        margin = margin + predict(tree, case.x)
    np.testing.assert_allclose(margin, model.predict(data, output="margin"), rtol=1e-12, atol=1e-12)
    return counts


def _train_one(case: Case, tree_method: str, margin: np.ndarray) -> xgboost.Booster:
    names = {"learning_rate": "eta", "reg_lambda": "lambda", "reg_alpha": "alpha"}
    settings = {names.get(k, k): v for k, v in case.settings.items() if k not in ("n_estimators", "max_bin", "n_jobs")}
    settings |= {"objective": case.objective, "tree_method": tree_method, "nthread": 1, "verbosity": 0}
    given = {"label": case.y.astype(np.float32), "weight": case.weight, "base_margin": margin.astype(np.float32)}
    if tree_method == "exact":
        matrix = xgboost.DMatrix(case.x, **given)
    else:
        settings["max_bin"] = case.settings.get("max_bin", 256)
        matrix = xgboost.QuantileDMatrix(case.x, max_bin=settings["max_bin"], **given)
    return xgboost.train(settings, matrix, num_boost_round=1)


class _Comparison:
    def __init__(self, case: Case, margin: np.ndarray, ours: list[Node], theirs: list[Node], counts: Counter) -> None:
        self.case, self.ours, self.theirs, self.counts = case, ours, theirs, counts
        weight = np.ones(len(case.y)) if case.weight is None else case.weight
        if case.objective == "binary:logistic":
            p = 1 / (1 + np.exp(-margin))
            self.g, self.h = (p - case.y) * weight, np.maximum(p * (1 - p), 1e-16) * weight
        else:
            self.g, self.h = (margin - case.y) * weight, weight
        # What a float32 margin and a float32 gradient may differ by.
        self.blur = FLOAT32 * (np.abs(self.g) + weight * np.abs(margin))

    def at(self, i: int, j: int, rows: np.ndarray) -> None:
        """Compare our node i with their node j, which hold the same rows."""
        ours, theirs = self.ours[i], self.theirs[j]
        if ours.is_leaf and theirs.is_leaf:
            self._leaves(ours, theirs, rows)
            return
        if ours.is_leaf or theirs.is_leaf:
            # A split only one of them makes must gain next to nothing more than is asked for.
            split = theirs if ours.is_leaf else ours
            gain, resolution = self._gain(split, rows)
            least = max(1e-6, self.case.settings.get("gamma", 0.0))
            assert abs(gain - least) <= resolution, (ours, theirs, gain, resolution)
            self.counts["tied"] += 1
            return
        our_left = ours.goes_left(self.case.x[rows, ours.feature])
        their_left = theirs.goes_left(self.case.x[rows, theirs.feature])
        if self._same_split(ours, theirs, rows, our_left, their_left):
            self.counts["equal"] += 1
            self.counts["default direction"] += bool(np.isnan(self.case.x[rows, ours.feature]).any())
        elif (our_left == their_left)[self.h[rows] > 0].all():
            # Cuts with nothing between them, or only rows that weigh nothing. Where missing goes left XGBoost scans
            # from above and takes the highest of such cuts; we take the lowest always.
            assert theirs.missing_left or self.case.weight is not None, (ours, theirs)
            self.counts["same rows"] += 1
        else:
            our_gain, resolution = self._gain(ours, rows)
            their_gain, _ = self._gain(theirs, rows)
            assert abs(our_gain - their_gain) <= resolution, (ours, theirs, our_gain, their_gain, resolution)
            self.counts["tied"] += 1
        if (our_left == their_left).all():
            self.at(ours.left, theirs.left, rows[our_left])
            self.at(ours.right, theirs.right, rows[~our_left])
        elif (our_left != their_left).all():
            self.at(ours.left, theirs.right, rows[our_left])
            self.at(ours.right, theirs.left, rows[~our_left])
        else:
            self.counts["below a tie"] += 1

    def _same_split(self, ours: Node, theirs: Node, rows: np.ndarray, our_left, their_left) -> bool:
        if ours.feature != theirs.feature:
            return False
        if ours.threshold is None:  # "is it present?" has a made-up threshold in XGBoost
            return bool((our_left == their_left).all())
        sees_missing = np.isnan(self.case.x[rows, ours.feature]).any()
        return ours.threshold == theirs.threshold and (not sees_missing or ours.missing_left == theirs.missing_left)

    def _score(self, rows: np.ndarray) -> tuple[float, float]:
        """Return T(G)²/(H+λ), and what float32 may add to it."""
        s = self.case.settings
        g, h = self.g[rows].sum(), self.h[rows].sum()
        if h <= 0:
            return 0.0, 0.0
        alpha, step = s.get("reg_alpha", 0.0), s.get("max_delta_step", 0.0)
        t = np.sign(g) * max(abs(g) - alpha, 0.0)
        w = -t / (h + s.get("reg_lambda", 1.0))
        if step:
            w = np.clip(w, -step, step)
        score = -(2 * g * w + (h + s.get("reg_lambda", 1.0)) * w * w + 2 * alpha * abs(w))
        blur = np.sqrt((self.blur[rows] ** 2).sum())
        return score, 4 * FLOAT32 * abs(score) + 4 * abs(w) * blur

    def _gain(self, split: Node, rows: np.ndarray) -> tuple[float, float]:
        left = split.goes_left(self.case.x[rows, split.feature])
        parts = [self._score(rows[left]), self._score(rows[~left]), self._score(rows)]
        return parts[0][0] + parts[1][0] - parts[2][0], sum(part[1] for part in parts)

    def _leaves(self, ours: Node, theirs: Node, rows: np.ndarray) -> None:
        s = self.case.settings
        h = self.h[rows].sum()
        blur = 4 * np.sqrt((self.blur[rows] ** 2).sum()) / (h + s.get("reg_lambda", 1.0) + 1e-12)
        eta = s.get("learning_rate", 0.3)
        assert abs(ours.value - theirs.value) <= 4 * FLOAT32 * abs(theirs.value) + eta * blur, (ours, theirs)
        assert abs(ours.cover - theirs.cover) <= 1e-4 * abs(theirs.cover), (ours, theirs)
        self.counts["leaves"] += 1
