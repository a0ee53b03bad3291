"""Sums over the pairs of each query's rows by a kernel, with queries shared between threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numba import carray  # type: ignore[attr-defined]

from frameboost.engines.elementary import exponentials, has_exact_exponentials
from frameboost.engines.ranking.queries import Queries
from frameboost.expressions.draws import draw_key, draws
from frameboost.losses.loss import RankingPairs
from frameboost.runtime.intrinsics import as_pointer
from frameboost.runtime.kernel import kernel, read_only
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray

__all__ = ["columns_read", "pair_sums", "sum_pairs"]


# The kernel's number of the measure that a swap changes, and the columns that it reads for it (``label``: none).
_CHANGES = {
    "pairwise": (0, ("label", "label", "label")),
    "ndcg": (1, ("gain_share", "discount", "label")),
    "map": (2, ("hits", "credit", "relevant")),
}


def columns_read(pairs: RankingPairs) -> tuple[str, ...]:
    """Return the columns that `pair_sums` reads."""
    if pairs.seed is not None:
        return pairs.columns
    return ("label", "margin", "rank", *_CHANGES[pairs.change][1])


def pair_sums(
    queries: Queries, columns: Mapping[str, FloatArray], pairs: RankingPairs, offset: float, workers: Workers
) -> FloatArray:
    """Return ``pair_g``, ``pair_h`` and ``pair_size`` of every row, (3, rows) (see `Engine.sum_pairs`)."""
    if pairs.seed is not None:
        return _sums_of_drawn(queries, columns, pairs, offset, pairs.seed)
    change, names = _CHANGES[pairs.change]
    first_of_row, second_of_row, relevant = (read_only(columns[name]) for name in names)
    labels, margins = read_only(columns["label"]), read_only(columns["margin"])
    order, starts, n_rows = queries.by_rank(columns["rank"]), queries.starts, len(queries.rows)
    out = np.empty((3, n_rows))

    def add(first: int, last: int) -> None:
        sum_pairs(
            order, starts, labels, margins, change, first_of_row, second_of_row, relevant, pairs.truncation,
            pairs.by_difference, has_exact_exponentials(), offset, first, last, out,
        )  # fmt: skip

    n_queries = len(starts) - 1
    n_pairs = n_rows * min(pairs.truncation, int(np.diff(starts).max()))
    workers.over(n_queries, add, smallest=n_queries * VALUES_PER_TASK // n_pairs)
    return out


# --- drawn pairs ------------------------------------------------------------------------------------------------------

# Odd factors, by which 64-bit numbers are mixed (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
# generators").
_MIXED = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)


def _sums_of_drawn(
    queries: Queries, columns: Mapping[str, FloatArray], pairs: RankingPairs, offset: float, seed: int
) -> FloatArray:
    """Return the sums over sampled pairs, drawn as in XGBoost by the order of labels.

    The draws are a hash of the seed and of the query's labels and margins by rank. So they change in each round, and do
    not depend on the order of the queries or on shards.
    """
    label, rank, starts, n_rows = columns["label"], columns["rank"], queries.starts, len(queries.rows)
    query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    rows = queries.rows[np.lexsort((rank[queries.rows], -label[queries.rows], query))]
    first, end = starts[query], starts[query + 1]
    is_other = np.append(True, (np.diff(label[rows]) != 0) | (np.diff(query) != 0))
    begins = np.flatnonzero(is_other)
    low, high = (bounds[np.cumsum(is_other) - 1] for bounds in (begins, np.append(begins[1:], n_rows)))
    n_others = (low - first) + (end - high)
    content = np.stack([(columns[name][rows] + 0.0).view(np.uint64) for name in ("margin", "label", "rank")])
    own = np.bitwise_xor.reduce((content ^ (content >> np.uint64(29))) * _MIXED[:, None])
    own = (own ^ (own >> np.uint64(32))) * _MIXED[1]
    number = (own + np.add.reduceat(own, starts[:-1])[query]) >> np.uint64(32)
    one, other = [], []
    for each in range(pairs.truncation):
        at = (draws(number, draw_key(seed, each)) * n_others).astype(np.int64)
        partner = np.where(at < low - first, first + at, high + at - (low - first))
        one.append(rows[n_others > 0])
        other.append(rows[partner[n_others > 0]])
    both = np.stack([np.concatenate(one), np.concatenate(other)])
    i, j = np.where(rank[both[0]] < rank[both[1]], both, both[::-1])  # as i is the one before
    sides = {"i": i, "j": j}.items()
    of_pairs = pl.DataFrame({f"{name}_{side}": columns[name][at] for name in pairs.columns for side, at in sides})
    size, curvature = (
        (of_pairs.select(value.to_polars()).to_series().to_numpy() + offset) - offset
        for value in (pairs.size, pairs.curvature)
    )
    down = np.where(label[i] > label[j], -size, size)
    ends, lines = np.concatenate([i, j]), ([down, -down], [curvature] * 2, [size] * 2)
    return np.stack([np.bincount(ends, np.concatenate(line), n_rows) + 0.0 for line in lines])


# --- the sums over the pairs of a query -------------------------------------------------------------------------------


# The rows of a query are laid out by label, those of one label from the last rank up: the ranks 0 to 4 of the labels
# 1, 0, 0, 1, 0 are the rows 4, 2, 1 of label 0 and 3, 0 of label 1. The partners of a row, those behind it that have
# another label, are then the first ones of each other label, side by side: 4, 2, 1 of rank 0, and 3 of ranks 1 and 2.
# So each step is a loop over contiguous arrays, which becomes vector instructions; it takes a multiple of 8 rows,
# as those left over would be taken one by one. Rows that are no partners have the sign 0, and add 0.

_LABEL, _MARGIN, _FIRST, _SECOND, _RANK = range(5)  # the columns of the layout
# With more labels a query is laid out as if it had one, and rows of a row's label have sign 0: short loops over the
# rows of each label take longer than these zeros, up to queries of 1,000 rows.
_MAX_LABELS = 2
_LONGEST = 1 << 14  # with more rows than this in a query, two labels are too many
_WIDTH = 8
_LINE = 8  # numbers of a cache line, which is as wide as the widest vector: arrays begin with one
_AT_ONCE = 1024  # pairs per call of EXP: the call overhead equals 50 of them


@kernel(error_model="numpy")
def _number_labels(order, start, count, labels, most, label_of):  # type: ignore[no-untyped-def]
    """Write the index of the label at each rank, 0 or 1; return the number of labels, 0 for more than ``most``."""
    first = second = labels[order[start]]
    n_labels = 1
    for rank in range(count):
        label = labels[np.uint64(order[np.uint64(start + rank)])]
        is_other = label != first
        if is_other & (label != second):
            if n_labels == most:
                for each in range(count):
                    label_of[each] = 0
                return 0
            second, n_labels = label, 2
        label_of[np.uint64(rank)] = np.int64(is_other)
    return n_labels


@kernel(error_model="numpy")
def _lay_out(order, start, count, label_of, columns, rows, sums, behind, left):  # type: ignore[no-untyped-def]
    """Write the rows of a query by label, sums of 0, and the number of rows of each label to ``behind``, ``left``."""
    labels, margins, first_of_row, second_of_row = columns
    for each in range(_MAX_LABELS):
        behind[each] = 0
    for rank in range(count - 1, -1, -1):
        row, label = np.uint64(order[np.uint64(start + rank)]), np.uint64(label_of[np.uint64(rank)])
        of_label, k = rows[label], np.uint64(behind[label])
        of_label[_LABEL, k], of_label[_MARGIN, k] = labels[row], margins[row]
        of_label[_FIRST, k], of_label[_SECOND, k] = first_of_row[row], second_of_row[row]
        of_label[_RANK, k] = rank
        behind[label] += 1
    for each in range(_MAX_LABELS):
        left[each] = behind[each]
        for i in range(3):
            for j in range(behind[each]):
                sums[each, i, j] = 0.0


@kernel(error_model="numpy")
def _subtract(of_label, at, partners, size, signs, differences):  # type: ignore[no-untyped-def]
    """Write the sign of each pair, 1 in order, -1 out of order, 0 for no pair, and its margins' signed difference."""
    label, margin = of_label[_LABEL, at], of_label[_MARGIN, at]
    padded = (size + _WIDTH - 1) // _WIDTH * _WIDTH
    for k in range(padded):
        other = partners[_LABEL, k]
        sign = 1.0 if label > other else -1.0
        signs[k] = sign if (k < size) & (label != other) else 0.0
        differences[k] = (margin - partners[_MARGIN, k]) * sign
    return padded


