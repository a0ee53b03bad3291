"""Comparison of frameboost's and XGBoost's trees, node for node.

Both are trained one tree at a time on the same rows and the same margins. XGBoost stores gradients, scores and gains in
float32, so two candidate splits count as tied if their gains are equal within float32's rounding errors. These error
bounds are computed from the rows of the node, not taken from either library.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import xgboost

import frameboost as fb

__all__ = ["Case", "Node", "compare_models", "our_trees", "quantile_cuts", "random_case", "share_equal", "to_frame"]

# Unit roundoff of float32: the largest relative error of one rounding.
U = 2.0**-24


@dataclass(frozen=True)
class Node:
    """A node of either library's tree; with ``threshold`` None present values go left."""

    feature: int
    threshold: float | None
    missing_left: bool
    left: int
    right: int
    gain: float
    value: float
    cover: float

    @property
    def is_leaf(self) -> bool:
        return self.feature < 0

    def goes_left(self, x: np.ndarray) -> np.ndarray:
        column = x[:, self.feature]
        present = True if self.threshold is None else column < self.threshold
        return np.where(np.isnan(column), self.missing_left, present)


@dataclass(frozen=True)
class Case:
    """Data and settings for both libraries."""

    x: np.ndarray  # float32, NaN is missing
    y: np.ndarray
    objective: str
    settings: dict
    weight: np.ndarray | None = None
    cuts: dict | None = None  # with approx, the cuts that it must find


def to_frame(case: Case) -> pl.DataFrame:
    columns = {f"x{i}": case.x[:, i] for i in range(case.x.shape[1])}
    frame = pl.DataFrame(columns).with_columns(pl.Series("y", case.y))
    return frame if case.weight is None else frame.with_columns(pl.Series("w", case.weight))


