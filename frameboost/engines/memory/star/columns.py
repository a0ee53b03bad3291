"""The columns of a star: facts in memory, without a join of the dimensions, and g and h in their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.arrays import Codes
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.memory.columns import BinnedColumns, FrameColumns
from frameboost.engines.memory.star.keyed import KeyedColumns, chosen, most_keys
from frameboost.engines.memory.star.records import most_in_one
from frameboost.engines.memory.star.tables import (
    CodedTable,
    StarTable,
    code_table,
    fact_columns,
    open_tables,
    order_by_key,
    part_keys,
    propose_attribute,
)
from frameboost.engines.memory.terms import Gradients, Records, Scale
from frameboost.engines.programs import Program
from frameboost.joins.star_sources import StarFrame
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import VALUES_PER_TASK, RowNumbers, Workers
from frameboost.schema.types import Feature, column
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["RecordedGradients", "StarColumns"]


_NO_PAIRS: FloatArray = np.empty((0, 2))


class StarColumns(FrameColumns):
    """`FeatureColumns` of facts and dimensions; attributes are binned once per row of the dimension.

    The codes of attributes are stored by key if that pays off (see `KeyedColumns`), otherwise by fact, as those of
    other columns.

    Parameters
    ----------
    source, features, workers
        The facts with their dimensions, the features, and the threads.
    """

    def __init__(self, source: StarFrame, features: Sequence[Feature], workers: Workers) -> None:
        super().__init__(source.facts, features, workers)
        self._source = source
        self._tables: list[StarTable] = []
        self._table_of: dict[int, StarTable] = {}
        self._coded: dict[int, tuple[CodedTable, int]] = {}  # attributes with codes stored by fact

    def load(self, names: Sequence[str]) -> pl.DataFrame:
        """See `FeatureColumns.load`; columns of dimensions are not held by fact."""
        of_facts = fact_columns(self._source, [feature.name for feature in self.features])
        read = self._source.to_frame(list(dict.fromkeys([*of_facts, *names]))).collect()
        self.n_rows = len(read)
        self._tables = open_tables(self._source, self.features, read.select(map(column, of_facts)), self.workers)
        self._table_of = {i: table for table in self._tables for i in table.values}
        self._count(lambda table: table.references)
        fact_features = ((i, feature) for i, feature in enumerate(self.features) if i not in self._table_of)
        self._held = read.select(column(feature.name).alias(str(i)) for i, feature in fact_features)
        return read.select(map(column, dict.fromkeys(names)))

    def _count(self, references: Callable[[StarTable], IntArray]) -> None:
        """Count the facts that refer to each row of the dimensions."""
        self.workers.each(self._tables, references, alone=self.n_rows < VALUES_PER_TASK)

    def values(self, number: int) -> pl.Series:
        """See `FeatureColumns.values`."""
        table = self._table_of.get(number)
        return super().values(number) if table is None else table.values[number][pl.Series(table.rows)]

    def count_missing(self, sample: pl.Series | None) -> list[int]:
        """See `FeatureColumns.count_missing`."""
        return [
            self._table_of[i].count_missing(i) if i in self._table_of else self.values(i).null_count()
            for i in range(len(self.features))
        ]

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        attributes = [i for i in self._table_of if i not in user_bins]
        if self._tables:
            _ = self._tables[0].sample.rows  # of all of them, before several threads need it
        self._count(lambda table: table.sampled_references)

        def propose(number: int) -> Bins:
            return propose_attribute(self.features[number], number, self._table_of[number], max_bin)

        proposed = dict(zip(attributes, self.workers.each(attributes, propose), strict=True))
        return super().propose_bins(max_bin, {**user_bins, **proposed})

    def bin(self, bins: Sequence[Bins], *, may_sort: bool) -> tuple[BinnedColumns, RowNumbers | None]:
        """See `FeatureColumns.bin`; facts are sorted by the keys of a large dimension."""
        coded = [code_table(table, bins, most_keys(self.n_rows), self.workers) for table in self._tables]
        by_key, sorted_by = chosen(coded, self.n_rows * len(bins), may_sort=may_sort)
        # Attributes are not sparse.
        layout, fact_features = SlotLayout(bins), [i for i in range(len(bins)) if i not in self._table_of]
        sparse = self.find_sparse(bins, fact_features)
        self._coded = {i: (table, k) for table in coded if table not in by_key for k, i in enumerate(table.features)}
        in_order = next((index for index, table in enumerate(by_key) if table is sorted_by), None)
        parted = [part_keys(table, most_in_one(self.n_rows)) for table in by_key]
        keyed = KeyedColumns(parted, layout, sparse, self.workers, in_order) if by_key else None
        binned = BinnedColumns(bins, self.n_rows, sparse, keyed=keyed)
        binned.fill(self.write_codes, self.workers, self.stored_codes)
        return binned, None if sorted_by is None else self._by_key(sorted_by)

    def _by_key(self, table: CodedTable) -> RowNumbers:
        """Return the facts sorted by the keys of a dimension."""
        order, starts = np.empty(self.n_rows, np.uint32), np.cumsum(table.counts) - table.counts

        def write(first: int, last: int) -> None:
            order_by_key(table.keys, first, last, starts, order)

        self.workers.over(table.n_keys, write)  # each thread reads all keys, and writes the rows of its range
        return order

    def write_codes(self, number: int, bins: Bins, codes: Codes) -> None:
        """See `FrameColumns.write_codes`."""
        if number not in self._coded:
            super().write_codes(number, bins, codes)
            return
        table, index = self._coded[number]
        codes[:] = table.codes[index][table.keys]

    def drop(self) -> None:
        """See `FeatureColumns.drop`."""
        super().drop()
        self._tables.clear()
        self._table_of.clear()
        self._coded.clear()


# --- g and h in records -----------------------------------------------------------------------------------------------


class RecordedGradients(Gradients):
    """Gradient pairs that are stored only in records, once the row order is final.

    Arrays of them are computed at the first read, as for the sums of linear leaves, and from then on in every round;
    with several outputs, or without a program, in every round from the start.

    Parameters
    ----------
    workers, constants, storage
        See `Gradients`.
    stored
        Whether arrays are always needed, because samples are drawn from them.
    """

    def __init__(self, workers: Workers, constants: Mapping[str, float], storage: Storage, *, stored: bool) -> None:
        super().__init__(workers, constants, storage)
        self._stored = stored
        self._records: Records | None = None
        self._computed: tuple[Program, Sequence[FloatArray], int] | None = None  # from what, if only in records
        self._is_expired = False
        self._are_read = False  # whether arrays have been read

    @property
    def are_recorded(self) -> bool:
        """Whether the pairs of this round are in records."""
        return self._computed is not None and self._records is not None and self._records.has_numbers

    def keep_order(self, records: Records | None) -> None:
        """See `Gradients.keep_order`: pairs of later rounds are written to the records."""
        self._records = None if self._stored else records

    def make_room(self, n_outputs: int, n_rows: int, program: Program | None) -> None:
        """See `Gradients.make_room`; pairs in records need no arrays."""
        is_recorded = self._records is not None and n_outputs == 1 and program is not None and not self._are_read
        self._computed, self._is_expired = None, False
        super().make_room(n_outputs, 0 if is_recorded else n_rows, program)

    def run(self, program: Program, columns: Sequence[FloatArray], n_rows: int) -> list[float]:
        """See `Gradients.run`."""
        if self._records is None or self.gh.size or len(program.results) > 2:
            return super().run(program, columns, n_rows)
        self._computed = program, columns, n_rows
        # Of the first round no grid is known: what is written then is computed again, as soon as the largest are.
        scale = self.scale(0) or Scale(1.0, 1.0, 0.0)
        largest, sums = self._records.compute(program, self._addresses.of(columns), self._offsets, scale)
        self._set_totals(sums)
        magnitudes: list[float] = largest.tolist()
        return magnitudes

    def summed(self, output: int) -> FloatArray:
        """See `Gradients.summed`."""
        return _NO_PAIRS if self.are_recorded else self.of(output)

    def of(self, output: int) -> FloatArray:
        """See `Gradients.of`."""
        if self._computed is not None and not self.gh.size:
            assert not self._is_expired
            self._are_read = True
            program, columns, n_rows = self._computed
            super().make_room(1, n_rows, program)
            super().run(program, columns, n_rows)
        return super().of(output)

    def columns(self) -> list[pl.Series]:
        """See `Gradients.columns`; none if they are only in records."""
        return super().columns() if self._computed is None else []

    def expire(self) -> None:
        """See `Gradients.expire`."""
        self._is_expired = True
