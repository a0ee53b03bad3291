"""Slopes for the leaves of a grown tree: one ridge-regularised Newton step in each leaf.

A leaf's value becomes f = a + Σ b_j x_j over a few numeric features: those of its path, then those by which the trees
so far have gained most. With z_j = (x_j − mean) / deviation in
the leaf, weighted by h, the step minimises Σ g f + ½ h f² + ½ λ a² + ½ μ Σ b_j², where λ is ``reg_lambda`` and μ
``linear_lambda``, with slopes b_j of the z_j. As Σ h z = 0, the constant is that of a leaf without slopes, and the
slopes solve (R + μ/H) b = −r, with R the correlations of the features, and r_j = Σ g z_j / H.

Trees for all outputs (`multi_strategy="multi_output_tree"`) share the grids and centres of a leaf's numbers; constants
and slopes are of an output. So a query reads the numbers once for all of them.

The engine sums products of g, h and numbers on grids that are coarse enough for exact sums, and so the solution, by
Cholesky's decomposition in a fixed order of operations, has the same bits in every engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.engines.contract import Engine, LinearEngine, Rows, linear_role
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import OFFSET_STEPS, Aggregate
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.kernel import kernel
from frameboost.splits.search import bounded_weight
from frameboost.splits.split import BoolArray, FloatArray, IntArray
from frameboost.trees.linear_leaves import MAX_TERMS, LinearColumns, may_have_slope
from frameboost.trees.tree import LEAF

__all__ = ["LinearLeaves", "grids_of_leaves", "paths_of_leaves", "slopes_of_outputs", "solve_slopes"]

# A leaf of fewer rows has no slopes.
_MIN_ROWS = 20
# Bits of h in the sums, at least; of numbers from the centre of a grid to its ends, at most in the sums, and in scores.
_BITS_OF_H, _MAX_BITS_IN_SUMS, _BITS = 14, 11, 20
# The numbers of a term.
SLOPE, STEP, CENTRE, LOW, HIGH = range(5)
# The steps of grids of numbers: beyond these, their products with slopes may leave the range of float64.
_LEAST_STEP, _LARGEST_STEP = 2.0**-300, 2.0**300
# A feature that the others explain but for this share of its variance has no slope.
_LEAST_PIVOT = 1e-9


class LinearLeaves:
    """Fits slopes for the leaves of trees.

    Parameters
    ----------
    rows
        The training rows.
    bins
        The bins of the features.
    parameters
        The parameters of the fit.
    """

    def __init__(self, rows: Rows, bins: Sequence[Bins], parameters: Parameters) -> None:
        self._ends = np.array([_ends(each) for each in bins])
        self._gains = np.zeros(len(bins))
        self._may_be_added = self._without_missing(rows) & (parameters.interaction_constraints is None)
        p = parameters
        self._penalties = p.linear_lambda, p.reg_lambda, p.reg_alpha, p.max_delta_step or 0.0

    def fitted(
        self, engine: Engine, number: IntArray, feature: IntArray, left: IntArray, values: FloatArray, shrinkage: float
    ) -> list[LinearColumns | None]:  # fmt: skip
        """Return the linear leaves of a tree for each output, times the factor of leaf values; None if it has none.

        Parameters
        ----------
        engine
            The engine that grew the tree, a `LinearEngine`.
        number
            The engine's index of each node, int64 (nodes,).
        feature, left
            int64 (nodes,): as in `Tree`; a right child follows the left one.
        values
            float64 (outputs, nodes).
        shrinkage
            The factor.
        """
        feature, left = np.ascontiguousarray(feature), np.ascontiguousarray(left)  # kernels are compiled once
        by_gain = np.argsort(-self._gains, kind="stable")
        others = by_gain[(self._gains > 0.0)[by_gain] & self._may_be_added[by_gain]]
        leaves, paths = np.empty(len(feature), np.int64), np.full((len(feature), MAX_TERMS), LEAF)
        count = paths_of_leaves(feature, left, self._ends, others, leaves, paths)
        if not count:
            return [None] * len(values)
        leaves, paths = leaves[:count], paths[:count]
        linear_engine, n_outputs = cast(LinearEngine, engine), len(values)
        ranges = linear_engine.leaf_ranges(number[leaves], paths)
        offsets, terms = np.empty((n_outputs, count, 2)), np.zeros((count, MAX_TERMS, 5))
        count = grids_of_leaves(leaves, paths, ranges, self._ends, offsets, terms)
        if not count:
            return [None] * n_outputs
        leaves, paths, terms = leaves[:count], paths[:count], terms[:count]
        grid = LinearColumns(number[leaves], np.empty(count), paths, terms)
        sums = linear_engine.leaf_sums(grid, np.ascontiguousarray(offsets[:, :count]))
        largest = np.abs(values[:, feature == LEAF]).max(axis=1)
        counts, *columns = slopes_of_outputs(sums, self._penalties, shrinkage, largest, leaves, paths, terms)
        of_outputs = enumerate(counts.tolist())
        return [LinearColumns(*(each[k, :n] for each in columns)) if n else None for k, n in of_outputs]

    def count(self, feature: npt.ArrayLike, gain: npt.ArrayLike) -> None:
        """Add the gains of a tree's splits, both (nodes,), to those by which leaves of later trees choose features."""
        features, gains = np.asarray(feature), np.asarray(gain)
        is_split = features != LEAF
        np.add.at(self._gains, features[is_split], gains[is_split])

    def _without_missing(self, rows: Rows) -> BoolArray:
        """Return which features can have slopes and no row lacks: a row without a leaf's number has its constant."""
        may: BoolArray = ~np.isnan(self._ends[:, 0])
        roles = {index: linear_role(index) for index in np.flatnonzero(may).tolist()}
        missing = {
            role: Aggregate("max", Expression(f"CASE WHEN {role} IS NULL THEN 1 ELSE 0 END", (role,)))
            for role in roles.values()
        }
        has_missing = rows.aggregate(missing) if missing else {}
        for index, role in roles.items():
            may[index] = not has_missing[role]
        return may