@kernel(error_model="numpy")
def _weigh(of_label, at, partners, size, signs, change, relevant, divides, weights):  # type: ignore[no-untyped-def]
    """Write the weight of each pair, 0 for no pair."""
    label, margin = of_label[_LABEL, at], of_label[_MARGIN, at]
    first, second = of_label[_FIRST, at], of_label[_SECOND, at]
    count = of_label[_RANK, at] + 1
    if change == 0:
        for k in range(size):
            weights[k] = abs(signs[k])
    elif change == 1:
        for k in range(size):
            delta = (first - partners[_FIRST, k]) * (second - partners[_SECOND, k])
            weights[k] = abs(delta * signs[k])
    else:
        for k in range(size):
            other, hits, count_other = partners[_LABEL, k], partners[_FIRST, k], partners[_RANK, k] + 1
            between = (partners[_SECOND, k] - other / count_other) - second
            if label < other:
                weight = hits / count_other - (first + 1) / count - between
            else:
                weight = first / count - hits / count_other + between
            weights[k] = abs(weight / relevant * signs[k])
    if divides:
        for k in range(size):
            weights[k] /= abs(margin - partners[_MARGIN, k]) + 0.01


@kernel(fastmath={"reassoc"}, error_model="numpy")
def _plus(total, number):  # type: ignore[no-untyped-def]
    """Return the sum of numbers on a grid, which is exact in any order, so that a loop can use SIMD instructions."""
    return total + number


