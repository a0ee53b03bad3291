"""Row and column sampling by hashes (see `frameboost.expressions.draws`), so that every engine draws the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import FeatureDraws, Rows, Sample
from frameboost.expressions.draws import draw_key, hash32
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Rounded, rounded, rounded_on
from frameboost.parameters.parameters import Parameters
from frameboost.training.open_nodes import OpenNode

__all__ = ["FeatureSampler", "sample_rows"]

_ROWS, _BY_TREE, _BY_LEVEL, _BY_NODE = range(4)  # first part of a draw's key
_PAIR = ("g", "h", "draw")


def sample_rows(rows: Rows, output: int, parameters: Parameters, tree: int) -> Sample | None:
    """Return the sample that a tree is grown on, None for all rows."""
    share = parameters.subsample
    if share == 1.0:
        return None
    key = draw_key(parameters.seed, _ROWS, tree)
    if parameters.sampling_method == "uniform":
        return Sample(key, *_drawn_below(share), share)
    bound = _gradient_bound(rows, output, parameters)
    # A row is drawn with probability p, and its gradients are divided by p (Ibragimov & Gusev 2019, "Minimal variance
    # sampling in stochastic gradient boosting").
    offsets = rounded(rows, {x: Expression(_scaled(x, bound, parameters, output), _names(output)) for x in "gh"})
    size = _size(parameters, None)
    is_drawn = f"draw < {size} / {bound!r}"
    terms = {x: f"CASE WHEN {is_drawn} THEN {_scaled(x, bound, parameters)} ELSE 0 END" for x in "gh"}
    on_grids = rounded_on({x: offsets[x].offset for x in terms}, {x: Expression(terms[x], _PAIR) for x in terms})
    return Sample(key, on_grids["g"], on_grids["h"])


@lru_cache(maxsize=8)
def _drawn_below(share: float) -> tuple[Expression, Expression]:
    """Return g and h of rows that are drawn with that probability, 0 of others."""
    g, h = (Expression(f"CASE WHEN draw < {share!r} THEN {x} ELSE 0 END", _PAIR) for x in "gh")
    return g, h


def _names(output: int) -> tuple[str, str]:
    return f"g_{output}", f"h_{output}"


def _size(parameters: Parameters, output: int | None) -> str:
    """Return √(g² + λh²), the regularised size of a row's gradient."""
    g, h = ("g", "h") if output is None else _names(output)
    return f"SQRT({g} * {g} + {parameters.reg_lambda!r} * {h} * {h})"


def _scaled(name: str, bound: float, parameters: Parameters, output: int | None = None) -> str:
    """Return g or h divided by p = min(1, size / bound)."""
    size = _size(parameters, output)
    value = name if output is None else f"{name}_{output}"
    return f"CASE WHEN {size} >= {bound!r} OR {size} = 0 THEN {value} ELSE {value} * ({bound!r} / {size}) END"


def _gradient_bound(rows: Rows, output: int, parameters: Parameters) -> float:
    """Return μ such that the probabilities p = min(1, size / μ) sum to the expected number of rows.

    As a function of 1 / μ the sum is concave and piecewise linear. So Newton's method from μ = ∞ never overshoots; it
    ends when a step leaves the set of rows with p = 1 as it is. Example, sizes 1, 2 and 9, 2 rows expected: with no row
    at p = 1, μ = 12 / 2 = 6. Then the row of size 9 has p = 1 and the others share 1 row: μ = 3 / 1 = 3, the answer.
    """
    names, size = _names(output), _size(parameters, output)
    expected = parameters.subsample * rows.n_rows
    offset = rounded(rows, {"size": Expression(size, names)})["size"].offset
    total = rows.aggregate({"size": Aggregate("sum", Rounded(Expression(size, names), offset))})["size"]
    bound, sure, rest = math.inf, 0.0, total or 0.0
    while rest > 0 and sure < expected and rest / (expected - sure) < bound:
        bound = rest / (expected - sure)
        others = Expression(f"CASE WHEN {size} >= {bound!r} THEN 0 ELSE {size} END", names)
        sums = rows.aggregate({
            "sure": Aggregate("sum", Expression(f"CASE WHEN {size} >= {bound!r} THEN 1 ELSE 0 END", names)),
            "rest": Aggregate("sum", Rounded(others, offset)),
        })  # fmt: skip
        sure, rest = sums["sure"] or 0.0, sums["rest"] or 0.0
    return bound if math.isfinite(bound) else 1.0


class FeatureSampler:
    """Draws features: ``colsample_bytree`` of all, ``colsample_bylevel`` of those, ``colsample_bynode`` of those."""

    def __init__(self, n_features: int, parameters: Parameters) -> None:
        self._all = np.arange(n_features)
        self._parameters = parameters
        self._tree = 0
        self._of_tree: npt.NDArray[np.int64] | None = None  # drawn when first used
        self._masks = np.ones((1, n_features), dtype=np.bool_)  # the same features in each row
        self._are_same = parameters.colsample_bylevel == parameters.colsample_bynode == 1.0  # in all nodes of a tree

    def start_tree(self, tree: int) -> None:
        """Sample the columns of a tree, by its number."""
        self._tree, self._of_tree = tree, None

    def draws(self) -> FeatureDraws | None:
        """Return how the features of the tree are drawn; None for all features in every node."""
        p = self._parameters
        shares = p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode
        if shares == (1.0, 1.0, 1.0):
            return None
        by_tree, by_level, by_node = (draw_key(p.seed, by, self._tree) for by in (_BY_TREE, _BY_LEVEL, _BY_NODE))
        return FeatureDraws(shares, (by_tree, by_level, by_node))

    def allowed(self, nodes: Sequence[OpenNode]) -> npt.NDArray[np.bool_]:
        """Return for each node which features it may split on: bool (nodes, features)."""
        if self._of_tree is None:
            self._of_tree = self._drawn(self._all, self._parameters.colsample_bytree, _BY_TREE)
            if self._parameters.colsample_bytree < 1.0:
                self._masks[:] = False
                self._masks[:, self._of_tree] = True
        if self._are_same:
            if len(self._masks) < len(nodes):
                self._masks = np.repeat(self._masks[:1], 2 * len(nodes), axis=0)
            return self._masks[: len(nodes)]
        p = self._parameters
        mask = np.zeros((len(nodes), len(self._all)), dtype=np.bool_)
        for i, node in enumerate(nodes):
            of_level = self._drawn(self._of_tree, p.colsample_bylevel, _BY_LEVEL, node.depth)
            mask[i, self._drawn(of_level, p.colsample_bynode, _BY_NODE, node.id)] = True
        return mask

    def _drawn(self, features: npt.NDArray[np.int64], share: float, *path: int) -> npt.NDArray[np.int64]:
        if share == 1.0:
            return features
        key = draw_key(self._parameters.seed, path[0], self._tree, *path[1:])
        by_draw = sorted(features.tolist(), key=lambda feature: hash32(feature, key))
        return np.array(sorted(by_draw[: max(1, math.floor(share * len(features)))]))
