"""The engine of exact greedy search (``tree_method="exact"``): presorted columns, scanned once per level.

See Chen & Guestrin 2016, algorithm 1 and section 4.1. `PresortedEngine`, the base class, holds each row's node and its
rank in every column; ``tree_method="approx"`` with ``proposal="local"`` uses it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.arrays import sort_column
from frameboost.binning.bins import Bins, thresholds_of_gaps
from frameboost.engines.memory.engine import ArrayEngine
from frameboost.expressions.grid import Scalar
from frameboost.runtime.intrinsics import AHEAD, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.workers import NO_TEAM, VALUES_PER_TASK
from frameboost.schema.types import FeatureType, Physical, float32_at_least
from frameboost.splits.search import bounded_gain, bounded_score, categorical_split, find_splits, split_gain
from frameboost.splits.split import IntArray, Penalties, Split, SplitLimits, Stats

__all__ = ["ExactEngine", "PresortedEngine", "rank_of"]


class PresortedEngine(ArrayEngine):
    """Rows as ranks, (features, rows): the index of each value among the column's distinct values.

    The values 2.5, NULL, 1.0, 2.5 have the ranks 1, 2, 0, 1: missing values rank after the largest value. Splits
    compare ranks: every distinct value is a bin.
    """

    def presort(self) -> list[Bins]:
        """See `ColumnBlockEngine.presort`."""
        self.load()
        n_features = len(self.features)
        self.ranks = np.empty((n_features, self.n_rows), dtype=np.uint32)
        self.sorted_rows = np.empty_like(self.ranks)  # the missing first, then by ascending value
        columns = self.workers.each(
            range(n_features),
            lambda i: sort_column(self.features[i], self.values(i), self.ranks[i], self.sorted_rows[i]),
        )
        self.bins: list[Bins] = [bins for bins, _ in columns]
        self.distinct: list[pl.Series] = [distinct for _, distinct in columns]
        self.columns.drop()
        self.node_of = np.zeros(self.n_rows, dtype=np.int32)
        return self.bins

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self.node_of[:] = 0
        self.n_nodes = 1

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        split_of = np.full(self.n_nodes, -1, dtype=np.int64)
        split_of[list(splits)] = np.arange(len(splits))
        chosen = [split for split, _, _ in splits.values()]
        tables = [
            np.empty(0, np.bool_) if s.categories is None else s.goes_left(self.bins[s.feature].count + 1)
            for s in chosen
        ]
        ends = np.cumsum([len(table) for table in tables])
        arguments = (
            self.ranks, self.node_of, split_of,
            np.array([s.feature for s in chosen]),
            np.array([s.bin for s in chosen]),
            np.array([len(self.distinct[s.feature]) for s in chosen]),
            np.array([s.missing_left for s in chosen]),
            np.array([left for _, left, _ in splits.values()], dtype=np.int32),
            np.array([right for _, _, right in splits.values()], dtype=np.int32),
            np.array([end - len(t) if len(t) else -1 for t, end in zip(tables, ends, strict=True)]),
            np.concatenate(tables),
        )  # fmt: skip
        self.workers.over(self.n_rows, lambda a, b: move_rows(*arguments, a, b), smallest=VALUES_PER_TASK)
        self.n_nodes = max(self.n_nodes, *(child + 1 for _, left, right in splits.values() for child in (left, right)))

    def rank_of(self, feature: int, threshold: Physical | None) -> int:
        """See `ColumnBlockEngine.rank_of`."""
        return rank_of(self.distinct[feature], threshold)

    def merge_nodes(self, nodes: Mapping[int, int]) -> None:
        """See `ColumnBlockEngine.merge_nodes`."""
        table = np.arange(self.n_nodes, dtype=np.int32)
        table[list(nodes)] = list(nodes.values())
        self.node_of = table[self.node_of]

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        table = np.zeros(self.n_nodes)
        table[list(values)] = list(values.values())
        self.margins(margin)[:] += table[self.node_of]

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(pl.Series(self.node_of), self.hessians(), value, weight, alpha)


def rank_of(distinct: pl.Series, threshold: Physical | None) -> int:
    """Return the rank of the lowest distinct value that is not below a threshold; past all ranks for None."""
    if threshold is None:
        return len(distinct)
    edge = float32_at_least([threshold])[0] if distinct.dtype == pl.Float32 else threshold
    return int(distinct.search_sorted(pl.Series([edge], dtype=distinct.dtype), side="left").item())


# A split whose threshold is still to be chosen, and the gap that it is in.
_Candidate = tuple[Split, tuple[Physical, Physical] | None]


class ExactEngine(PresortedEngine):
    """`ColumnBlockEngine` over arrays.

    A column's block has an entry (rank << 32) + row for every row, contiguous by node and sorted by value within a
    node. A split partitions each block stably, so that nodes stay sorted. Example: x is 7, 3, 9, 3 in rows 0 to 3
    (ranks 1, 0, 2, 0), and a split on another column sends rows 0 and 3 left::

        root                    (0, row 1) (0, row 3) (1, row 0) (2, row 2)
        left child, then right  (0, row 3) (1, row 0) | (0, row 1) (2, row 2)

    A scan reads a node's range in order, accumulates g and h, and scores a split wherever the rank changes: in the
    root, before row 0 and before row 2.
    """

    def presort(self) -> list[Bins]:
        """See `ColumnBlockEngine.presort`."""
        bins = super().presort()
        self.blocks = np.empty(self.ranks.shape, dtype=np.uint64)
        return bins

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        super().reset_nodes()
        self.ranges = {0: (0, self.n_rows)}  # node -> its range in every block
        self._is_sorted = False  # whether the blocks hold this tree's rows
        self._pending: list[tuple[int, int, int]] = []  # deferred splits of the blocks: node, left, right

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        super().apply_splits(splits)
        self._pending += [(node, left, right) for node, (_, left, right) in splits.items()]

    def best_splits(
        self, nodes: Sequence[int], totals: Sequence[Stats], penalties: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        """See `ColumnBlockEngine.best_splits`."""
        part = self._parting()
        self._rows: tuple[IntArray, np.int64] | None = None  # of each node, and the least of a child
        if penalties.least_rows is not None:
            n_rows = np.bincount(self.node_of, self.counted_gh[:, 0], self.n_nodes)
            self._rows = n_rows[list(nodes)].astype(np.int64), np.int64(penalties.least_rows)

        def scan(feature: int) -> list[_Candidate | None]:
            is_categorical = self.features[feature].type.is_categorical
            if not is_categorical:
                part(feature)
            if not limits.allowed[:, feature].any():
                return [None] * len(nodes)
            by_value = self._categorical if is_categorical else self._numeric
            return by_value(feature, nodes, totals, penalties, limits)

        by_feature = self.workers.each(range(len(self.features)), scan)
        # Ties go to the lowest feature: max keeps the first.
        best = [
            max((s for s in of_node if s is not None), key=lambda s: s[0].gain, default=None)
            for of_node in zip(*by_feature, strict=True)
        ]
        thresholds = thresholds_of_gaps([each and each[1] for each in best])
        return [each and each[0]._replace(threshold=t) for each, t in zip(best, thresholds, strict=True)]

    def _numeric(
        self, feature: int, nodes: Sequence[int], totals: Sequence[Stats], p: Penalties, limits: SplitLimits
    ) -> list[_Candidate | None]:
        n = len(totals)
        G, H = np.array([t.G for t in totals]), np.array([t.H for t in totals])
        parent = np.array([
            bounded_score(t.G, t.H, p.reg_lambda, p.reg_alpha, p.max_delta_step, lower, upper)
            for t, (lower, upper) in zip(totals, limits.bounds.tolist(), strict=True)
        ])  # fmt: skip
        best, stats = np.empty((n, 4), dtype=np.int64), np.empty((n, 3))
        starts, stops = np.array([self.ranges[node] for node in nodes]).T.copy()
        scan_column(
            self.blocks[feature], starts, stops, len(self.distinct[feature]), self.tree_gh,
            limits.allowed[:, feature].copy(), G, H, self._rows, limits.monotone[feature], limits.bounds,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, parent, best, stats,
        )  # fmt: skip
        splits: list[_Candidate | None] = []
        for total, (is_split, below, above, missing_left), (gain, GL, HL) in zip(
            totals, best.tolist(), stats.tolist(), strict=True
        ):
            if not is_split:
                splits.append(None)
                continue
            values = self.distinct[feature]
            is_presence = above < 0
            gap = None if is_presence else _gap(self.features[feature].type, values[below], values[above])
            left = Stats(GL, HL)
            bound = len(values) if is_presence else above
            splits.append((Split(feature, gain, left, total - left, bool(missing_left), bin=bound), gap))
        return splits

    def _categorical(
        self, feature: int, nodes: Sequence[int], totals: Sequence[Stats], p: Penalties, limits: SplitLimits
    ) -> list[_Candidate | None]:
        index_of = np.full(self.n_nodes, -1, dtype=np.int64)
        index_of[list(nodes)] = np.where(limits.allowed[:, feature], np.arange(len(nodes)), -1)
        n_codes = self.bins[feature].count + 1
        per_node = 1 if p.least_rows is None else 2  # that of the numbers of rows is behind that of g and h
        histograms = np.zeros((len(totals), per_node, n_codes, 2))
        category_histogram(self.ranks[feature], self.node_of, self.tree_gh, index_of, histograms[:, 0])
        if p.least_rows is not None:
            category_histogram(self.ranks[feature], self.node_of, self.counted_gh, index_of, histograms[:, 1])
        best, stats = np.empty((len(totals), 3), dtype=np.int64), np.empty((len(totals), 3))
        monotone, bounds = limits.bounding(p.max_delta_step)
        monotone_of_feature = None if monotone is None else monotone[feature : feature + 1]
        find_splits(
            NO_TEAM, histograms.reshape(-1, n_codes, 2), per_node * np.arange(len(totals)), np.array([0, n_codes]),
            np.array([True]), limits.allowed[:, feature : feature + 1].copy(), monotone_of_feature, bounds, None,
            p.least_rows, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, stats, 1,
        )  # fmt: skip
        splits: list[_Candidate | None] = []
        for total, histogram, choice, (gain, GL, HL) in zip(
            totals, histograms[:, 0], best.tolist(), stats.tolist(), strict=True
        ):
            chosen = None
            if choice[0] >= 0:
                category, missing_left = choice[1], bool(choice[2])
                left = Stats(GL, HL)
                chosen = categorical_split(histogram, feature, category, missing_left, gain, left, total, p), None
            splits.append(chosen)
        return splits

    def _parting(self) -> Callable[[int], None]:
        """Compute the ranges of the new children; return a function that partitions a column's block."""
        was_sorted, self._is_sorted = self._is_sorted, True
        pending, self._pending = self._pending, []
        starts, stops = np.array([self.ranges[node] for node, _, _ in pending], dtype=np.int64).reshape(-1, 2).T.copy()
        is_left = np.zeros(self.n_nodes, dtype=np.bool_)
        is_left[[left for _, left, _ in pending]] = True
        goes_left = is_left[self.node_of]
        sizes = np.bincount(self.node_of, minlength=self.n_nodes)
        for (_, left, right), start, stop in zip(pending, starts.tolist(), stops.tolist(), strict=True):
            middle = start + int(sizes[left])
            self.ranges[left], self.ranges[right] = (start, middle), (middle, stop)

        def part(feature: int) -> None:
            block = self.blocks[feature]
            if not was_sorted:
                fill_block(self.sorted_rows[feature], self.ranks[feature], block)
            if pending:
                part_block(block, starts, stops, goes_left)

        return part


