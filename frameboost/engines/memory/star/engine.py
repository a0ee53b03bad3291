"""The engine over a star: facts in memory whose dimensions are not joined to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.contract import Sample
from frameboost.engines.memory.columns import BinnedColumns, is_small, propose_bins
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.memory.gradients import Gradients, Scale
from frameboost.engines.memory.limits import MIN_SORTED
from frameboost.engines.memory.partition import RowPartition
from frameboost.engines.memory.sparse import find_sparse
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
from frameboost.engines.programs import Program
from frameboost.joins.star_sources import StarFrame
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.schema.polars_columns import column
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Stats

__all__ = ["StarEngine"]


_NO_PAIRS: FloatArray = np.empty((0, 2))


class StarEngine(MemoryEngine):
    """`MemoryEngine` whose features may be attributes of dimensions, binned once a row of the dimension.

    Where it pays, their codes are stored by key (see `KeyedColumns`), and otherwise by fact, as of any other column.

    Parameters
    ----------
    source, features, roles, workers
        As for any engine.
    stores_gradients
        Whether arrays of g and h are needed, as samples are drawn from them.
    """

    gradients: RecordedGradients

    def __init__(
        self, source: StarFrame, features: tuple[Feature, ...], roles: Mapping[str, str], workers: Workers,
        *, stores_gradients: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(source.to_frame(list(dict.fromkeys(roles.values()))), features, roles, workers)
        self._source = source
        self._stores_gradients = stores_gradients
        self._tables: list[StarTable] = []
        self._table_of: dict[int, StarTable] = {}
        self._coded: dict[int, tuple[CodedTable, int]] = {}  # attributes whose codes are stored by fact

    def load(self) -> pl.DataFrame:
        """See `ArrayEngine.load`; only the facts' own columns are returned."""
        if self.rows is None:
            of_facts = fact_columns(self._source, [feature.name for feature in self.features])
            names = list(dict.fromkeys([*of_facts, *self.roles.values()]))
            read = self._source.to_frame(names).collect()
            self.rows = self.kept_roles(read.lazy().select(self.row_exprs).collect(engine="in-memory").rechunk())
            self._tables = open_tables(self._source, self.features, read.select(map(column, of_facts)), self.workers)
            self._table_of = {i: table for table in self._tables for i in table.values}
            self._count(lambda table: table.references)
            own = ((i, feature) for i, feature in enumerate(self.features) if i not in self._table_of)
            self._columns = read.select(column(feature.name).alias(str(i)) for i, feature in own)
        return self._columns

    def _count(self, references: Callable[[StarTable], IntArray]) -> None:
        """Count the facts that refer to each row of the dimensions."""
        self.workers.each(self._tables, references, alone=self.n_rows < VALUES_PER_TASK)

    def values(self, number: int) -> pl.Series:
        """See `ArrayEngine.values`."""
        self.load()
        table = self._table_of.get(number)
        return super().values(number) if table is None else table.values[number][pl.Series(table.rows)]

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        self.load()
        return [
            self._table_of[i].count_missing(i) if i in self._table_of else self.values(i).null_count()
            for i in range(len(self.features))
        ]

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        self.load()
        wanted = [i for i in self._table_of if i not in given]
        if self._tables:
            _ = self._tables[0].sample.rows  # of all of them, before several threads ask for it
        self._count(lambda table: table.sampled_references)

        def propose(number: int) -> Bins:
            return propose_attribute(self.features[number], number, self._table_of[number], max_bin)

        known = dict(given) | dict(zip(wanted, self.workers.each(wanted, propose), strict=True))
        rare = self.rare_values, self.rare
        return propose_bins(self.features, self.values, self.n_rows, max_bin, known, self.workers, *rare)

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.load()
        may_sort = self.n_rows >= MIN_SORTED and "qid" not in self.row_names  # queries stay together
        coded = [code_table(table, bins, most_keys(self.n_rows), self.workers) for table in self._tables]
        by_key, sorted_by = chosen(coded, self.n_rows * len(bins), may_sort=may_sort)
        layout, sparse = SlotLayout(bins), self.sparse_features(bins)
        self._coded = {i: (table, k) for table in coded if table not in by_key for k, i in enumerate(table.features)}
        in_order = next((index for index, table in enumerate(by_key) if table is sorted_by), None)
        parted = [part_keys(table, most_in_one(self.n_rows)) for table in by_key]
        keyed = KeyedColumns(parted, layout, sparse, self.workers, in_order) if by_key else None
        self.binned = BinnedColumns(bins, self.n_rows, sparse, keyed=keyed)
        self.binned.fill(self.write_codes, self.workers, self.stored_codes)
        self.drop_columns()
        self.partition = RowPartition(self.n_rows, self.workers)
        self._may_sort = may_sort
        if sorted_by is not None:
            self.put_in_order(self._by_key(sorted_by), np.empty(self.n_rows))
            self.partition.add_in_blocks = self.binned.sparse is None
        if not self._may_sort:
            self._record_gradients()

    def _by_key(self, table: CodedTable) -> npt.NDArray[np.uint32]:
        """Return the facts in the order of a dimension's keys."""
        order, starts = np.empty(self.n_rows, np.uint32), np.cumsum(table.counts) - table.counts

        def write(first: int, last: int) -> None:
            order_by_key(table.keys, first, last, starts, order)

        self.workers.over(table.n_keys, write)  # each thread looks at all keys, and writes the rows of its own
        return order

    def new_gradients(self, constants: Mapping[str, float]) -> RecordedGradients:
        """See `ArrayEngine.new_gradients`."""
        return RecordedGradients(self.workers, constants, self.storage)

    def sort_rows(self) -> None:
        """See `MemoryEngine.sort_rows`."""
        super().sort_rows()
        self._record_gradients()

    def _record_gradients(self) -> None:
        """Have the gradients of rounds to come in records alone, if nothing else reads them and rows stay in order."""
        if self.binned.are_keyed and not self._stores_gradients:
            self.gradients.record(self.binned.keyed)

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        totals = super().start_tree(output, sample)
        keyed = self.binned.keyed
        if keyed is None:
            return totals
        if sample is not None or not self.gradients.are_recorded:
            keyed.start_tree(self.tree_gh, self.gradients.scale(output))
        return totals

    @property
    def summed_gh(self) -> FloatArray:
        """See `MemoryEngine.summed_gh`; none are read where they are in records."""
        return _NO_PAIRS if self.gradients.are_recorded and self.own_gh is None else super().summed_gh

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        super().add_leaf_values(values, margin)
        self.gradients.expire()

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        totals = super().start_vector_tree(sample)
        if self.binned.keyed is not None:
            self.binned.keyed.start_tree(self.tree_gh, None)
        return totals

    def drop_columns(self) -> None:
        """See `ArrayEngine.drop_columns`."""
        super().drop_columns()
        self._tables.clear()
        self._table_of.clear()
        self._coded.clear()

    def write_codes(self, number: int, bins: Bins, codes: Codes) -> None:
        """See `MemoryEngine.write_codes`."""
        if number not in self._coded:
            super().write_codes(number, bins, codes)
            return
        table, index = self._coded[number]
        codes[:] = table.codes[index][table.keys]

    def sparse_features(self, bins: Sequence[Bins]) -> dict[int, int]:
        """See `MemoryEngine.sparse_features`; attributes are not sparse."""
        if is_small(self.n_rows, len(bins)):
            return {}
        own = [i for i in range(len(bins)) if i not in self._table_of]
        found = find_sparse(
            [bins[i] for i in own], lambda k: self.values(own[k]), self.n_rows, self.workers,
            lambda k: self.rare_values(own[k]),
        )  # fmt: skip
        return {own[k]: code for k, code in found.items()}