def random_case(seed: int, shapes: tuple[dict, ...] = ({},)) -> Case:
    """Draw random rows and settings, with one of ``shapes``.

    Columns are continuous, rounded, of few values, heavy-tailed, constant or a copy of another. Some are never missing,
    others mostly. Weights, if there are any, may be 0.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 400))
    normal = rng.normal(size=(n, 6))
    x = np.column_stack([
        normal[:, 0], np.round(normal[:, 1], 1), rng.integers(0, 4, n), normal[:, 3] ** 5, np.full(n, 2.5),
        np.round(normal[:, 5] * 100), normal[:, 0],
    ]).astype(np.float32)  # fmt: skip
    signal = np.sin(2 * normal[:, 0]) + normal[:, 1] * (x[:, 2] - 1) + 0.5 * normal[:, 3] + rng.normal(size=n) / 2
    is_missing = rng.random(x.shape) < rng.choice([0.0, 0.0, 0.1, 0.5, 0.9], x.shape[1])
    is_missing[:, 6] = is_missing[:, 0]
    is_missing[0] = False  # no column without any value
    x[is_missing] = np.nan
    y = signal * 10 + 3 * is_missing[:, :6].sum(axis=1)
    logistic = bool(rng.integers(2))
    settings = {
        "n_estimators": 3,
        "max_depth": int(rng.integers(1, 8)),
        "learning_rate": float(rng.choice([0.1, 0.3, 1.0])),
        "reg_lambda": float(rng.choice([0.0, 1.0, 10.0])),
        "gamma": float(rng.choice([0.0, 0.0, 0.5, 4.0])),
        "min_child_weight": float(rng.choice([0.0, 1.0, 3.0])),
        "max_bin": int(rng.choice([8, 64])),
    }
    # Not both: with a bounded step XGBoost 3.2 uses α with the wrong sign in the gain.
    settings |= ({}, {"reg_alpha": 0.7}, {"max_delta_step": 0.5})[rng.integers(3)]
    weights = (None, rng.integers(1, 9, n) / 4, rng.integers(0, 3, n) / 2)
    return Case(
        x, (y > np.median(y)).astype(float) if logistic else y, "binary:logistic" if logistic else "reg:squarederror",
        settings | shapes[rng.integers(len(shapes))], weights[rng.integers(3)],
    )  # fmt: skip


def quantile_cuts(case: Case, *, trimmed: bool = True) -> dict:
    """Return XGBoost's own cuts, as ``cuts=`` takes them.

    The first cut of a column lies below all its values, the last above: they separate nothing, and ``trimmed`` drops
    both.
    """
    matrix = xgboost.QuantileDMatrix(case.x, case.y, max_bin=case.settings["max_bin"], weight=case.weight, nthread=1)
    indptr, values = matrix.get_quantile_cut()
    return {f"x{i}": values[indptr[i] + trimmed : indptr[i + 1] - trimmed] for i in range(case.x.shape[1])}


def our_trees(model: fb.Model) -> list[list[Node]]:
    number = {name: i for i, name in enumerate(model.features)}
    trees = []
    for (_,), rows in model.trees.group_by("tree", maintain_order=True):
        trees.append([
            Node(
                -1 if r["feature"] is None else number[r["feature"]], r["threshold"], r["missing"] == "left",
                r["left"], r["right"], r["gain"], r["value"], r["cover"],
            )
            for r in rows.iter_rows(named=True)
        ])  # fmt: skip
    return trees


def their_tree(booster: xgboost.Booster) -> list[Node]:
    (tree,) = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    fields = ("split_indices", "split_conditions", "default_left", "left_children", "right_children", "loss_changes",
              "sum_hessian")  # fmt: skip
    return [
        # The condition of a leaf is its value. JSON has the shortest text of each float32.
        Node(
            -1 if left < 0 else feature, float(np.float32(condition)), bool(default_left), left, right, gain,
            float(np.float32(condition)), cover,
        )
        for feature, condition, default_left, left, right, gain, cover in zip(*(tree[f] for f in fields), strict=True)
    ]  # fmt: skip


def predict(tree: list[Node], x: np.ndarray) -> np.ndarray:
    out = np.empty(len(x))
    stack = [(0, np.arange(len(x)))]
    while stack:
        at, rows = stack.pop()
        node = tree[at]
        if node.is_leaf:
            out[rows] = node.value
            continue
        left = node.goes_left(x[rows])
        stack += [(node.left, rows[left]), (node.right, rows[~left])]
    return out


def compare_models(case: Case, tree_method: str) -> Counter:
    """Train both, compare tree by tree, and assert that each difference is a tie; return counts of nodes by outcome."""
    data = to_frame(case)
    model = fb.fit(
        data, "y", objective=case.objective, tree_method=tree_method, weight=None if case.weight is None else "w",
        cuts=case.cuts if tree_method == "hist" else None, verbose=False, **case.settings,
    )  # fmt: skip
    margin = np.full(len(case.y), model.base_margin)
    counts: Counter = Counter()
    for tree in our_trees(model):
        theirs = their_tree(_train_one_tree(case, tree_method, margin))
        all_rows = np.arange(len(case.y))
        _Comparison(case, margin, tree, theirs, counts).compare(0, 0, all_rows, all_rows)
        counts["splits"] += sum(not node.is_leaf for node in tree)
        margin = margin + predict(tree, case.x)
    np.testing.assert_allclose(margin, model.predict(data, output="margin"), rtol=1e-12, atol=1e-12)
    return counts


def share_equal(counts: Counter) -> float:
    """Return the share of our splits that equal XGBoost's, of all splits, including those below a tie."""
    return (counts["equal"] + counts["same rows"]) / counts["splits"]


def _train_one_tree(case: Case, tree_method: str, margin: np.ndarray) -> xgboost.Booster:
    names = {"learning_rate": "eta", "reg_lambda": "lambda", "reg_alpha": "alpha"}
    ours_only = ("n_estimators", "max_bin", "n_jobs", "base_score", "monotone_constraints", "interaction_constraints")
    settings = {names.get(k, k): v for k, v in case.settings.items() if k not in ours_only}
    settings |= _constraints(case)
    settings |= {"objective": case.objective, "tree_method": tree_method, "nthread": 1, "verbosity": 0}
    given = {"label": case.y.astype(np.float32), "weight": case.weight, "base_margin": margin.astype(np.float32)}
    if tree_method != "exact":
        settings["max_bin"] = case.settings.get("max_bin", 256)
    if tree_method != "hist":
        matrix = xgboost.DMatrix(case.x, nthread=1, **given)
    else:
        matrix = xgboost.QuantileDMatrix(case.x, max_bin=settings["max_bin"], nthread=1, **given)
    return xgboost.train(settings, matrix, num_boost_round=1)