@kernel(error_model="numpy")
def _add(size, signs, powers, weights, offset, sums):  # type: ignore[no-untyped-def]
    """Add each pair's numbers to the sums of the partner; return their sums, for the row itself."""
    g = h = total = 0.0
    for k in range(size):
        chance, weight = 1.0 / (1.0 + powers[k]), weights[k]
        pull = ((chance * weight) + offset) - offset
        curvature = ((2.0 * max(chance * (1.0 - chance), 1e-16) * weight) + offset) - offset
        signed = signs[k] * pull
        sums[0, k] += signed
        sums[1, k] += curvature
        sums[2, k] += pull
        g, h, total = _plus(g, signed), _plus(h, curvature), _plus(total, pull)
    return g, h, total


@kernel(error_model="numpy")
def _exponentiate(values, powers, size, at_once):  # type: ignore[no-untyped-def]
    """Write EXP of values."""
    if at_once:
        for k in range(0, size, 512):
            exponentials(values[k:], powers[k:], min(512, size - k))
    else:
        for k in range(size):
            powers[k] = np.exp(values[k])


@kernel(error_model="numpy")
def _put_back(order, start, count, label_of, sums, behind, out):  # type: ignore[no-untyped-def]
    """Write the sums of a query's rows in row order."""
    for each in range(_MAX_LABELS):
        behind[each] = 0
    for rank in range(count - 1, -1, -1):
        row, label = np.uint64(order[np.uint64(start + rank)]), np.uint64(label_of[np.uint64(rank)])
        k = np.uint64(behind[label])
        for i in range(3):
            out[i, row] = sums[label, i, k] + 0.0  # no zero keeps its sign
        behind[label] += 1


