"""The columns of a sparse matrix, binned from their entries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.arrays import Codes, bin_column, bin_entries, gaps_beside
from frameboost.binning.bins import Bins
from frameboost.binning.codes import sample_of
from frameboost.data.sparse_matrix import SparseSource
from frameboost.engines.memory.columns import BinnedColumns
from frameboost.engines.memory.limits import MAX_ENTRIES
from frameboost.engines.memory.sparse import coded
from frameboost.runtime.workers import RowNumbers, Workers
from frameboost.schema.types import Feature, column, physical_values

__all__ = ["SparseMatrixColumns"]


class SparseMatrixColumns:
    """`FeatureColumns` of a sparse matrix. Only columns with many entries become dense."""

    def __init__(self, source: SparseSource, features: Sequence[Feature], workers: Workers) -> None:
        self.features = features
        self.workers = workers
        self._frame = source.frame
        self._table = source.table
        index_of = {name: index for index, name in enumerate(source.table.names)}
        self._indices = [index_of[feature.name] for feature in features]
        self._coded_together: dict[int, Codes] = {}  # codes by the bins that have been proposed

    def load(self, names: Sequence[str]) -> pl.DataFrame:
        """See `FeatureColumns.load`."""
        read = self._frame.select(map(column, dict.fromkeys(names))).collect()
        self.n_rows = len(read)
        return read

    def values(self, number: int) -> pl.Series:
        """See `FeatureColumns.values`."""
        return physical_values(self._table.dense(self._indices[number]), self.features[number].type)

    def count_missing(self, sample: pl.Series | None) -> list[int]:
        """See `FeatureColumns.count_missing`."""
        counts = self._table.count_missing()
        return [counts[index] for index in self._indices]

    def kept_for_cuts(self, number: int) -> None:
        """See `FeatureColumns.kept_for_cuts`: none, as the matrix is held."""

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        sample = sample_of(self.n_rows)
        sampled = None if sample is None else sample.to_numpy()
        n_sampled = self.n_rows if sampled is None else int(sampled.sum())
        proposed = dict(user_bins) | ({} if sampled is not None else self._propose_together(max_bin, user_bins))
        return [
            proposed[i] if i in proposed else self._propose(i, max_bin, sampled, n_sampled)
            for i in range(len(self.features))
        ]

    def _propose_together(self, max_bin: int, known: Mapping[int, Bins]) -> dict[int, Bins]:
        """Return the bins of the other columns of floats with fewer entries than bins; keep their codes.

        A call for each column takes longer than the work of a few entries.
        """
        sizes = np.diff(self._table.matrix.indptr).tolist()
        numbers = [i for i, index in enumerate(self._indices) if i not in known and sizes[index] < max_bin - 1]
        if not numbers or self._table.matrix.dtype.kind != "f":
            return {}
        entries = [self._table.stored(self._indices[i])[1] for i in numbers]
        binned = bin_entries([self.features[i] for i in numbers], entries, self.n_rows)
        self._coded_together = {number: codes for number, (_, codes) in zip(numbers, binned, strict=True)}
        return {number: bins for number, (bins, _) in zip(numbers, binned, strict=True)}

    def _propose(self, number: int, max_bin: int, sampled: np.ndarray | None, n_sampled: int) -> Bins:
        """Return the bins of a feature as `propose_column` does, without reading each zero."""
        rows, values = self._table.stored(self._indices[number])
        is_missing = values != values
        has_missing = bool(is_missing.any())
        of_sample = values if sampled is None else values[sampled[rows]]
        present = of_sample[of_sample == of_sample]
        gaps = gaps_beside(present, 0, n_sampled - len(of_sample), max_bin - has_missing)
        return Bins.of_gaps(self.features[number], gaps, has_missing=has_missing)

    def bin(self, bins: Sequence[Bins], *, may_sort: bool) -> tuple[BinnedColumns, None]:
        """See `FeatureColumns.bin`."""
        counts, most = np.diff(self._table.matrix.indptr), MAX_ENTRIES * self.n_rows
        sparse = {i: bisect_right(bins[i].cuts, 0) for i, index in enumerate(self._indices) if counts[index] <= most}
        binned = BinnedColumns(bins, self.n_rows, sparse)
        binned.fill(self.coder(bins), self.workers, self._stored)
        return binned, None

    def coder(self, bins: Sequence[Bins]) -> Callable[[int, Bins, Codes], None]:
        """See `FeatureColumns.coder`."""
        return lambda number, of_feature, codes: bin_column(of_feature, self.values(number), codes)

    def _stored(self, number: int, bins: Bins) -> tuple[RowNumbers, Codes]:
        """Return the rows of a column's entries, and their codes; other rows have the code of 0."""
        rows, values = self._table.stored(self._indices[number])
        codes = self._coded_together.pop(number, None)
        if codes is None:
            codes = coded(bins, physical_values(pl.Series(values), bins.feature.type))
        return rows.astype(np.uint32), codes

    def drop(self) -> None:
        """See `FeatureColumns.drop`: the matrix belongs to the user."""
        self._coded_together.clear()
