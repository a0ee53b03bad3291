"""Slopes for the leaves of a grown tree: one ridge-regularised Newton step in each leaf.

A leaf's value becomes f = a + Σ b_j x_j over a few numeric features of its path. With z_j = (x_j − mean) / deviation in
the leaf, weighted by h, the step minimises Σ g f + ½ h f² + ½ λ a² + ½ μ Σ b_j², where λ is ``reg_lambda`` and μ
``linear_lambda``, with slopes b_j of the z_j. As Σ h z = 0, the constant is that of a leaf without slopes, and the
slopes solve (R + μ/H) b = −r, with R the correlations of the features, and r_j = Σ g z_j / H.

The engine sums products of g, h and numbers on grids that are coarse enough for exact sums, and so the solution, by
Cholesky's decomposition in a fixed order of operations, has the same bits in every engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from frameboost.binning.bins import Bins
from frameboost.engines.contract import LeafGrid, LinearEngine
from frameboost.expressions.grid import bit_step
from frameboost.parameters.parameters import Parameters
from frameboost.splits.search import bounded_weights
from frameboost.splits.split import FloatArray
from frameboost.trees.tree import LEAF, MAX_TERMS, LinearLeaf, LinearTerm, Tree, may_have_slope

__all__ = ["LinearLeaves", "solve_slopes"]

# A leaf of fewer rows has no slopes.
_MIN_ROWS = 20
# Bits of h in the sums, at least; of numbers from the centre of a grid to its ends, at most in the sums, and in scores.
_BITS_OF_H, _MAX_BITS_IN_SUMS, _BITS = 14, 11, 20
_OFFSET_STEPS = 1.5 * 2.0**52
# The steps of grids of numbers: beyond these, their products with slopes may leave the range of float64.
_LEAST_STEP, _LARGEST_STEP = 2.0**-300, 2.0**300
# A feature that the others explain but for this share of its variance has no slope.
_LEAST_PIVOT = 1e-9


class LinearLeaves:
    """Gives the leaves of trees slopes.

    Parameters
    ----------
    bins
        The bins of the features.
    parameters
        The parameters of the fit.
    """

    def __init__(self, bins: Sequence[Bins], parameters: Parameters) -> None:
        self._ends = {i: ends for i, each in enumerate(bins) if (ends := _ends(each)) is not None}
        self._parameters = parameters

    def fitted(self, engine: LinearEngine, tree: Tree, number: Mapping[int, int], shrinkage: float) -> Tree:
        """Return the tree with linear leaves, times the factor of leaf values.

        ``number`` is the engine's number of each leaf.
        """
        paths = {number[leaf]: path for leaf, path in self._paths(tree).items() if path}
        if not paths:
            return tree
        ranges = engine.leaf_ranges(paths)
        grids = {node: grid for node, path in paths.items()
                 if node in ranges and (grid := self._grid(path, ranges[node])) is not None}  # fmt: skip
        if not grids:
            return tree
        leaves = self._leaves(grids, engine.leaf_sums(grids), shrinkage)
        of_nodes = [leaves.get(number[node]) if node in number else None for node in range(len(tree))]
        if not any(of_nodes):
            return tree
        constants = [abs(tree.value[leaf]) for leaf in tree.leaves()]
        largest = max([*constants, *(leaf.largest() for leaf in leaves.values())])
        step = bit_step(largest, 51)  # so that a row's value is exact in every engine
        return replace(tree, linear=tuple([leaf and leaf.rounded(step) for leaf in of_nodes]))

    def _paths(self, tree: Tree) -> dict[int, tuple[int, ...]]:
        """Return the features that each leaf may have slopes of: those of the last splits above it."""
        paths: list[tuple[int, ...]] = [()] * len(tree)
        for node in range(len(tree)):
            feature = tree.feature[node]
            if feature == LEAF:
                continue
            path = paths[node]
            if feature in self._ends:
                path = (feature, *(each for each in path if each != feature))
            paths[tree.left[node]] = paths[tree.right[node]] = path
        return {leaf: paths[leaf][:MAX_TERMS] for leaf in tree.leaves()}

    def _grid(self, path: Sequence[int], aggregates: FloatArray) -> LeafGrid | None:
        """Return the grids of a leaf's sums, None if it has too few rows or its numbers are all the same."""
        n_rows, largest_g, largest_h = aggregates[:3].tolist()
        if n_rows < _MIN_ROWS:
            return None
        bits_of_rows = int(n_rows).bit_length()
        bits = min(_MAX_BITS_IN_SUMS, (51 - bits_of_rows - _BITS_OF_H) // 2)
        terms = []
        for index, feature in enumerate(path):
            low, high = aggregates[3 + 2 * index : 5 + 2 * index].tolist()
            term = self._term(feature, low, high, bits)
            if term is not None:
                terms.append(term)
        if bits < 1 or not terms:
            return None
        # Of 2^bits_of_rows products, the largest have 2^bits (or its square) times as many steps as g (or h).
        g_step = bit_step(largest_g, 51 - bits_of_rows - bits)
        h_step = bit_step(largest_h, 51 - bits_of_rows - 2 * bits)
        return LeafGrid(_OFFSET_STEPS * g_step, _OFFSET_STEPS * h_step, tuple(terms))

    def _term(self, feature: int, low: float, high: float, bits: int) -> LinearTerm | None:
        """Return the grid of a feature's numbers between two, None if they are all equal."""
        first, last = self._ends[feature]
        low, high = (min(max(end, first), last) for end in (low, high))
        if not high - low > 0.0:
            return None
        step = bit_step(high - low, bits + 1)
        if not _LEAST_STEP <= step <= _LARGEST_STEP or max(abs(low), abs(high)) > 2.0**50 * step:
            return None
        centre = round((low / 2 + high / 2) / step) * step + 0.0
        most = 2.0**bits * step
        whole = LinearTerm(feature, 0.0, step, centre, -most, most)
        return LinearTerm(feature, 0.0, step, centre, whole.on_grid(low), whole.on_grid(high))

    def _leaves(
        self, grids: Mapping[int, LeafGrid], sums: Mapping[int, FloatArray], shrinkage: float
    ) -> dict[int, LinearLeaf]:
        """Return the linear leaves, by the engine's numbers."""
        p = self._parameters
        nodes = [node for node in grids if node in sums]
        G, H, means, slopes = solve_slopes([sums[node] for node in nodes], p.linear_lambda)
        limit, no_bounds = p.max_delta_step or 0.0, np.tile([-np.inf, np.inf], (len(nodes), 1))
        weights = bounded_weights(G, H, no_bounds, p.reg_lambda, p.reg_alpha, limit, 0.0)
        leaves = {}
        for index, node in enumerate(nodes):
            of_terms = zip(grids[node].terms, slopes[index].tolist(), means[index].tolist(), strict=False)
            kept_terms = [each for each in of_terms if each[1]]
            if not kept_terms or not math.isfinite(sum(slope for _, slope, _ in kept_terms)):
                continue
            constant = float(weights[index])
            factor = _factor_within(limit - abs(constant), kept_terms) if limit else 1.0
            terms = []
            for term, slope, mean in kept_terms:
                step = _finer(term)
                # Around the mean, so that the constant is what a leaf without slopes has, but for rounding.
                to_mean = round(mean / step) * step
                constant -= slope * factor * (mean - to_mean)
                ends = term.low - to_mean, term.high - to_mean
                terms.append(LinearTerm(term.feature, slope * factor * shrinkage, step, term.centre + to_mean, *ends))
            leaves[node] = LinearLeaf(constant * shrinkage, tuple(terms))
        return leaves


def _ends(bins: Bins) -> tuple[float, float] | None:
    """Return the ends to which a feature's numbers are clipped before they get slopes: those of its cuts, and as much.

    None if leaves may have no slopes of it.
    """
    if not may_have_slope(bins.feature) or not bins.cuts:
        return None
    first, last = float(bins.cuts[0]), float(bins.cuts[-1])
    width = last - first or 1.0
    ends = first - width, last + width
    return ends if all(map(math.isfinite, (*ends, 2 * width))) else None


def _factor_within(room: float, terms: Sequence[tuple[LinearTerm, float, float]]) -> float:
    """Return the factor of slopes by which their values do not exceed the room that a largest step leaves."""
    largest = sum(abs(slope) * (term.high - term.low) for term, slope, _ in terms)
    return 1.0 if largest <= room else max(room, 0.0) / largest


def _finer(term: LinearTerm) -> float:
    """Return the step of the grid of scores, which is finer than that of sums."""
    furthest = max(abs(term.centre + term.low), abs(term.centre + term.high))
    return min(max(bit_step(term.high - term.low, _BITS), bit_step(furthest, 50)), term.step)


def solve_slopes(sums: Sequence[FloatArray], penalty: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return G and H of leaves, float64 (leaves,), and means and slopes of their terms, float64 (leaves, terms).

    ``sums`` are those of `LinearEngine.leaf_sums`. A leaf with fewer terms than others has slopes 0 for the others.
    Every operation is on one number of each leaf, so no library chooses its order.
    """
    counts = [_n_terms(len(each)) for each in sums]
    most = max(counts)
    G, H = (np.array([each[k] for each in sums]) for k in (0, 1))
    safe_H = np.where(H > 0.0, H, 1.0)
    zeros = np.zeros(len(sums))
    gu, hu = ([np.array([each[2 + side * n + j] if j < n else 0.0 for each, n in zip(sums, counts, strict=True)])
               for j in range(most)] for side in (0, 1))  # fmt: skip
    means = [each / safe_H for each in hu]
    moments: dict[tuple[int, int], FloatArray] = {}
    index = 0
    for k in range(most):
        for j in range(k + 1):
            raw = np.array([each[2 + 2 * n + index] if k < n else 0.0 for each, n in zip(sums, counts, strict=True)])
            moments[j, k] = raw - means[j] * hu[k]
            index += 1
    has_spread = [(moments[j, j] > 0.0) & (H > 0.0) for j in range(most)]
    scale = [np.where(is_wide, 1.0 / np.sqrt(np.where(is_wide, moments[j, j], 1.0)), 0.0)
             for j, is_wide in enumerate(has_spread)]  # fmt: skip
    ridge = penalty / safe_H
    right = [-(gu[j] - G * means[j]) * scale[j] for j in range(most)]
    # R + μ/H = L Lᵀ, with rows and columns of zeros where a feature is left out.
    lower: dict[tuple[int, int], FloatArray] = {}
    inverse = []
    for j in range(most):
        pivot = np.where(has_spread[j], 1.0 + ridge, 0.0)
        for i in range(j):
            pivot = pivot - lower[j, i] * lower[j, i]
        is_kept = pivot > _LEAST_PIVOT
        inverse.append(np.where(is_kept, 1.0 / np.sqrt(np.where(is_kept, pivot, 1.0)), 0.0))
        for k in range(j + 1, most):
            entry = moments[j, k] * scale[j] * scale[k]
            for i in range(j):
                entry = entry - lower[k, i] * lower[j, i]
            lower[k, j] = entry * inverse[j]
    forward: list[FloatArray] = []
    for j in range(most):
        value = right[j]
        for i in range(j):
            value = value - lower[j, i] * forward[i]
        forward.append(value * inverse[j])
    solved = [zeros] * most
    for j in reversed(range(most)):
        value = forward[j]
        for i in range(j + 1, most):
            value = value - lower[i, j] * solved[i]
        solved[j] = value * inverse[j]
    slopes = np.stack([solved[j] * scale[j] for j in range(most)], axis=1)
    return G, H, np.stack(means, axis=1), slopes


def _n_terms(size: int) -> int:
    """Return the number of terms p of sums of that size, 2 + 2 p + p (p + 1) / 2."""
    return next(p for p in range(1, MAX_TERMS + 1) if 2 + 2 * p + p * (p + 1) // 2 == size)