@kernel(error_model="numpy")
def sum_pairs(  # type: ignore[no-untyped-def]
    order, starts, labels, margins, change, first_of_row, second_of_row, relevant, truncation, by_difference, at_once,
    offset, first, last, out,
):  # fmt: skip
    """Write the sums over the pairs of each row, for the queries ``first`` to ``last - 1`` (see `RankingPairs`).

    Parameters
    ----------
    order
        int64 (rows,): row numbers by query, within a query by descending margin.
    starts
        int64 (queries + 1,): the start of each query in ``order``; last, the number of rows.
    labels, margins
        float64 (rows,).
    change
        The weight of a pair: 0 for 1, 1 for the change of NDCG if the two were swapped, 2 for that of MAP.
    first_of_row, second_of_row
        float64 (rows,): for NDCG ``gain_share`` and ``discount``, for MAP ``hits`` and ``credit``.
    relevant
        float64 (rows,): for MAP, the number of relevant rows of the query.
    truncation
        The number of top rows of a query that are paired with all rows after them.
    by_difference
        Whether to divide weights by the difference of the margins.
    at_once
        Whether `exponentials` is used instead of EXP.
    offset
        Rounds sizes and curvatures to a grid: ``(x + offset) - offset``.
    out
        float64 (3, rows), written: ``pair_g``, ``pair_h`` and ``pair_size``.
    """
    longest = 0
    for query in range(first, last):
        longest = max(longest, starts[query + 1] - starts[query] + _WIDTH)
    longest = (longest + _LINE - 1) // _LINE * _LINE
    most = _MAX_LABELS if longest <= _LONGEST else 1  # less room
    size, n = most * longest, _AT_ONCE + longest + _WIDTH * _MAX_LABELS
    scratch = np.zeros(8 * size + 3 * n + longest + _LINE)
    # Slices of an array that owns no memory are made without counting references, which takes as long as ten pairs.
    address = (scratch.ctypes.data + 8 * _LINE - 1) // (8 * _LINE) * (8 * _LINE)
    rows = carray(as_pointer(address), (most, 5, longest), np.float64)
    sums = carray(as_pointer(address + 40 * size), (most, 3, longest), np.float64)
    address += 64 * size
    signs = carray(as_pointer(address), (n,), np.float64)
    differences = carray(as_pointer(address + 8 * n), (n,), np.float64)
    powers = carray(as_pointer(address + 16 * n), (n,), np.float64)
    weights = carray(as_pointer(address + 24 * n), (longest,), np.float64)
    label_of = np.empty(longest, dtype=np.int64)
    behind, left = np.empty(_MAX_LABELS, dtype=np.int64), np.empty(_MAX_LABELS, dtype=np.int64)
    for query in range(first, last):
        start, count = starts[query], starts[query + 1] - starts[query]
        n_labels = _number_labels(order, start, count, labels, most, label_of)
        columns = labels, margins, first_of_row, second_of_row
        _lay_out(order, start, count, label_of, columns, rows, sums, behind, left)
        divides = by_difference and margins[order[start]] > margins[order[start + count - 1]]
        n_paired = min(count, truncation) if n_labels != 1 else 0
        rank = until = 0
        while rank < n_paired:
            size = 0
            while until < n_paired and size < _AT_ONCE:
                label = label_of[until]
                behind[label] -= 1
                for other in range(max(n_labels, 1)):
                    if other != label or n_labels == 0:
                        of_label, at, room = rows[label], behind[label], differences[size:]
                        size += _subtract(of_label, at, rows[other], behind[other], signs[size:], room)
                until += 1
            _exponentiate(differences, powers, size, at_once)
            done = 0
            while rank < until:
                row, label = order[start + rank], label_of[rank]
                at = left[label] = left[label] - 1
                for other in range(max(n_labels, 1)):
                    if other != label or n_labels == 0:
                        size = (left[other] + _WIDTH - 1) // _WIDTH * _WIDTH
                        of_label, partners, of_pairs = rows[label], rows[other], signs[done:]
                        _weigh(of_label, at, partners, size, of_pairs, change, relevant[row], divides, weights)
                        g, h, total = _add(size, of_pairs, powers[done:], weights, offset, sums[other])
                        sums[label, 0, at] -= g
                        sums[label, 1, at] += h
                        sums[label, 2, at] += total
                        done += size
                rank += 1
        _put_back(order, start, count, label_of, sums, left, out)
    scratch[0] = 0.0  # which keeps it until here