def _ends(bins: Bins) -> tuple[float, float]:
    """Return the range to which a feature is clipped before slopes apply: that of its cuts, extended by its width.

    NaN if the feature can't have slopes.
    """
    if may_have_slope(bins.feature) and bins.cuts:
        first, last = float(bins.cuts[0]), float(bins.cuts[-1])
        width = last - first or 1.0
        ends = first - width, last + width
        if all(map(math.isfinite, (*ends, 2 * width))):
            return ends
    return math.nan, math.nan


# --- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def paths_of_leaves(feature, left, ends, others, leaves, paths):  # type: ignore[no-untyped-def]
    """Write the leaves that may have slopes, int64 (nodes,), and the features of these slopes; return how many leaves.

    Features are those of the last splits above a leaf, nearest first, then as many of ``others``, int64 (features,), as
    there is room for: ``paths`` is int64 (nodes, `MAX_TERMS`), -1 before and past them.
    """
    count = 0
    for node in range(len(feature)):
        split, size = feature[node], 0
        if split != LEAF:
            for child in (left[node], left[node] + 1):
                size = 0
                if ends[split, 0] == ends[split, 0]:
                    paths[child, 0] = split
                    size = 1
                for k in range(MAX_TERMS):
                    if paths[node, k] != split and size < MAX_TERMS:
                        paths[child, size] = paths[node, k]
                        size += 1
            continue
        while size < MAX_TERMS and paths[node, size] != LEAF:
            size += 1
        for other in others:
            is_added = node > 0 and size < MAX_TERMS
            for k in range(size):
                is_added &= paths[node, k] != other
            if is_added:
                paths[node, size] = other
                size += 1
        if size:
            leaves[count] = node
            for k in range(MAX_TERMS):
                paths[count, k] = paths[node, k]
            count += 1
    return count


