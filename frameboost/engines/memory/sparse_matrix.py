"""The engine over a sparse matrix, whose columns are cut and coded by their entries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.arrays import Codes, gaps_beside
from frameboost.binning.bins import Bins
from frameboost.binning.codes import sample_of
from frameboost.data.sparse_matrix import SparseSource
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.memory.limits import MAX_ENTRIES
from frameboost.engines.memory.sparse import coded
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import RowNumbers, Workers
from frameboost.schema.polars_columns import physical_values
from frameboost.schema.types import Feature

__all__ = ["SparseMatrixEngine"]


class SparseMatrixEngine(MemoryEngine):
    """`MemoryEngine` whose features are columns of a sparse matrix, and whose frame has the roles.

    Only columns of many entries become dense.
    """

    def __init__(
        self, source: SparseSource, features: tuple[Feature, ...], roles: Mapping[str, str], workers: Workers
    ) -> None:
        super().__init__(source.frame, features, roles, workers, Storage(holds_columns=False))
        self._table = source.table
        index_of = {name: index for index, name in enumerate(source.table.names)}
        self._indices = [index_of[feature.name] for feature in features]

    def values(self, number: int) -> pl.Series:
        """See `ArrayEngine.values`."""
        return physical_values(self._table.dense(self._indices[number]), self.features[number].type)

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        counts = self._table.count_missing()
        return [counts[index] for index in self._indices]

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        sample = sample_of(self.n_rows)
        sampled = None if sample is None else sample.to_numpy()
        n_sampled = self.n_rows if sampled is None else int(sampled.sum())
        return [
            given[i] if i in given else self._propose(i, max_bin, sampled, n_sampled) for i in range(len(self.features))
        ]

    def _propose(self, number: int, max_bin: int, sampled: np.ndarray | None, n_sampled: int) -> Bins:
        """Return the bins of a feature: those of `propose_column`, without a look at each zero."""
        rows, values = self._table.stored(self._indices[number])
        is_missing = values != values
        has_missing = bool(is_missing.any())
        looked_at = values if sampled is None else values[sampled[rows]]
        present = looked_at[looked_at == looked_at]
        gaps = gaps_beside(present, 0, n_sampled - len(looked_at), max_bin - has_missing)
        return Bins.of_gaps(self.features[number], gaps, has_missing=has_missing)

    def sparse_features(self, bins: Sequence[Bins]) -> dict[int, int]:
        """See `MemoryEngine.sparse_features`."""
        counts, most = np.diff(self._table.matrix.indptr), MAX_ENTRIES * self.n_rows
        return {i: bisect_right(bins[i].cuts, 0) for i, index in enumerate(self._indices) if counts[index] <= most}

    def stored_codes(self, number: int, bins: Bins) -> tuple[RowNumbers, Codes]:
        """See `MemoryEngine.stored_codes`."""
        rows, values = self._table.stored(self._indices[number])
        return rows.astype(np.uint32), coded(bins, physical_values(pl.Series(values), bins.feature.type))
