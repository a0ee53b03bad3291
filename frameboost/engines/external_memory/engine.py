"""The engine over arrays in files: each call is one pass over all rows, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins
from frameboost.engines.contract import Sample
from frameboost.engines.external_memory.blocks import Block, blocks
from frameboost.engines.external_memory.codes import CodesByRow
from frameboost.engines.external_memory.gradients import RecomputedGradients
from frameboost.engines.external_memory.node_kernels import group_rows
from frameboost.engines.external_memory.node_numbers import NodeNumbers, Numbers
from frameboost.engines.external_memory.roles import NARROW, narrowed
from frameboost.engines.memory.histogram_kernels import build_share
from frameboost.engines.memory.histograms import may_block
from frameboost.engines.memory.rows import ArrayEngine
from frameboost.engines.memory.sampling import sample_gh
from frameboost.expressions.grid import Scalar
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

__all__ = ["ExternalMemoryEngine"]

RowNumbers = npt.NDArray[np.uint32]


class ExternalMemoryEngine(ArrayEngine):
    """`HistogramEngine` that reads its rows from the first to the last, one block after the other.

    It keeps the codes, the margins, the roles and the node of each row. Splits move rows when these are read next. Of
    each block, the rows of the wanted nodes are copied side by side, with their gradients, and then added up.

    Say rows 0 to 5 of a block are in the nodes 1, 2, 1, 1, 2, 2, node 1 was split into 3 and 4, and the histograms of 2
    and 3 are wanted. The split moves the rows into the nodes 3, 2, 4, 3, 2, 2. Rows 1, 4, 5 (of node 2), 0 and 3 (of
    node 3) are copied in this order.

    Parameters
    ----------
    frame, features, roles
        See `FrameEngine`.
    workers, storage
        The threads, and where arrays are kept.
    stores_gradients
        Whether gradients are needed other than by histograms, or after the margins have changed: of the trees of a
        round, those after the first need the gradients from before it.
    """

    gradients: RecomputedGradients

    def __init__(
        self,
        frame: pl.LazyFrame,
        features: tuple[Feature, ...],
        roles: Mapping[str, str],
        workers: Workers,
        storage: Storage,
        *,
        stores_gradients: bool = False,
    ) -> None:
        self._stores_gradients = stores_gradients
        super().__init__(frame, features, roles, workers, storage)
        self._sampled_gh: FloatArray = np.empty((0, 2))  # which each tree writes anew

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def new_gradients(self, constants: Mapping[str, float]) -> RecomputedGradients:
        """See `ArrayEngine.new_gradients`."""
        return RecomputedGradients(self.workers, constants, self.storage, stored=self._stores_gradients)

    def kept_roles(self, roles: pl.DataFrame) -> pl.DataFrame:
        """See `ArrayEngine.kept_roles`: in as few bytes as hold them."""
        return super().kept_roles(pl.DataFrame([narrowed(values) for values in roles]))

    def stored_rows(self) -> pl.LazyFrame:
        """See `FrameEngine.stored_rows`."""
        return super().stored_rows().with_columns(pl.col(NARROW).cast(pl.Float64))

    def array(self, name: str) -> npt.NDArray[Any] | None:
        """See `ArrayEngine.array`; that of a role may have fewer bytes."""
        assert self.rows is not None
        if name not in self.margin_arrays and name in self.rows and self.rows[name].dtype in NARROW:
            return self.rows[name].to_numpy()
        return super().array(name)

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.load()
        self._codes = CodesByRow(bins, self.n_rows, self.storage)
        self._codes.fill(self.values, self.workers)
        self.drop_columns()
        self._nodes = NodeNumbers(self.n_rows, self._codes, self.workers, self.storage)

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self._output = output
        self._sampled: FloatArray | None = None
        totals = self.gradients.totals[output]
        if sample is not None:
            if not len(self._sampled_gh):
                self._sampled_gh = self.storage.empty((self.n_rows, 2), np.float64, is_rewritten=True)
            gh = self._sampled_gh
            sums = self.workers.each(list(blocks(0, self.n_rows)), partial(self._draw_block, sample, gh))
            totals = Stats(*(float(sum(parts)) for parts in zip(*sums, strict=True)))
            self._sampled = gh
        self.reset_nodes()
        return totals

    def _draw_block(self, sample: Sample, gh: FloatArray, block: Block) -> Stats:
        """Write g and h of the rows of a block that are in the sample, and zero for the others; return their sums."""
        positions = self.positions.of(np.arange(block.start, block.stop)).astype(np.uint32)
        return sample_gh(sample, self._pairs(block), positions, gh[block.start : block.stop])

    def _pairs(self, block: Block, rows: RowNumbers | None = None) -> FloatArray:
        """Return g and h of a block in the current tree, or of some of its rows."""
        if self._sampled is None:
            return self.gradients.of_block(self._output, block, rows)
        gh = self._sampled[block.start : block.stop]
        return gh if rows is None else gh[rows]

    def hessians(self) -> pl.Series:
        """See `ArrayEngine.hessians`."""
        return pl.concat(pl.Series(self._pairs(block)[:, 1]) for block in blocks(0, self.n_rows))

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self._nodes.start_tree()

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self._nodes.apply_splits(splits)

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        order = np.full(self._nodes.n_nodes, len(nodes), np.uint32)
        order[list(nodes)] = range(len(nodes))
        out[indices] = 0.0
        more = np.zeros((len(self._nodes.slices) - 1, len(nodes), *out.shape[1:]))

        def add(slice_: int, block: Block, node_of: Numbers) -> None:
            if slice_ == 0:
                self._add_block(block, node_of, order, out, indices)
            else:
                self._add_block(block, node_of, order, more[slice_ - 1], np.arange(len(nodes)))

        self._nodes.sweep(add)
        for sums in more:
            out[indices] += sums

    def _add_block(self, block: Block, node_of: Numbers, order: RowNumbers, out: FloatArray, indices: IntArray) -> None:
        """Add a block to the histograms of its nodes; ``order`` has the place of each node in ``places``."""
        wanted: RowNumbers | None = None
        if len(order) == 1:  # the root: all rows, as they are
            parts = np.array([[0, 0, len(node_of)]])
        else:
            rows, ends = np.empty(len(node_of), np.uint32), np.empty(len(indices) + 1, np.uint32)
            group_rows(node_of, order, rows, ends)
            parts = np.stack([np.arange(len(indices)), np.append(0, ends[:-2]), ends[:-1]], axis=1, dtype=np.int64)
            parts = parts[parts[:, 1] < parts[:, 2]]
            wanted = rows[: ends[-2]]
        if not len(parts):
            return
        gh = self._pairs(block, wanted)
        in_order = np.arange(len(gh), dtype=np.uint32)
        for codes, slots in self._codes.groups:
            own = codes[block.start : block.stop]
            own = own if wanted is None else np.take(own, wanted, axis=0)
            firsts, blocks = np.array([0, len(parts)]), may_block(own, out.shape[1])
            build_share(own, in_order, parts, firsts, gh, slots, out, indices, out[:0], blocks, 0)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        margins = self.margins(margin)
        added = np.zeros(self._nodes.n_nodes)
        added[list(values)] = list(values.values())

        def add(_: int, block: Block, node_of: Numbers) -> None:
            margins[block.start : block.stop] += added[node_of]

        self._nodes.sweep(add)
        self.gradients.expire()

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(pl.Series(self._nodes.of_rows()), self.hessians(), value, weight, alpha)

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        return self.values_by_node(pl.Series(self._nodes.of_rows()), self.hessians(), value, weight).collect()