@kernel
def grids_of_leaves(leaves, features, ranges, ends, offsets, terms):  # type: ignore[no-untyped-def]
    """Write the grids of the sums of leaves; return how many have any: not those of few rows or equal numbers.

    All outputs have the grids of numbers, though a row whose h is 0 in one of them is not in its ranges and sums.

    Parameters
    ----------
    leaves, features
        See `paths_of_leaves`. These become those that have grids.
    ranges
        See `LinearEngine.leaf_ranges`.
    ends
        float64 (features, 2): the ends to which their numbers are clipped.
    offsets, terms
        Of g and h, float64 (outputs, leaves, 2), and as in `LinearColumns`, zero at first.
    """
    count = 0
    for leaf in range(len(leaves)):
        n_rows = ranges[:, leaf, 0].max()
        bits_of_rows = math.frexp(n_rows)[1]
        bits = min(_MAX_BITS_IN_SUMS, (51 - bits_of_rows - _BITS_OF_H) // 2)
        if n_rows < _MIN_ROWS or bits < 1:
            continue
        size = 0
        for k in range(MAX_TERMS):
            feature = features[leaf, k]
            if feature == LEAF:
                break
            first, last, low, high = ends[feature, 0], ends[feature, 1], np.inf, -np.inf
            for of_output in ranges[:, leaf]:
                if of_output[0] > 0:
                    low, high = min(low, of_output[3 + 2 * k]), max(high, of_output[4 + 2 * k])
            low, high = min(max(low, first), last), min(max(high, first), last)
            step = _bit_step(high - low, bits + 1)
            furthest = max(abs(low), abs(high))
            if not high - low > 0.0 or not _LEAST_STEP <= step <= _LARGEST_STEP or furthest > 2.0**50 * step:
                continue
            centre = np.rint((low / 2 + high / 2) / step) * step + 0.0
            offset, most = OFFSET_STEPS * step, math.ldexp(step, bits)
            features[count, size] = feature
            terms[count, size, STEP], terms[count, size, CENTRE] = step, centre
            terms[count, size, LOW] = min(max((low + offset) - (offset + centre), -most), most)
            terms[count, size, HIGH] = min(max((high + offset) - (offset + centre), -most), most)
            size += 1
        if size:
            # Of 2^bits_of_rows products, the largest have 2^bits (or its square) times as many steps as g (or h).
            for output in range(len(ranges)):
                _, g, h = ranges[output, leaf, :3]
                offsets[output, count, 0] = OFFSET_STEPS * _bit_step(g, 51 - bits_of_rows - bits)
                offsets[output, count, 1] = OFFSET_STEPS * _bit_step(h, 51 - bits_of_rows - 2 * bits)
            leaves[count] = leaves[leaf]
            for k in range(size, MAX_TERMS):
                features[count, k] = LEAF
            count += 1
    return count


@kernel
def slopes_of_outputs(sums, penalties, shrinkage, largest, leaves, features, terms):  # type: ignore[no-untyped-def]
    """Return the numbers of linear leaves by output, int64 (outputs,), and the arrays of `LinearColumns` by output.

    Parameters
    ----------
    sums
        See `LinearEngine.leaf_sums`.
    penalties, shrinkage
        See `_slopes_of_leaves`.
    largest
        float64 (outputs,): the largest magnitude of the tree's leaves without slopes.
    leaves, features, terms
        See `grids_of_leaves`: those of all outputs.
    """
    n_outputs, n_leaves = len(sums), len(leaves)
    centres = np.zeros((n_leaves, MAX_TERMS))  # the mean over outputs of the mean of a term
    for leaf in range(n_leaves):
        n = 0
        for of_output in sums[:, leaf]:
            if of_output[1, 0] > 0.0:
                n += 1
                for k in range(MAX_TERMS):
                    centres[leaf, k] += of_output[2 + k, 0] / of_output[1, 0]
        for k in range(MAX_TERMS):
            centres[leaf, k] /= max(n, 1)
    counts, shape = np.empty(n_outputs, np.int64), (n_outputs, n_leaves)
    nodes, constants = np.empty(shape, np.int64), np.empty(shape)
    all_features, all_terms = np.empty((*shape, MAX_TERMS), np.int64), np.empty((*shape, *terms.shape[1:]))
    nodes[:], all_features[:], all_terms[:] = leaves, features, terms
    for k in range(n_outputs):
        counts[k] = _slopes_of_leaves(
            sums[k], centres, penalties, shrinkage, largest[k], n_outputs > 1, nodes[k], constants[k], all_features[k],
            all_terms[k],
        )  # fmt: skip
    return counts, nodes, constants, all_features, all_terms


@kernel
def _slopes_of_leaves(  # type: ignore[no-untyped-def]
    sums, centres, penalties, shrinkage, largest, keeps_all, leaves, constants, features, terms
):
    """Write linear leaves; return how many there are, without leaves that get no slopes.

    Parameters
    ----------
    sums
        See `LinearEngine.leaf_sums`.
    centres
        float64 (leaves, `MAX_TERMS`): where terms are to be 0.
    penalties
        ``linear_lambda``, ``reg_lambda``, ``reg_alpha`` and ``max_delta_step`` or 0.
    shrinkage
        The factor of leaf values.
    largest
        The largest magnitude of the tree's leaves without slopes.
    keeps_all
        Whether to keep terms with a slope of 0, so that the leaves of all outputs have the same terms.
    leaves, constants, features, terms
        See `grids_of_leaves` and `LinearColumns`. They become those of the linear leaves.
    """
    linear_lambda, reg_lambda, reg_alpha, limit = penalties
    means, slopes = np.empty(MAX_TERMS), np.empty(MAX_TERMS)
    count = 0
    for leaf in range(len(leaves)):
        n_terms, size, total, range_ = 0, 0, 0.0, 0.0
        while n_terms < MAX_TERMS and features[leaf, n_terms] != LEAF:
            n_terms += 1
        solve_slopes(sums[leaf], n_terms, linear_lambda, means, slopes)
        for k in range(n_terms):
            size += slopes[k] != 0.0
            total += slopes[k]
            range_ += abs(slopes[k]) * (terms[leaf, k, HIGH] - terms[leaf, k, LOW])
        if not size or not math.isfinite(total):
            continue
        constant = bounded_weight(sums[leaf, 0, 0], sums[leaf, 1, 0], reg_lambda, reg_alpha, limit, -np.inf, np.inf)
        factor, room = 1.0, limit - abs(constant)
        if limit and range_ > room:  # so that values do not exceed the room that a largest step leaves
            factor = max(room, 0.0) / range_
        size, magnitude = 0, 0.0
        for k in range(n_terms):
            if slopes[k] == 0.0 and not keeps_all:
                continue
            low, high, centre = terms[leaf, k, LOW], terms[leaf, k, HIGH], terms[leaf, k, CENTRE]
            # The grid of scores is finer than that of sums.
            step = max(_bit_step(high - low, _BITS), _bit_step(max(abs(centre + low), abs(centre + high)), 50))
            step = min(step, terms[leaf, k, STEP])
            # Around the mean, so that the constant is what a leaf without slopes has, but for rounding.
            to_centre, slope = np.rint(centres[leaf, k] / step) * step, slopes[k] * factor
            constant -= slope * (means[k] - to_centre)
            low, high, slope = low - to_centre, high - to_centre, slope * shrinkage
            features[count, size] = features[leaf, k]
            terms[count, size, SLOPE], terms[count, size, STEP] = slope, step
            terms[count, size, CENTRE], terms[count, size, LOW], terms[count, size, HIGH] = (
                centre + to_centre,
                low,
                high,
            )
            magnitude += abs(slope) * max(abs(low), abs(high))
            size += 1
        for k in range(size, MAX_TERMS):
            features[count, k], terms[count, k, STEP] = LEAF, 1.0
            terms[count, k, CENTRE] = terms[count, k, LOW] = terms[count, k, HIGH] = 0.0
        leaves[count], constants[count] = leaves[leaf], constant * shrinkage
        largest = max(largest, abs(constants[count]) + magnitude)
        count += 1
    step = _bit_step(largest, 51)  # so that a row's value is exact in every engine
    for leaf in range(count):
        constants[leaf] = np.rint(constants[leaf] / step) * step + 0.0
        for k in range(MAX_TERMS):
            of_slope = max(step / terms[leaf, k, STEP], 2.0**-1022)
            terms[leaf, k, SLOPE] = np.rint(terms[leaf, k, SLOPE] / of_slope) * of_slope + 0.0
    return count


@kernel
def solve_slopes(sums, n_terms, penalty, means, slopes):  # type: ignore[no-untyped-def]
    """Write the means and slopes of a leaf's terms, from its sums (see `LinearEngine.leaf_sums`)."""
    G, H = sums[0, 0], sums[1, 0]
    safe_H = H if H > 0.0 else 1.0
    scale, inverse, solved = np.zeros(n_terms), np.zeros(n_terms), np.zeros(n_terms)
    # R + μ/H = L Lᵀ, with rows and columns of zeros where a feature is left out.
    lower = np.zeros((n_terms, n_terms))
    for k in range(n_terms):
        means[k] = sums[2 + k, 0] / safe_H
        for j in range(k + 1):
            lower[k, j] = sums[2 + k, 1 + j] - means[j] * sums[2 + k, 0]
        if lower[k, k] > 0.0 and H > 0.0:
            scale[k], lower[k, k] = 1.0 / np.sqrt(lower[k, k]), 1.0 + penalty / safe_H
        else:
            lower[k, k] = 0.0
    for j in range(n_terms):
        pivot, value = lower[j, j], -(sums[0, 1 + j] - G * means[j]) * scale[j]
        for i in range(j):
            pivot -= lower[j, i] * lower[j, i]
            value -= lower[j, i] * solved[i]
        if pivot > _LEAST_PIVOT:
            inverse[j] = 1.0 / np.sqrt(pivot)
        solved[j] = value * inverse[j]
        for k in range(j + 1, n_terms):
            entry = lower[k, j] * scale[j] * scale[k]
            for i in range(j):
                entry -= lower[k, i] * lower[j, i]
            lower[k, j] = entry * inverse[j]
    for j in range(n_terms - 1, -1, -1):
        for i in range(j + 1, n_terms):
            solved[j] -= lower[i, j] * solved[i]
        solved[j] *= inverse[j]
        slopes[j] = solved[j] * scale[j]


@kernel
def _bit_step(largest, bits):  # type: ignore[no-untyped-def]
    """Return `frameboost.expressions.grid.bit_step`."""
    mantissa, exponent = math.frexp(largest)
    if largest == 0.0:
        return 2.0**-1022
    return math.ldexp(1.0, max(exponent - (mantissa == 0.5) - bits, -1022))