# --- g and h in records -----------------------------------------------------------------------------------------------


class RecordedGradients(Gradients):
    """Gradient pairs that are only in records, from when `record` is called on.

    Arrays of them are computed when they are asked for, as for the sums of linear leaves, and from then on every round.
    They always are if there are several outputs, or if no program computes them.
    """

    def __init__(self, workers: Workers, constants: Mapping[str, float], storage: Storage) -> None:
        super().__init__(workers, constants, storage)
        self._keyed: KeyedColumns | None = None
        self._computed: tuple[Program, Sequence[FloatArray], int] | None = None  # from what, if only in records
        self._is_expired = False
        self._are_read = False  # whether arrays have been asked for

    @property
    def are_recorded(self) -> bool:
        """Whether the pairs of this round are in records."""
        return self._computed is not None and self._keyed is not None and self._keyed.has_numbers

    def record(self, keyed: KeyedColumns | None) -> None:
        """Write the pairs of rounds to come to the records of these columns, if there are any."""
        self._keyed = keyed

    def make_room(self, n_outputs: int, n_rows: int, program: Program | None) -> None:
        """See `Gradients.make_room`; there is none for pairs that will be in records."""
        is_recorded = self._keyed is not None and n_outputs == 1 and program is not None and not self._are_read
        self._computed, self._is_expired = None, False
        super().make_room(n_outputs, 0 if is_recorded else n_rows, program)

    def run(self, program: Program, columns: Sequence[FloatArray], n_rows: int) -> list[float]:
        """See `Gradients.run`."""
        if self._keyed is None or self.gh.size or len(program.results) > 2:
            return super().run(program, columns, n_rows)
        self._computed = program, columns, n_rows
        # Of the first round no grid is known: what is written then is computed again, as soon as the largest are.
        scale = self.scale(0) or Scale(1.0, 1.0, 0.0)
        largest, sums = self._keyed.compute(program, self._addresses.of(columns), self._offsets, scale)
        self._set_totals(sums)
        found: list[float] = largest.tolist()
        return found

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
        """Say that the margins have changed: arrays that have not been computed can't be any more."""
        self._is_expired = True