def _gap(kind: FeatureType, below: Physical, above: Physical) -> tuple[Physical, Physical]:
    """Return the gap that contains the threshold: two adjacent values for floats, otherwise up to their midpoint.

    Integer physical values are split at the midpoint, rounded up, as in XGBoost.
    """
    return (below, above) if kind.is_float else (below, -((-int(below) - int(above)) // 2))


# --- kernels ----------------------------------------------------------------------------------------------------------


# An entry of a block is (rank << 32) + row.
_ROW = np.uint64(2**32 - 1)
_RANK = np.uint64(32)


@kernel
def fill_block(order, codes, block):  # type: ignore[no-untyped-def]
    """Write the rows of ``order`` with their codes to ``block``, uint64 (rows,), as (code << 32) + row."""
    n = np.uint64(len(order))
    for i in range(n):
        if i + AHEAD < n:
            prefetch(codes, np.uint64(order[i + AHEAD]))
        row = np.uint64(order[i])
        block[i] = (np.uint64(codes[row]) << _RANK) | row


@kernel
def part_block(block, starts, stops, goes_left):  # type: ignore[no-untyped-def]
    """Partition each range stably: rows that go left come first, and both sides keep their order.

    The range a b c d, with b and d going left, becomes b d a c. Left rows are written in place, right rows to a buffer
    that is copied after them.

    Parameters
    ----------
    block
        uint64 (rows,), see `fill_block`, reordered.
    starts, stops
        int64 (nodes,): the ranges.
    goes_left
        bool (rows,): whether a row goes left.
    """
    buffer = np.empty(len(block), dtype=np.uint64)
    for k in range(len(starts)):
        start, stop = np.uint64(starts[k]), np.uint64(stops[k])
        left, n_right = start, np.uint64(0)
        for i in range(start, stop):
            # Both sides are written, and one counter moves: no branch that could be mispredicted.
            entry = block[i]
            is_left = np.uint64(goes_left[entry & _ROW])
            block[left] = entry
            buffer[n_right] = entry
            left += is_left
            n_right += np.uint64(1) - is_left
        for i in range(n_right):
            block[left + i] = buffer[i]


@kernel(error_model="numpy")
def scan_column(  # type: ignore[no-untyped-def]
    block, starts, stops, missing, gradients, allowed, G, H, rows, direction, bounds,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, parent, best, stats,
):  # fmt: skip
    """Search the best split of every open node on one column, in one scan of its block.

    Rows with a missing value come first, so their sums are known when the first value is reached. Each boundary between
    two values is scored with missing values on the left and on the right.

    Parameters
    ----------
    block
        uint64 (rows,): (code << 32) + row; a code is the rank of a value among the distinct ones.
    starts, stops
        int64 (open nodes,): each node's range of the block: missing values first, then ascending codes.
    missing
        The code of a missing value.
    gradients
        float64 (rows, 2): g and h.
    allowed
        bool (open nodes,): whether a node may be split on the column.
    G, H
        float64 (open nodes,): sums over each node.
    rows
        int64 (open nodes,), the numbers of their rows with a gradient, and the minimum of a child; None if rows are not
        counted.
    direction
        1 where leaf weights must not decrease from left to right, -1 where they must not increase, else 0.
    bounds
        float64 (open nodes, 2): the bounds of the leaf weights in each node, infinite without constraints.
    reg_lambda, reg_alpha, max_delta_step, min_child_weight
        See `frameboost.fit`.
    parent
        float64 (open nodes,): the score of each node unsplit.
    best
        int64 (open nodes, 4), written: whether there is a split, the ranks on both sides of it (the upper is -1 for the
        split of present from missing values), and whether missing goes left.
    stats
        float64 (open nodes, 3), written: gain, G and H of the left child.
    """
    is_bounded = direction != 0 or max_delta_step != 0.0 or bool(np.isfinite(bounds).any())
    gh = gradients.ravel()
    for node in range(len(starts)):
        stats[node, 0] = 0.0
        best[node, 0] = 0
        if not allowed[node]:
            continue
        missing_G = missing_H = left_G = left_H = 0.0
        n_missing = n_left = 0
        last, most = np.int64(-1), 0.0
        total_G, total_H = G[node], H[node]
        stop = np.uint64(stops[node])
        for i in range(np.uint64(starts[node]), stop + np.uint64(1)):
            if i < stop:
                if i + AHEAD < stop:
                    prefetch(gh, (block[i + AHEAD] & _ROW) << np.uint64(1))
                at = (block[i] & _ROW) << np.uint64(1)
                code = np.int64(block[i] >> _RANK)
                g, h = gh[at], gh[at + np.uint64(1)]
                if code == missing:
                    missing_G += g
                    missing_H += h
                    n_missing += (g != 0.0) | (h != 0.0)
                    continue
            else:  # past the end: all present values go left
                code, g, h = np.int64(-1), 0.0, 0.0
            if last >= 0 and code != last:
                for missing_left in range(1 + (missing_H != 0.0 or missing_G != 0.0)):
                    GL = left_G + missing_left * missing_G
                    HL = left_H + missing_left * missing_H
                    if rows is not None:
                        n_of_left = n_left + missing_left * n_missing
                        if n_of_left < rows[1] or rows[0][node] - n_of_left < rows[1]:
                            continue
                    if is_bounded:
                        # A split of present from missing values has no direction.
                        way = direction if code >= 0 else np.int8(0)
                        gain = bounded_gain(
                            GL, HL, total_G, total_H, parent[node], way, bounds[node, 0], bounds[node, 1],
                            reg_lambda, reg_alpha, max_delta_step, min_child_weight,
                        )  # fmt: skip
                    else:
                        gain = split_gain(
                            GL, HL, total_G, total_H, parent[node], reg_lambda, reg_alpha, min_child_weight
                        )
                    if gain > most:
                        most = gain
                        best[node, 0], best[node, 1], best[node, 2], best[node, 3] = 1, last, code, missing_left
                        stats[node, 0], stats[node, 1], stats[node, 2] = gain, GL, HL
            left_G += g
            left_H += h
            n_left += (g != 0.0) | (h != 0.0)
            last = code


@kernel
def category_histogram(codes, node_of, gradients, index_of, out):  # type: ignore[no-untyped-def]
    """Add each row's gradient pair to its category: ``out`` is float64 (open nodes, categories + 1, 2), zero before."""
    for row in range(len(codes)):
        node = index_of[node_of[row]]
        if node >= 0:
            out[node, codes[row], 0] += gradients[row, 0]
            out[node, codes[row], 1] += gradients[row, 1]


@kernel
def move_rows(  # type: ignore[no-untyped-def]
    codes,
    node_of,
    split_of,
    feature,
    bound,
    missing,
    missing_left,
    left,
    right,
    table_at,
    tables,
    first,
    last,
):
    """Move rows ``first`` to ``last - 1`` to the children of their nodes.

    Parameters
    ----------
    codes
        uint32 (features, rows).
    node_of
        int32 (rows,), changed.
    split_of
        int64 (nodes,): the number of the node's split; -1 for none.
    feature, bound, missing, missing_left, left, right
        One entry per split: a row goes left if its code is below ``bound``, or is ``missing`` and ``missing_left``.
    table_at, tables
        For a categorical split, the start of its table in ``tables`` (bool): whether each code goes left; else -1.
    """
    for row in range(first, last):
        split = split_of[node_of[row]]
        if split < 0:
            continue
        code = codes[feature[split], row]
        if table_at[split] >= 0:
            is_left = tables[table_at[split] + code]
        elif code == missing[split]:
            is_left = missing_left[split]
        else:
            is_left = code < bound[split]
        node_of[row] = left[split] if is_left else right[split]
