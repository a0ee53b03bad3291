"""The DuckDB engine with nodes, g and h in memory, if they fit: histograms take no statements.

Bins, gradients and metrics are computed in the database, as in the base class. But the codes are read once, and rows
are partitioned and summed as by the numba engine (`PartitionedNodes`).

If there is room, roles and margins are held too, as the columns of one table that statements read (`SHOWN`), with g and
h. A round then takes one statement, which computes g and h, and writes no table. Tables joined by position are read by
one thread; one table by all threads, in a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import SHOWN, DuckDBSession
from frameboost.engines.duckdb.binning import SqlColumn
from frameboost.engines.duckdb.engine import DuckDBEngine, FeatureTables, Nodes, TreeGradients
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Scalar, grid_offsets
from frameboost.losses.loss import RankingPairs
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

if TYPE_CHECKING:
    from frameboost.engines.memory.columns import BinnedColumns
    from frameboost.engines.memory.star.keyed import KeyedColumns

__all__ = ["BYTES_PER_CODE", "BYTES_PER_ROW", "DuckDBMemoryEngine", "PartitionedNodes", "RowGradients"]

# What is in memory takes at most this part of what the database may take.
_SHARE = 1 / 4
# Two row numbers, g and h; a code of any feature; and each role and margin, g and h of each margin, and the position.
BYTES_PER_ROW, BYTES_PER_CODE, _BYTES_PER_NUMBER = 4 + 4 + 8 + 8, 4, 8
# For each row its query, its rank in it, and what sums over pairs read and return.
_BYTES_FOR_PAIRS = 128
# The most columns of codes: all are read at once.
_MAX_COLUMNS = 1 << 14
# The types of arrays in the database.
_TYPES = {"float64": "DOUBLE", "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER"}


class DuckDBMemoryEngine(DuckDBEngine):
    """`HistogramEngine` over a DuckDB relation.

    Parameters
    ----------
    session, features, columns, roles, queries, in_order, tables
        As for `TableEngine`.
    workers
        The threads of kernels.
    """

    def __init__(
        self, session: DuckDBSession, features: Sequence[Feature], columns: Sequence[SqlColumn],
        roles: Mapping[str, str], queries: SqlColumn | None = None, *, in_order: bool = False,
        tables: FeatureTables | None = None, workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(session, features, columns, roles, queries, in_order=in_order, tables=tables)
        self._workers = workers
        self._bytes_per_row = BYTES_PER_ROW  # of what is in memory
        self._holds_rows = False  # whether this includes roles, margins, and g and h of all outputs
        self._nodes_in_memory: PartitionedNodes | None = None
        self._row_gh: RowGradients | None = None

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self._bytes_per_row += sum(np.min_scalar_type(each.largest_code).itemsize for each in bins)
        self.holds_codes = len(bins) <= _MAX_COLUMNS and self.may_be_in_memory(self._bytes_per_row)
        super().bin_columns(bins)
        if self.holds_codes:
            self._may_sort = False
            self._hold_codes(bins)

    def _hold_codes(self, bins: Sequence[Bins]) -> None:
        """Read codes and keys into memory, and hold the nodes of the rows."""
        from frameboost.engines.memory.columns import BinnedColumns

        largest = {f"bin_{feature}": bins[feature].largest_code for feature in self.tables.features}
        largest |= {each.column: each.n_keys - 1 for each in self.tables.dimensions}
        read = {name: np.empty(self.n_rows, np.min_scalar_type(code)) for name, code in largest.items()}
        _read_columns(self.session, self.bins, [*read], [*read.values()])
        keyed = self._keyed(read) if self.tables.dimensions else None
        binned = BinnedColumns(bins, self.n_rows, keyed=keyed)
        binned.fill(lambda feature, _, codes: np.copyto(codes, read[f"bin_{feature}"]), self._kernel_workers)
        self.hold_nodes(binned)

    def _keyed(self, read: Mapping[str, npt.NDArray[Any]]) -> KeyedColumns:
        """Return the codes by key, from the keys that were read."""
        from frameboost.engines.memory.star.keyed import KeyedColumns
        from frameboost.engines.memory.star.tables import CodedTable

        counts = np.empty(0, np.int64)  # which only sorting reads
        dimensions = self.tables.dimensions
        coded = [CodedTable(d.features, np.ascontiguousarray(d.codes.T), read[d.column], counts) for d in dimensions]
        sorted_by = next((i for i, d in enumerate(dimensions) if d.column == self.tables.sorted_by), None)
        return KeyedColumns(coded, self.layout, (), self._kernel_workers, sorted_by)

    def hold_nodes(self, binned: BinnedColumns) -> None:
        """Hold the nodes of the rows in memory, with these codes."""
        self._nodes_in_memory = PartitionedNodes(self.session, self.bins, self.row_gh, binned, self._kernel_workers)
        self._nodes_in_memory.partition.add_in_blocks = bool(self.tables.sorted_by)

    @cached_property
    def _kernel_workers(self) -> Workers:
        """The threads of kernels over rows: at most those of the database."""
        return self._workers if self._workers.n_jobs <= self.n_threads else Workers(self.n_threads)

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`; margins and roles are held in memory if there is room."""
        n_bytes = self._bytes_per_row + _BYTES_PER_NUMBER * (1 + len(self.roles) + 3 * len(margins))
        are_numbers = "qid" not in self.roles and self._row_roles == [*self.roles]  # without those of linear leaves
        if self._nodes_in_memory is None or not are_numbers or not self._may_take(n_bytes):
            super().start_margins(margins)
            return
        columns = {name: start.to_sql({role: role for role in self.roles}) for name, start in margins.items()}
        if not self._holds_rows:
            self.session.show(rowid=np.arange(self.n_rows))
            columns |= {role: f"COALESCE({role}, 'NaN')" for role in self.roles}  # in arrays, NaN is NULL
        self._hold(self.bins, columns)
        self._margins = dict.fromkeys(margins, SHOWN)
        if not self._holds_rows:  # by now, they have all that is read of the table
            self.session.drop(self.bins)
            self._bins, self._holds_rows = SHOWN, True

    def _hold(self, rows: str, columns: Mapping[str, str], in_order: str = "") -> dict[str, FloatArray]:
        """Compute columns, name -> expression over rows, and hold them; return their arrays."""
        shown = self.session.shown
        arrays = {name: shown[name] if name in shown else np.empty(self.n_rows) for name in columns}
        _read_columns(self.session, rows, [*columns.values()], [*arrays.values()], in_order)
        self.session.show(**arrays)
        return arrays

    @property
    def row_gh(self) -> RowGradients:
        """The g and h of the rows in memory."""
        if self._row_gh is None:
            self._row_gh = RowGradients(self.session, self.n_rows)
        return self._row_gh

    def may_be_in_memory(self, n_bytes: int) -> bool:
        """Whether this many bytes per row fit in memory and speed up the fit."""
        return not self.is_shard and self.keeps_order and self._may_take(n_bytes) and self.session.can_show()

    def _may_take(self, n_bytes: int) -> bool:
        """Whether this many bytes per row fit in memory."""
        return self.n_rows * n_bytes <= self.session.memory_limit * _SHARE

    def close(self) -> None:
        """See `Engine.close`."""
        self._nodes_in_memory = self._row_gh = None
        if vars(self).get("_kernel_workers", self._workers) is not self._workers:
            self._kernel_workers.close()
        super().close()

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`; where they are held, they are computed once, and rounded afterwards."""
        if not self._holds_rows:
            return super().compute_gradients(gradients, others, offsets)
        numbers = {**gradients, **others}
        rows, names = self.query([*numbers.values()])
        columns = {name: number.to_sql(names) for name, number in numbers.items()}
        arrays = self._hold(f"({rows})", columns, self._in_order)

        def magnitude(name: str) -> float:
            return float(max(arrays[name].max(), -arrays[name].min()))

        largest = dict(zip(gradients, self._workers.each([*gradients], magnitude), strict=True))
        grids = offsets or grid_offsets(largest, self.n_rows)

        def put_on_grid(name: str) -> None:
            arrays[name] += grids[name]
            arrays[name] -= grids[name]

        self._workers.each([*gradients], put_on_grid)
        self.gradients.table, self.gradients.names = SHOWN, tuple(numbers)
        return largest

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`: by a kernel, in a tenth of the time of a self-join."""
        if self.holds_codes and self._may_take(_BYTES_FOR_PAIRS):
            self.sum_pairs_in_memory(pairs, offset, self._workers)
        else:
            super().sum_pairs(pairs, offset)

    # --- once a tree --------------------------------------------------------------------------------------------------

    def sums(self, gh: TreeGradients) -> Stats:
        """See `DuckDBEngine.sums`."""
        if self._nodes_in_memory is None:
            return super().sums(gh)
        from frameboost.engines.memory.histograms import gh_totals

        return Stats(*gh_totals(self.row_gh.of(gh), self.n_rows))

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        super().reset_nodes()
        if self._row_gh is not None:
            self._row_gh.forget()
        if self._nodes_in_memory is not None:
            self._nodes_in_memory.restart()

    @property
    def nodes(self) -> Nodes:
        """See `DuckDBEngine.nodes`."""
        return super().nodes if self._nodes_in_memory is None else self._nodes_in_memory

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        if self._nodes_in_memory is None:
            super().histograms(nodes, out, indices)
        else:
            self._nodes_in_memory.histograms(nodes, self.gh, out, indices)

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        if self._nodes_in_memory is None or self._outputs:
            super().row_counts(nodes, out, indices)
        else:
            self._nodes_in_memory.histograms(nodes, self.gh, out, indices, are_counted=True)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        if self._nodes_in_memory is None:
            super().add_leaf_values(values, margin)
        elif self._holds_rows:
            self._nodes_in_memory.add_values(values, self.session.shown[margin])
        else:
            self._add_to(margin, "value", [self._nodes_in_memory.show_values(values)])


# --- nodes, g and h ---------------------------------------------------------------------------------------------------


def _read_columns(
    session: DuckDBSession, table: str, columns: Sequence[str], out: Sequence[npt.NDArray[Any]], in_order: str = ""
) -> None:
    """Write columns of a table, as the types of the arrays, to the arrays ``out``."""
    typed = [f"CAST({column} AS {_TYPES[array.dtype.name]})" for column, array in zip(columns, out, strict=True)]
    statement = render("read_rows", rows=table, columns=", ".join(typed), is_asked="TRUE", in_order=in_order)
    start = 0
    # Closed at once if Ctrl-C is pressed, as the connection takes no other statement before.
    with closing(session.batches(statement, [array.dtype for array in out])) as batches:
        for batch in batches:
            stop = start + len(batch[0])
            for array, values in zip(out, batch, strict=True):
                array[start:stop] = values
            start = stop


class RowGradients:
    """The g and h of ``n_rows`` rows."""

    def __init__(self, session: DuckDBSession, n_rows: int) -> None:
        self._session = session
        self.n_rows = n_rows
        self._values: FloatArray = np.empty((n_rows, 2))
        self._read: TreeGradients | None = None  # which these are

    def of(self, gh: TreeGradients) -> FloatArray:
        """Return g and h of a tree, (rows, 2), which are read once."""
        if self._read != gh:
            columns = [*self._values.T]
            if gh.table == SHOWN:
                for column, name in zip(columns, (gh.g, gh.h), strict=True):
                    column[:] = self._session.shown[name]
            else:
                _read_columns(self._session, gh.table, [gh.g, gh.h], columns)
            self._read = gh
        return self._values

    def forget(self) -> None:
        """Note that g and h must be read again."""
        self._read = None


class PartitionedNodes:
    """The nodes of the rows while a tree grows, as row numbers in memory, contiguous by node.

    Parameters
    ----------
    session
        The session of the rows.
    bins
        The table of the rows.
    gradients
        The g and h of the rows.
    binned
        Their codes.
    workers
        The threads.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, gradients: RowGradients, binned: BinnedColumns, workers: Workers
    ) -> None:
        from frameboost.engines.memory.partition import RowPartition

        self._session = session
        self._bins = bins
        self._gradients = gradients
        self._binned = binned
        self._workers = workers
        self.partition = RowPartition(gradients.n_rows, workers)
        self.restart()

    def restart(self) -> None:
        """Put all rows into the root of a new tree."""
        self.partition.start_tree()
        self._leaves: dict[int, None] = {0: None}  # in order
        self._is_started = False  # whether the codes are prepared to sum the gradients of the tree
        self._counted: FloatArray | None = None

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Defer splits until rows are read: node -> (split, left child, right child)."""
        self.partition.apply_splits(splits, self._binned)
        for node, (_, *children) in splits.items():
            del self._leaves[node]
            self._leaves |= dict.fromkeys(children)

    def histograms(
        self,
        nodes: Sequence[int],
        tree: TreeGradients,
        out: FloatArray,
        indices: IntArray,
        *,
        are_counted: bool = False,
    ) -> None:
        """Write the histograms of nodes to their ``indices`` in ``out``.

        If they ``are_counted``, rows have 1 instead of g and 0 instead of h (see `CountingEngine`).
        """
        gh = self._gradients.of(tree)
        if not self._is_started:
            self._binned.start_tree(gh, lambda: None)
            self._is_started = True
        if are_counted:
            if self._counted is None:
                self._counted = np.zeros_like(gh)
                self._counted[:, 0] = (gh != 0.0).any(axis=1)
            gh = self._counted
        self._binned.sum_by_bin(
            self.partition, nodes, [gh], out, [indices], self._workers, are_of_tree=not are_counted
        )  # fmt: skip

    def add_values(self, values: Mapping[int, float], margins: FloatArray) -> None:
        """Add the leaf value of each row to its margin."""
        self.partition.add_leaf_values(values, margins)

    # --- for statements -----------------------------------------------------------------------------------------------

    def show_values(self, values: Mapping[int, float]) -> str:
        """Expose the leaf value of each row to statements as the column ``value``; return the table's name."""
        added = np.zeros(self._gradients.n_rows)
        self.add_values(values, added)
        self._session.show(value=added)
        return SHOWN

    def table(self) -> tuple[str, dict[int, int]]:
        """Return a table with the column ``node``, and the nodes of its numbers, which are the numbers themselves."""
        self._session.show(node=self.partition.of_rows())
        return SHOWN, {node: node for node in self._leaves}

    @property
    def sources(self) -> list[str]:
        """The tables that `case` reads."""
        table, _ = self.table()
        return [self._bins, table]

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of each row's leaf."""
        return f"CASE node {' '.join(f'WHEN {node} THEN {values[node]}' for node in self._leaves)} END"

    def leaves(self) -> list[int]:
        """Return the current leaves of the tree."""
        return list(self._leaves)

    def drop(self) -> None:
        """Hide the nodes from statements."""
        self._session.hide("node")
