"""The DuckDB engine whose rows' nodes and pairs are in memory, where they fit: histograms take no statements.

Bins, margins, gradients and metrics are computed in the database as before. Codes are stored side by side in words (see
`layout`), which are held in memory too if there is room, or else read in batches for each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import SHOWN, DuckDBSession
from frameboost.engines.duckdb.binning import SqlColumn
from frameboost.engines.duckdb.codes import store_bins
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.duckdb.nodes import Nodes
from frameboost.engines.duckdb.records.gradients import RowGradients
from frameboost.engines.duckdb.records.layout import Records
from frameboost.engines.duckdb.records.nodes import BYTES_PER_ROW, BYTES_PER_WORD, RecordNodes
from frameboost.engines.duckdb.records.words import HeldWords, StoredWords, Words
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.engines.pairs.queries import Queries
from frameboost.losses.loss import PAIR_SUMS, RankingPairs
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["DuckDBRecordEngine"]

# What is in memory takes at most this part of what the database may take.
_SHARE = 1 / 8
# For each row its query, its place in it, and what sums over pairs read and return.
_BYTES_FOR_PAIRS = 128
# The most columns of codes: all are read at once.
_MAX_COLUMNS = 1 << 14


class DuckDBRecordEngine(DuckDBEngine):
    """`HistogramEngine` over a DuckDB relation.

    Parameters
    ----------
    session, features, columns, roles, queries, in_order
        As for `TableEngine`.
    workers
        The threads of kernels.
    """

    def __init__(
        self, session: DuckDBSession, features: Sequence[Feature], columns: Sequence[SqlColumn],
        roles: Mapping[str, str], queries: SqlColumn | None = None, *, in_order: bool = False, workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(session, features, columns, roles, queries, in_order=in_order)
        self._workers = workers
        self._is_in_memory = False
        self._records: Records | None = None
        self._record_nodes: RecordNodes | None = None
        self._row_gh: RowGradients | None = None
        self._by_query: Queries | None = None

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self._is_in_memory = len(self.own_features) <= _MAX_COLUMNS and self.may_be_in_memory(BYTES_PER_ROW)
        super().bin_columns(bins)
        if self._records is not None:
            names = self._records.names
            words: Words = StoredWords(self.session, self.bins, names)
            if self._may_take(BYTES_PER_ROW + BYTES_PER_WORD * len(names)):
                words = HeldWords.read(self.session, self.bins, names, self.n_rows)
            self.hold_nodes(self._records, words)
            self._may_sort = False

    def hold_nodes(self, records: Records, words: Words) -> None:
        """Have the nodes of the rows in memory, and their pairs, given their words."""
        self._record_nodes = RecordNodes(
            self.session, self.bins, self.layout, records, words, self.row_gh, self.stored_features,
            self.keyed_dimensions, self._workers, min(self._workers.n_jobs, self.n_threads),
        )  # fmt: skip

    @property
    def row_gh(self) -> RowGradients:
        """The pairs of the rows in memory."""
        if self._row_gh is None:
            self._row_gh = RowGradients(self.session, self.n_rows)
        return self._row_gh

    def may_be_in_memory(self, n_bytes: int) -> bool:
        """Whether so many bytes a row may be in memory, and are of use there."""
        return (
            self.sums_by_kernel and not self.is_shard and self.keeps_order
            and self._may_take(n_bytes) and self.session.can_show()
        )  # fmt: skip

    def _may_take(self, n_bytes: int) -> bool:
        """Whether so many bytes a row may be in memory."""
        return self.n_rows * n_bytes <= self.session.memory_limit * _SHARE

    @property
    def own_features(self) -> Sequence[int]:
        """The features that are columns of the rows."""
        return range(len(self.features))

    @property
    def stored_features(self) -> Sequence[int]:
        """The features whose codes the rows have."""
        return range(len(self.features))

    @property
    def keyed_dimensions(self) -> Sequence[StarDimension]:
        """The dimensions whose keys the rows have."""
        return ()

    def store_bins(self, bins: Sequence[Bins]) -> str:
        """See `DuckDBEngine.store_bins`."""
        words = self.words({f"bin_{i}": each.largest_code for i, each in enumerate(bins)})
        return store_bins(
            self.session, bins, self.columns, self.roles, in_order=self.in_source_order, stored=words
        )  # fmt: skip

    def words(self, largest: Mapping[str, int]) -> list[str] | None:
        """Return what is stored in place of codes and keys of these largest values; None if these are stored."""
        if not self._is_in_memory:
            return None
        self._records = Records(largest)
        return [*self._records.sql(), *self.roles]

    def close(self) -> None:
        """See `Engine.close`."""
        self._record_nodes = self._row_gh = None
        super().close()

    # --- once a round -------------------------------------------------------------------------------------------------

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`: by a kernel, which takes a tenth of the time of a join of rows with rows."""
        if not self._is_in_memory or not self._may_take(_BYTES_FOR_PAIRS):
            super().sum_pairs(pairs, offset)
            return
        from frameboost.engines.pairs.pair_sums import columns_read, pair_sums

        self._store_fixed_terms()
        names = list(dict.fromkeys(columns_read(pairs)))
        rows, found = self.query()
        read = ", ".join(f"CAST({found[name]} AS DOUBLE) AS {name}" for name in names)
        table = self.session.columns(f"SELECT position, {read} FROM ({rows})")
        columns = {name: np.empty(self.n_rows) for name in names}
        for name, values in columns.items():
            values[table["position"]] = table[name]
        if self._by_query is None:
            _, query_of = np.unique(self.session.columns(f"SELECT qid FROM {self.bins}")["qid"], return_inverse=True)
            self._by_query = Queries(query_of, self._workers)
        sums = pair_sums(self._by_query, columns, pairs, offset, self._workers)
        self.session.show(**dict(zip(PAIR_SUMS, sums, strict=True)))
        self._pairs = self.replace_table(self._pairs, "pairs", "store_pairs", sums=SHOWN, columns=", ".join(PAIR_SUMS))
        self.session.show()

    # --- once a tree --------------------------------------------------------------------------------------------------

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        super().reset_nodes()
        if self._row_gh is not None:
            self._row_gh.forget()
        if self._record_nodes is not None:
            self._record_nodes.restart()

    @property
    def nodes(self) -> Nodes:
        """See `DuckDBEngine.nodes`."""
        return super().nodes if self._record_nodes is None else self._record_nodes

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        if self._record_nodes is None:
            super().histograms(nodes, out, indices)
        else:
            out[indices] = self._record_nodes.histograms(nodes, self.gh, self.rows_in(nodes))

    def rows_in(self, nodes: Sequence[int]) -> float:
        """Return about how many rows are in some nodes."""
        return sum(self._stats[node].H for node in nodes) / max(self._stats[0].H, 1e-300) * self.n_rows

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        if self._record_nodes is None:
            super().add_leaf_values(values, margin)
        else:
            self._add_to(margin, "value", [self._record_nodes.show_values(values)])