def _constraints(case: Case) -> dict:
    """Return the constraints as XGBoost takes them: by the number of the column."""
    settings, n = {}, case.x.shape[1]
    if (monotone := case.settings.get("monotone_constraints")) is not None:
        settings["monotone_constraints"] = str(tuple(monotone.get(f"x{i}", 0) for i in range(n)))
    if (sets := case.settings.get("interaction_constraints")) is not None:
        settings["interaction_constraints"] = str([[int(name[1:]) for name in names] for names in sets])
    return settings


@dataclass(frozen=True)
class Bounds:
    """The bounds of a node's weight, and the error of float32 at each bound."""

    lower: float = -np.inf
    upper: float = np.inf
    lower_error: float = 0.0
    upper_error: float = 0.0

    def clip(self, w: float, error: float) -> tuple[float, float]:
        """Return the weight clipped to the bounds, and its error bound in float32."""
        ends = [(self.lower, self.lower_error)] * (w < self.lower) + [(self.upper, self.upper_error)] * (w > self.upper)
        if ends:
            return ends[0]
        # Near a bound, either library may clip or not.
        near = [e for end, e in ((self.lower, self.lower_error), (self.upper, self.upper_error)) if abs(end - w) <= e]
        return w, max([error, *near])


ANY = Bounds()


