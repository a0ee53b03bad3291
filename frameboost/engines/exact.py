"""The engine of exact greedy: columns sorted once, and scanned once a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning import Bins
from frameboost.categorical import categorical_split
from frameboost.columns import code_expr, distinct_values, propose_bins
from frameboost.engines.arrays import SMALLEST_TASK, ArrayEngine
from frameboost.engines.contract import Penalties, Scalar, Split, SplitLimits, Stats
from frameboost.engines.exact_kernels import category_histogram, move_rows, scan_column
from frameboost.gain import bounded_score
from frameboost.schema import Feature
from frameboost.split_kernels import scan_histograms
from frameboost.types import FeatureType, Physical

__all__ = ["ExactEngine", "midpoint"]


class ExactEngine(ArrayEngine):
    """`ColumnBlockEngine` over arrays: every distinct value is a bin of its own, known by its rank."""

    def presort(self) -> list[Bins]:
        """See `ColumnBlockEngine.presort`."""
        values = self.load()
        self.bins: list[Bins] = []
        self.distinct: list[pl.Series] = []
        self.ranks = np.empty((len(self.features), len(values)), dtype=np.uint32)
        self.sorted_rows = np.empty_like(self.ranks)
        for i, feature in enumerate(self.features):
            self._sort_column(i, feature, values[str(i)])
        self._values = pl.DataFrame()
        self.node_of = np.zeros(self.n_rows, dtype=np.int32)
        return self.bins

    def _sort_column(self, number: int, feature: Feature, values: pl.Series) -> None:
        if feature.type.is_categorical:
            bins = propose_bins(feature, values, max_bin=2)
            edges: Sequence[Physical] = bins.feature.categories
            missing = bins.missing
            distinct = pl.Series(dtype=pl.String)
        else:
            bins = Bins(feature)
            distinct, _ = distinct_values(values)
            edges = distinct[1:].to_list()
            missing = len(distinct)
        codes = values.to_frame("x").select(code_expr(pl.col("x"), feature.type, edges, missing)).to_series()
        self.bins.append(bins)
        self.distinct.append(distinct)
        self.ranks[number] = codes.to_numpy()
        # Missing rows first: adding 1 modulo (missing + 1) takes their rank from the largest to 0.
        self.sorted_rows[number] = np.argsort((self.ranks[number] + 1) % (missing + 1), kind="stable")

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        self.node_of[:] = 0
        self.n_nodes = 1

    def best_splits(
        self, nodes: Sequence[int], totals: Sequence[Stats], penalties: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        """See `ColumnBlockEngine.best_splits`."""
        found: list[list[Split | None]] = [[None] * len(nodes) for _ in self.features]

        def scan(first: int, last: int) -> None:
            for feature in range(first, last):
                allowed = limits.allowed[:, feature]
                if not allowed.any():
                    continue
                place_of = np.full(self.n_nodes, -1, dtype=np.int64)
                place_of[list(nodes)] = np.where(allowed, np.arange(len(nodes)), -1)
                by_value = self._categorical if self.features[feature].type.is_categorical else self._numeric
                found[feature] = by_value(feature, place_of, totals, penalties, limits)

        self.workers.over(len(self.features), scan)
        # The largest gain; of equals the lowest feature, since max keeps the first.
        return [
            max((s for s in of_node if s is not None), key=lambda s: s.gain, default=None)
            for of_node in zip(*found, strict=True)
        ]

    def _numeric(
        self, feature: int, place_of: np.ndarray, totals: Sequence[Stats], p: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        n = len(totals)
        G, H = np.array([t.G for t in totals]), np.array([t.H for t in totals])
        parent = np.array([
            bounded_score(t.G, t.H, p.reg_lambda, p.reg_alpha, p.max_delta_step, lower, upper)
            for t, (lower, upper) in zip(totals, limits.bounds.tolist(), strict=True)
        ])  # fmt: skip
        best, stats = np.empty((n, 4), dtype=np.int64), np.empty((n, 3))
        scan_column(
            self.sorted_rows[feature], self.ranks[feature], len(self.distinct[feature]), self.node_of,
            self.gradient_pairs, place_of, G, H, limits.monotone[feature], limits.bounds,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, parent, best, stats,
        )  # fmt: skip
        splits: list[Split | None] = []
        for total, (is_split, below, above, missing_left), (gain, GL, HL) in zip(
            totals, best.tolist(), stats.tolist(), strict=True
        ):
            if not is_split:
                splits.append(None)
                continue
            values = self.distinct[feature]
            is_presence = above < 0
            threshold = None if is_presence else midpoint(self.features[feature].type, values[below], values[above])
            left = Stats(GL, HL)
            bound = len(values) if is_presence else above
            splits.append(Split(feature, gain, left, total - left, bool(missing_left), bin=bound, threshold=threshold))
        return splits

    def _categorical(
        self, feature: int, place_of: np.ndarray, totals: Sequence[Stats], p: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        n_codes = self.bins[feature].count + 1
        histograms = np.zeros((len(totals), n_codes, 2))
        category_histogram(self.ranks[feature], self.node_of, self.gradient_pairs, place_of, histograms)
        best, stats = np.empty((len(totals), 3), dtype=np.int64), np.empty((len(totals), 3))
        scan_histograms(
            histograms, np.array([0, n_codes]), np.array([True]),
            limits.allowed[:, feature : feature + 1], limits.monotone[feature : feature + 1], limits.bounds,
            p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, stats,
        )  # fmt: skip
        return [
            None
            if choice[0] < 0
            else categorical_split(histogram, feature, choice[1], bool(choice[2]), gain, Stats(GL, HL), total, p)
            for total, histogram, choice, (gain, GL, HL) in zip(
                totals, histograms, best.tolist(), stats.tolist(), strict=True
            )
        ]

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
        self.workers.over(self.n_rows, lambda a, b: move_rows(*arguments, a, b), smallest=SMALLEST_TASK)
        self.n_nodes = max(right for _, _, right in splits.values()) + 1

    def merge_nodes(self, nodes: Mapping[int, int]) -> None:
        """See `ColumnBlockEngine.merge_nodes`."""
        table = np.arange(self.n_nodes, dtype=np.int32)
        table[list(nodes)] = list(nodes.values())
        self.node_of = table[self.node_of]

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        table = np.zeros(self.n_nodes)
        table[list(values)] = list(values.values())
        self.publish_margins(margin, self.margins(margin) + table[self.node_of])

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(pl.Series(self.node_of), value, weight, alpha)


def midpoint(kind: FeatureType, below: Physical, above: Physical) -> Physical:
    """Return the threshold between two neighbouring values: as ``x < threshold`` it parts them.

    For floats the midpoint as XGBoost computes it, in float32, and the upper value of two neighbouring float32; in
    float64 where float32 can't part the two; the upper value where nothing lies between. For everything else the
    smallest physical value not below the midpoint.
    """
    if not kind.is_float:
        return -((-int(below) - int(above)) // 2)
    low, high = float(below), float(above)
    with np.errstate(over="ignore", invalid="ignore"):
        single_high = np.float32(high)
        in_single = float((np.float32(low) + single_high) * np.float32(0.5))
    if in_single == low and float(single_high) == high:
        return high
    for middle in (in_single, low / 2 + high / 2):
        if low < middle <= high:
            return middle + 0.0
    return high
