"""The engine for frames that fit in memory: binned columns in arrays, sums by compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.array_binning import Codes, bin_column, propose_column
from frameboost.binning import Bins, SlotLayout
from frameboost.binning_kernels import interleave
from frameboost.columns import sample_of
from frameboost.engines.arrays import SMALLEST_TASK, ArrayEngine
from frameboost.engines.contract import FloatArray, Scalar, Split
from frameboost.engines.histogram_kernels import build_histograms, build_in_blocks
from frameboost.engines.partition_kernels import add_by_node, add_by_side, part_rows, take_rows
from frameboost.engines.row_partition import RowPartition
from frameboost.expressions import Expression
from frameboost.parallel import Pieces

__all__ = ["WORTH_SORTING", "NumbaEngine"]

# From so many rows on, what a row's gradients and codes take is further away than the processor's own caches.
WORTH_SORTING = 1 << 17
# From so many rows of a node on, a histogram that is made elsewhere, in a simpler form, pays.
_WORTH_BLOCKS = 1 << 12
# Of fewer additions a thread has done most before another wakes up.
_FEWEST_ADDITIONS = 1 << 20
# Features that are summed in one go over a node's rows: about as many as have their histograms near the processor.
_FEATURES = 32

# Splits of columns that one array holds: it, which of them each asks, which codes go left, and their places among all.
_Batch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class NumbaEngine(ArrayEngine):
    """`Engine` over binned columns; rows are kept grouped by node."""

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `Engine.propose_bins`."""
        self.load()
        sample = sample_of(self.n_rows)
        found = dict(given)

        def propose(number: int) -> None:
            found[number] = propose_column(self.features[number], self.values(number), max_bin, sample)

        self.workers.each([i for i in range(len(self.features)) if i not in given], propose)
        return [found[i] for i in range(len(self.features))]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `Engine.bin_columns`."""
        self.load()
        self.make_room(bins)
        self.workers.each(range(len(bins)), lambda i: bin_column(bins[i], self.values(i), self.columns[i]))
        self.drop_columns()
        self.interleave_codes()
        self.make_order()
        self._may_sort = self.n_rows >= WORTH_SORTING and "qid" not in self.row_names  # queries stay together

    def make_room(self, bins: Sequence[Bins]) -> None:
        """Make room for the codes of each feature: ``columns``, of the smallest type that holds them."""
        self.layout = SlotLayout(bins)
        self.n_codes: list[int] = np.diff(self.layout.offsets).tolist()
        dtypes = [np.min_scalar_type(b.largest_code) for b in bins]
        self.columns: list[Codes] = [np.empty(0, dtype) for dtype in dtypes]
        # Features by the size of their codes, with their places in the array of these.
        self.column_groups: list[tuple[dict[int, int], np.ndarray]] = []
        for dtype in dict.fromkeys(dtypes):
            members = [i for i, own in enumerate(dtypes) if own == dtype]
            codes = np.empty((len(members), self.n_rows), dtype)
            self.column_groups.append(({number: i for i, number in enumerate(members)}, codes))
            for i, column in zip(members, codes, strict=True):
                self.columns[i] = column

    def interleave_codes(self) -> None:
        """Make the second copy of the codes, all features of a row side by side.

        A histogram reads all features of a row, a partition one feature of all rows. The former has features by the
        size of their codes, so that one with many categories makes no other column wider.
        """
        self.code_groups = [
            (np.empty(columns.shape[::-1], columns.dtype), self.layout.offsets[list(members)])
            for members, columns in self.column_groups
        ]
        self._copy_codes()

    def _copy_codes(self) -> None:
        for (_, columns), (codes, _) in zip(self.column_groups, self.code_groups, strict=True):
            self.workers.over(self.n_rows, partial(interleave, columns, codes), smallest=SMALLEST_TASK)

    def make_order(self) -> None:
        """Make room for the order of the rows."""
        self.partition = RowPartition(self.n_rows, self.workers)
        self._pending: Mapping[int, tuple[Split, int, int]] = {}
        self._may_sort = False

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        if self._may_sort and len(self._pairs) and len(self.partition.pieces):
            self.sort_rows()
        super().compute_gradients(gradients, others)

    def sort_rows(self) -> None:
        """Put the rows in the order of the leaves that the last tree has put them in, once.

        The next trees will ask much the same questions, so rows of a leaf will mostly stay together. Where they are
        side by side, a node's next row is near; no sum depends on their order (see `frameboost.grid`).
        """
        assert self.rows is not None
        self.move_rows()
        self._may_sort = False
        order = self.partition.order()
        numbers = pl.Series(order)
        self.row_numbers = numbers if self.is_sampled else None
        self.rows = self.rows[numbers]
        room = self._pairs.ravel()[: self.n_rows]  # of gradients that are about to be computed anew
        for margins in self._margins.values():
            take_rows(margins, order, room)
            margins[:] = room

        def sort(column: Codes) -> None:
            in_order = np.empty_like(column)
            take_rows(column, order, in_order)
            column[:] = in_order

        self.workers.each(self.columns, sort)
        self._copy_codes()

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        self.partition.start_tree()
        self._pending = {}

    def histograms(self, nodes: Sequence[int]) -> FloatArray:
        """See `Engine.histograms`."""
        self.move_rows()
        shares = self.partition.shares(nodes, _FEWEST_ADDITIONS // len(self.features))
        # A share may start within a node: then it has a histogram of its own for it, behind those of the nodes.
        out = np.zeros((len(nodes) + len(shares) - 1, self.layout.n_slots, 2))
        ends = [int(share[-1, 0]) for share in shares[:-1]]
        rest: list[tuple[int, int]] = []
        for k, place in enumerate(ends):
            in_share = shares[k + 1][:, 0]
            if in_share[0] == place:
                rest.append((place, len(nodes) + k))
                in_share[in_share == place] = len(nodes) + k

        def build(share: Pieces) -> None:
            for codes, slots in self.code_groups:
                self._build(codes, slots, share, out)

        self.workers.each(shares, build)
        for i, extra in rest:
            out[i] += out[extra]
        return out[: len(nodes)]

    def _build(self, codes: Codes, slots: npt.NDArray[np.int64], pieces: Pieces, out: FloatArray) -> None:
        """Add up some features, whose codes are in one array, of some pieces."""
        rows, pairs = self.partition.rows, self.gradient_pairs
        if codes.dtype == np.uint8 and self.n_rows >= _WORTH_BLOCKS:
            is_long = pieces[:, 2] - pieces[:, 1] >= _WORTH_BLOCKS
            if is_long.any():
                build_in_blocks(codes, rows, pieces[is_long], pairs, slots, out)
                pieces = pieces[~is_long]
        for first in range(0, len(slots), _FEATURES):
            build_histograms(codes, rows, pieces, pairs, slots, out, first, min(first + _FEATURES, len(slots)))

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`.

        Rows stay where they are until somebody asks for the children: those of the last level never are asked for.
        """
        self.move_rows()
        self._pending = splits

    def move_rows(self) -> None:
        """Do the splits that were put off."""
        if not self._pending:
            return
        batches = self._batches()

        def part(share: Pieces) -> npt.NDArray[np.int64]:
            counts = np.empty(len(share), dtype=np.int64)
            for batch in batches:
                part_rows(*batch, self.partition.rows, share, counts)
            return counts

        children = np.array([(left, right) for _, left, right in self._pending.values()])
        self.partition.split(list(self._pending), children, part)
        self._pending = {}

    def sides(self, splits: Sequence[Split]) -> npt.NDArray[np.bool_]:
        """Return whether rows go left: bool (splits, codes), for each code of a split's feature."""
        n_codes = [self.n_codes[split.feature] for split in splits]
        goes_left = np.arange(max(n_codes)) < np.array([[split.bin] for split in splits])
        goes_left[np.arange(len(splits)), np.array(n_codes) - 1] = [split.missing_left for split in splits]
        for own, split, n in zip(goes_left, splits, n_codes, strict=True):
            if split.categories is not None:
                own[:n] = split.goes_left(n)
        return goes_left

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        margins = self.margins(margin)
        children = {child for _, left, right in self._pending.values() for child in (left, right)}
        settled = [node for node in values if node not in children]
        own = self.partition.of(settled)
        add_by_node(margins, self.partition.rows, own, np.array([values[node] for node in settled]))
        if not self._pending:
            return
        sides = np.array([(values[left], values[right]) for _, left, right in self._pending.values()])
        batches = self._batches()

        def add(share: Pieces) -> None:
            for batch in batches:
                add_by_side(*batch, self.partition.rows, share, sides, margins)

        self.workers.each(self.partition.shares(list(self._pending)), add)

    def _batches(self) -> list[_Batch]:
        """Return the splits that were put off, by the arrays that their columns are in, as `part_rows` takes them."""
        splits = [split for split, _, _ in self._pending.values()]
        batches: list[_Batch] = []
        for place, columns in self.column_groups:
            chosen = [k for k, split in enumerate(splits) if split.feature in place]
            if chosen:
                asked = [splits[k] for k in chosen]
                features = np.array([place[split.feature] for split in asked])
                numbers = np.full(len(splits), -1)
                numbers[chosen] = np.arange(len(chosen))
                batches.append((columns, features, self.sides(asked), numbers))
        return batches

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        self.move_rows()
        node_of = np.empty(self.n_rows, dtype=np.int32)
        for node, start, stop in self.partition.pieces.tolist():
            node_of[self.partition.rows[start:stop]] = node
        return self.quantiles_by_node(pl.Series(node_of), value, weight, alpha)