class _Comparison:
    """One tree of each library; ``g_error`` and ``h_error`` are the error bounds of ``g`` and ``h`` in float32."""

    def __init__(self, case: Case, margin: np.ndarray, ours: list[Node], theirs: list[Node], counts: Counter) -> None:
        self.case, self.ours, self.theirs, self.counts = case, ours, theirs, counts
        self.monotone = case.settings.get("monotone_constraints") or {}
        gamma = case.settings.get("gamma", 0.0)
        # `exact` grows while the gain exceeds the first, and prunes by the second.
        self.min_gains = (1e-6, gamma) if case.cuts is None else (max(1e-6, gamma),)
        weight = np.ones(len(case.y)) if case.weight is None else case.weight
        if case.objective == "binary:logistic":
            p = 1 / (1 + np.exp(-margin))
            g, h = p - case.y, np.maximum(p * (1 - p), 1e-16)
            # Errors: the margin's rounding and exp's own; one rounding each for 1 + exp and 1 / ....
            p_error = U * (p * (1 - p) * (np.abs(margin) + 4) + 2 * p)
            g_error, h_error = p_error + 2 * U * np.abs(g), p_error + 3 * U * h
        else:
            g, h = margin - case.y, np.ones(len(case.y))
            g_error, h_error = U * (np.abs(margin) + np.abs(case.y) + 2 * np.abs(g)), np.zeros(len(case.y))
        self.g, self.h, self.g_error, self.h_error = (part * weight for part in (g, h, g_error, h_error))

    def compare(self, i: int, j: int, our_rows: np.ndarray, their_rows: np.ndarray, bounds: Bounds = ANY) -> None:
        """Compare our node i with their node j, recursively. They hold the same rows, except rows of weight 0."""
        ours, theirs = self.ours[i], self.theirs[j]
        rows = our_rows[self.h[our_rows] > 0]
        assert np.array_equal(rows, their_rows[self.h[their_rows] > 0])
        H, H_error = self.h[rows].sum(), self.h_error[rows].sum()
        assert abs(ours.cover - theirs.cover) <= H_error + 2 * U * H, (ours, theirs)
        if ours.is_leaf and theirs.is_leaf:
            self._compare_leaves(ours, theirs, rows, bounds)
            return
        if ours.is_leaf or theirs.is_leaf:
            # A split that only one library makes must have a gain within the error bound of the smallest allowed one.
            gain, error = self._gain(theirs if ours.is_leaf else ours, rows, bounds)
            assert min(abs(gain - threshold) for threshold in self.min_gains) <= error, (ours, theirs, gain, error)
            self.counts["tied"] += 1
            return
        if ours.threshold is not None:
            ours = replace(ours, threshold=self._as_xgboosts(ours, our_rows))
        our_gain, our_error = self._gain(ours, rows, bounds)
        their_gain, their_error = self._gain(theirs, rows, bounds)
        assert abs(ours.gain - our_gain) <= 1e-9 * (our_error / U + our_gain), (ours, our_gain)
        assert abs(theirs.gain - their_gain) <= their_error, (theirs, their_gain, their_error)
        our_left, their_left = ours.goes_left(self.case.x[rows]), theirs.goes_left(self.case.x[rows])
        same = bool((our_left == their_left).all())
        mirrored = ours.threshold is None and bool((our_left != their_left).all())
        if (same and self._same_split(ours, theirs, rows)) or mirrored:
            self.counts["equal"] += 1
            self.counts["default direction"] += bool(np.isnan(self.case.x[rows, ours.feature]).any())
        elif same and ours.feature == theirs.feature:
            # No row of positive weight lies between the two thresholds, so both gain the same. Our tie-break takes the
            # lowest. XGBoost scans from above where missing goes left, and then takes the highest.
            our_ties = self._equivalent_thresholds(ours, our_rows, rows)
            their_ties = self._equivalent_thresholds(theirs, their_rows, rows)
            assert ours.threshold == our_ties[0], (ours, theirs)
            assert theirs.threshold == their_ties[-theirs.missing_left], (ours, theirs)
            self.counts["same rows"] += 1
        else:
            assert abs(our_gain - their_gain) <= our_error + their_error, (ours, theirs, our_gain, their_gain)
            self.counts["tied"] += 1
        if same or (our_left != their_left).all():
            our_left, their_left = ours.goes_left(self.case.x[our_rows]), theirs.goes_left(self.case.x[their_rows])
            children = [(theirs.left, their_rows[their_left]), (theirs.right, their_rows[~their_left])]
            (left, left_rows), (right, right_rows) = children if same else reversed(children)
            left_bounds, right_bounds = self._child_bounds(ours, rows, bounds)
            self.compare(ours.left, left, our_rows[our_left], left_rows, left_bounds)
            self.compare(ours.right, right, our_rows[~our_left], right_rows, right_bounds)

    def _child_bounds(self, split: Node, rows: np.ndarray, bounds: Bounds) -> tuple[Bounds, Bounds]:
        """Return the bounds of the two children; assert that their weights obey the monotone constraint."""
        direction = self.monotone.get(f"x{split.feature}", 0)
        if not direction:
            return bounds, bounds
        left = split.goes_left(self.case.x[rows])
        (a, a_error), (b, b_error) = (self._weight(part, bounds) for part in (rows[left], rows[~left]))
        if split.threshold is None:
            direction = 1 if a <= b else -1
        assert direction * (b - a) >= -1e-9 * (abs(a) + abs(b)), (split, a, b)
        middle, error = (a + b) / 2, (a_error + b_error) / 2 + U * abs(a + b)
        below = replace(bounds, upper=middle, upper_error=error)
        above = replace(bounds, lower=middle, lower_error=error)
        return (below, above) if direction > 0 else (above, below)

    def _same_split(self, ours: Node, theirs: Node, rows: np.ndarray) -> bool:
        if ours.feature != theirs.feature:
            return False
        if ours.threshold is None:  # XGBoost writes a split on presence with an arbitrary threshold
            column = self.case.x[rows, ours.feature]
            return not (np.nanmin(column) < theirs.threshold <= np.nanmax(column))
        sees_missing = np.isnan(self.case.x[rows, ours.feature]).any()
        return ours.threshold == theirs.threshold and (not sees_missing or ours.missing_left == theirs.missing_left)

    def _as_xgboosts(self, node: Node, rows: np.ndarray) -> float:
        """Return the threshold that XGBoost writes where ours is: a cut, or the middle of two values in float32."""
        if self.case.cuts is not None:
            cuts = np.sort(self.case.cuts[f"x{node.feature}"])
            return float(cuts[np.searchsorted(cuts, node.threshold)])
        values = np.unique(self.case.x[rows, node.feature])
        values = values[~np.isnan(values)]
        above = np.searchsorted(values, np.float64(node.threshold))
        assert 0 < above < len(values), node
        low, high = values[above - 1], values[above]
        middle = (low + high) * np.float32(0.5)
        return float(high if middle == low else middle)

    def _equivalent_thresholds(self, node: Node, rows: np.ndarray, counted: np.ndarray) -> list[float]:
        """Return, ascending, the candidate thresholds that separate the rows of positive weight like the node's own."""
        if self.case.cuts is None:
            values = np.unique(self.case.x[rows, node.feature])
            values = values[~np.isnan(values)]
            middles = (values[1:] + values[:-1]) * np.float32(0.5)
            thresholds = np.where(middles == values[:-1], values[1:], middles)
        else:
            thresholds = np.sort(self.case.cuts[f"x{node.feature}"])
        column = self.case.x[counted, node.feature]
        column = column[~np.isnan(column)]
        return [float(t) for t in thresholds if np.array_equal(column < t, column < node.threshold)]

    def _score(self, rows: np.ndarray, bounds: Bounds) -> tuple[float, float]:
        """Return twice the decrease of the objective at the node's weight, and its error bound in float32."""
        s = self.case.settings
        G, H = self.g[rows].sum(), self.h[rows].sum()
        if H <= 0 or s.get("min_child_weight", 1.0) > H:
            return 0.0, 0.0
        free, _ = self._weight(rows, ANY)
        w, w_error = self._weight(rows, bounds)
        K = H + s.get("reg_lambda", 1.0)
        score = -(2 * G * w + K * w * w + 2 * s.get("reg_alpha", 0.0) * abs(w))
        error = 2 * abs(w) * self.g_error[rows].sum() + w * w * self.h_error[rows].sum()
        if self.monotone:  # XGBoost subtracts the two terms in float32, at an inexact weight
            # The error of the weight times the slope of the parabola there, plus its second-order term.
            slope = 2 * K * abs(w - free) if s.get("max_delta_step") in (None, 0.0) else 2 * abs(G + K * w)
            return score, error + slope * w_error + K * w_error**2 + 4 * U * (2 * abs(G * w) + K * w * w)
        return score, error + 2 * U * score

    def _gain(self, split: Node, rows: np.ndarray, bounds: Bounds) -> tuple[float, float]:
        left = split.goes_left(self.case.x[rows])
        parts = (rows[left], rows[~left], rows)
        (a, a_error), (b, b_error), (whole, error) = (self._score(part, bounds) for part in parts)
        return a + b - whole, a_error + b_error + error

    def _weight(self, rows: np.ndarray, bounds: Bounds) -> tuple[float, float]:
        """Return the weight of a leaf of the rows within bounds, and its error bound in float32."""
        s = self.case.settings
        G, K = self.g[rows].sum(), self.h[rows].sum() + s.get("reg_lambda", 1.0)
        w = -np.sign(G) * max(abs(G) - s.get("reg_alpha", 0.0), 0.0) / K
        step = s.get("max_delta_step", 0.0)
        w = float(np.clip(w, -step, step)) if step else float(w)
        return bounds.clip(w, (self.g_error[rows].sum() + abs(w) * self.h_error[rows].sum()) / K + 4 * U * abs(w))

    def _compare_leaves(self, ours: Node, theirs: Node, rows: np.ndarray, bounds: Bounds) -> None:
        s = self.case.settings
        eta = s.get("learning_rate", 0.3)
        is_light = s.get("min_child_weight", 1.0) > self.h[rows].sum()
        w, error = (0.0, 0.0) if is_light else self._weight(rows, bounds)
        assert abs(ours.value - eta * w) <= 1e-9 * (1 + abs(w)), (ours, w)
        assert abs(ours.value - theirs.value) <= eta * (4 * U * abs(w) + error), (ours, theirs)
        self.counts["leaves"] += 1
