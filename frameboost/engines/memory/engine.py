"""The in-memory engines: `ArrayEngine`, arrays of margins and gradients; `MemoryEngine`, row partitions by node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins
from frameboost.binning.codes import ValueCounts
from frameboost.engines.contract import (
    Capabilities,
    Cumulative,
    FeatureDraws,
    GrownNodes,
    QueryWindow,
    Sample,
    TreeShape,
)
from frameboost.engines.fixed_terms import kept_aggregates
from frameboost.engines.frame import FrameEngine, leaf_quantile
from frameboost.engines.memory.columns import BinnedColumns, FeatureColumns, FrameColumns
from frameboost.engines.memory.limits import MIN_SORTED
from frameboost.engines.memory.linear import Numbers
from frameboost.engines.memory.partition import RowPartition, SplitColumns, take_all
from frameboost.engines.memory.sampling import mark_rows, sample_gh
from frameboost.engines.memory.scores import ScoreArrays, ScoreSums, distinct_scores
from frameboost.engines.memory.terms import ExactSums, Gradients, TermArrays, values_by_row
from frameboost.engines.memory.trees import TreeKernels, add_tree, are_in_levels
from frameboost.engines.programs import Programs
from frameboost.engines.ranking.pairs import columns_read, pair_sums
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Aggregator, Rounded, Scalar, exact_sum_in_two
from frameboost.losses.loss import PAIR_SUMS, RankingPairs
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.runtime.workers import ROWS_PER_TASK, VALUES_PER_TASK, RowNumbers, Workers
from frameboost.schema.types import Feature, contiguous_array
from frameboost.splits.split import FloatArray, IntArray, Penalties, Split, Stats
from frameboost.trees.linear_leaves import LinearColumns

__all__ = ["ArrayEngine", "MemoryEngine"]

Margins = np.ndarray[tuple[int], np.dtype[np.float64]]


class ArrayEngine(FrameEngine):
    """The row state of an engine with margins and gradients in arrays.

    Parameters
    ----------
    frame, features, roles
        See `FrameEngine`.
    workers, storage
        The threads, and the storage of arrays.
    columns
        The feature columns; those of ``frame`` by default. If passed, ``frame`` has only the role columns.
    gradients
        A factory of the container of g and h.
    in_order
        Whether the rows must keep their order.
    """

    def __init__(
        self,
        frame: pl.LazyFrame,
        features: tuple[Feature, ...],
        roles: Mapping[str, str],
        workers: Workers,
        storage: Storage = IN_MEMORY,
        *,
        columns: FeatureColumns | None = None,
        gradients: Callable[[Workers, Mapping[str, float], Storage], Gradients] = Gradients,
        in_order: bool = False,
    ) -> None:
        super().__init__(frame, features, roles)
        self.columns = FrameColumns(frame, features, workers, storage) if columns is None else columns
        self.workers = workers
        self.storage = storage
        self.in_order = in_order or "qid" in roles  # rows of a query stay together
        self.constants = {} if "weight" in roles else {"weight": 1.0}
        self.gradients = gradients(workers, self.constants, storage)
        self.row_numbers: npt.NDArray[np.uint32] | None = None  # the user's, once rows are in another order
        self._positions: npt.NDArray[np.uint32] | None = None  # that rows are drawn by, if they are
        self.margin_arrays: dict[str, Margins] = {}  # the rows of the next
        self._all_margins: FloatArray = np.empty((0, 0))
        self._role_arrays: tuple[pl.DataFrame | None, dict[str, FloatArray | None]] = None, {}  # of which rows
        self._others: dict[str, FloatArray] = {}  # what is computed beside the gradients
        self.may_have_samples = True  # whether trees to come may be grown on samples
        self._output = 0  # that the tree is grown for
        self.drawn_gh: FloatArray | None = None  # of the tree's sample; None without one
        self._of_sample: FloatArray | None = None  # the memory of those of samples
        self._counted: FloatArray | None = None  # see `counted_gh`
        self._is_counted = False  # whether that is of the tree that is grown
        self._ranking = TermArrays()
        self._programs = Programs()
        self._aggregates: dict[Hashable, float | None] = {}  # that are the same in every round
        self._score_sums: ScoreSums = {}
        self.fixed_values: dict[Hashable, FloatArray] = {}  # of expressions, while the rows keep their order

    # --- columns ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the data, once."""
        if self.rows is None:
            read = self.columns.load(list(self.roles.values()))
            # Roles are computed apart, and not by the streaming engine: polars would cut the columns beside them, or
            # themselves, into chunks. Each round reads the roles as arrays.
            self.rows = self.kept_roles(read.lazy().select(self.row_exprs).collect(engine="in-memory").rechunk())

    def kept_roles(self, roles: pl.DataFrame) -> pl.DataFrame:
        """Return the roles as stored."""
        return self.storage.kept_frame(roles)

    def values(self, number: int) -> pl.Series:
        """Return a feature's physical values, until the columns are dropped."""
        self.load()
        return self.columns.values(number)

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        self.load()
        return self.columns.propose_bins(max_bin, user_bins)

    def feature_values(self, number: int) -> pl.Series:
        """See `FrameEngine.feature_values`."""
        return self.values(number)

    def count_values(self, features: Sequence[int]) -> list[ValueCounts]:
        """See `ShardEngine.count_values`."""
        self.load()
        _ = self.sample  # before several threads need it
        return self.workers.each(features, self.counts_of)

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        self.load()
        return self.columns.count_missing(self.sample)

    def values_for_cuts(self, feature: int) -> pl.Series:
        """See `FrameEngine.values_for_cuts`."""
        present = self.columns.kept_for_cuts(feature)
        return super().values_for_cuts(feature) if present is None else present

    # --- rows ---------------------------------------------------------------------------------------------------------

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`."""
        if "qid" not in self.row_names:
            super().add_columns(terms)
            return
        self.load()
        for name, term in terms.items():
            if self._ranking.define(name, term, self):
                self.terms.pop(name, None)
            else:
                super().add_columns({name: term})

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`; results that are constant over rounds are cached."""
        self.load()  # all of it will be needed, and a lazy frame should be read once
        by_polars = super().aggregate
        return kept_aggregates(
            self._aggregates, aggregates, self.fixed_key, lambda new: self._of_arrays(new) or by_polars(new)
        )

    def _of_arrays(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None] | None:
        """Return aggregates by programs, or None if only polars computes them."""
        if not self.n_rows or any(
            a.function == "sum" and not isinstance(a.expression, Rounded) for a in aggregates.values()
        ):
            return None
        values = self.values_of([each.expression for each in aggregates.values()])
        if values is None or any(np.isnan(each).any() for each in values):
            return None
        return {
            name: float(getattr(np, each.function)(column))
            for (name, each), column in zip(aggregates.items(), values, strict=True)
        }

    def fixed_key(self, expression: Scalar) -> Hashable | None:
        """Return the cache key of an expression that is constant over rounds; None for others."""
        return self._ranking.key(expression, self)

    @property
    def fixed_version(self) -> int:
        """The version of cached values besides the terms: a number that changes with them."""
        return self._ranking.version

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """See `Engine.by_score`."""
        values = [self._kept_values(each) for each in (score, positive, negative)]
        known = [each for each in values if each is not None]
        steps = distinct_scores(known[0], known[1], known[2]) if len(known) == len(values) else None
        if steps is None:
            return super().by_score(score, positive, negative)
        return ScoreArrays(steps, known[0], self.n_rows, self.workers, self._score_sums)

    def _kept_values(self, expression: Scalar) -> FloatArray | None:
        """Return `values_of` one expression; values constant over rounds are cached."""
        key = self.fixed_key(expression)
        if key in self.fixed_values:
            return self.fixed_values[key]
        computed = self.values_of([expression])
        if computed is not None and key is not None:
            self.fixed_values[key] = self.storage.kept(np.ascontiguousarray(computed[0]))
        return None if computed is None else computed[0]

    def values_of(self, expressions: Sequence[Scalar]) -> list[FloatArray] | None:
        """Return the values of expressions in every row, or None if they have no program."""
        self.load()
        if len(expressions) == 1 and isinstance(expressions[0], Expression):  # such as a margin that rows are ranked by
            stored = self.array(expressions[0].text)
            if stored is not None:
                return [np.asarray(stored, np.float64)]
        bare = [each.expression if isinstance(each, Rounded) else each for each in expressions]
        program = self._programs.of(bare, self.terms, self.constants)
        arrays = [] if program is None else [self.array(name) for name in program.columns]
        columns = [array for array in arrays if array is not None]
        if program is None or len(columns) < len(arrays):
            return None
        values = values_by_row(program, columns, self.n_rows, self.workers)
        return [
            (column + each.offset) - each.offset if isinstance(each, Rounded) else column
            for each, column in zip(expressions, values, strict=True)
        ]

    def values_at(self, expression: Expression, columns: Mapping[str, FloatArray]) -> FloatArray | None:
        """Return the values of an expression for other ``columns``; None if it reads further columns."""
        program = self._programs.of([expression], self.terms, self.constants)
        if program is None or not program.columns or not columns.keys() >= set(program.columns):
            return None
        arrays = [columns[name] for name in program.columns]
        return values_by_row(program, arrays, len(arrays[0]), self.workers)[0]

    def exact_sums(self, terms: Mapping[str, Expression]) -> dict[str, float]:
        """See `SumsAtOnce.exact_sums`."""
        self.load()
        sums = self._sums.of(terms, self)
        return exact_sum_in_two(self, terms) if sums is None else sums

    @cached_property
    def _sums(self) -> ExactSums:
        return ExactSums(self.n_rows, self.workers, self.constants)

    def computed_columns(self) -> list[pl.Series]:
        """See `FrameEngine.computed_columns`."""
        arrays = {**self.margin_arrays, **self._ranking.all_arrays(), **self._others}
        return [*(pl.Series(name, values) for name, values in arrays.items()), *self.gradients.columns()]

    def array(self, name: str) -> FloatArray | None:
        """Return a column as an array without copying it; None if it does not exist or has NULLs."""
        assert self.rows is not None
        for arrays in (self.margin_arrays, self._others):
            if name in arrays:
                return arrays[name]
        for term in (self._ranking.array(name), self.gradients.column(name)):
            if term is not None:
                return term
        if self._role_arrays[0] is not self.rows:
            self._role_arrays = self.rows, {}
        arrays_of_roles = self._role_arrays[1]
        if name not in arrays_of_roles:
            arrays_of_roles[name] = contiguous_array(self.rows[name]) if name in self.rows else None
        return arrays_of_roles[name]

    def computed(self, values: Mapping[str, Scalar]) -> dict[str, FloatArray]:
        """See `ArrayRows.computed`: by a program if there is one, otherwise by polars."""
        return {name: np.array(each) for name, each in self._views(values).items()}

    def _views(self, values: Mapping[str, Scalar]) -> dict[str, FloatArray]:
        """Return `computed`, perhaps as views of other arrays."""
        arrays = self.values_of(list(values.values())) if values else []
        return super().computed(values) if arrays is None else dict(zip(values, arrays, strict=True))

    def margins(self, name: str) -> Margins:
        """Return the margins of that name, a view to modify in place."""
        return self.margin_arrays[name]

    def margins_of(self, names: Sequence[str]) -> FloatArray:
        """Return the margins of successive names, (margins, rows), a view to modify in place."""
        first = list(self.margin_arrays).index(names[0])
        margins: FloatArray = self._all_margins[first : first + len(names)]
        return margins

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        # A constant needs no query over all rows.
        numbers = {name: pl.select(each.to_polars()).item() for name, each in margins.items() if not each.columns}
        self._all_margins = self.storage.empty((len(margins), self.n_rows), np.float64, is_rewritten=True)
        started = dict(zip(margins, self._all_margins, strict=True))
        for name, value in numbers.items():
            started[name][:] = value
        computed = {name: each for name, each in margins.items() if each.columns}
        for name, values in self.by_row(computed).to_dict().items() if computed else ():
            started[name][:] = values.to_numpy()
        self.margin_arrays = started

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        read = dict.fromkeys(columns_read(pairs))
        names = [name for name in read if self.array(name) is None]
        computed = self.values_of([Expression(name, (name,)) for name in names]) if names else []
        if computed is None:
            computed = [each.to_numpy() for each in self.all_rows().select(names).collect().get_columns()]
        columns = {name: np.ascontiguousarray(values) for name, values in zip(names, computed, strict=True)}
        columns |= {name: array for name in read if (array := self.array(name)) is not None}
        sums = pair_sums(self._ranking.queries_of(self), columns, pairs, offset, self.workers)
        self.store_arrays(dict(zip(PAIR_SUMS, sums, strict=True)))

    def store_arrays(self, columns: Mapping[str, FloatArray]) -> None:
        """See `ArrayRows.store_arrays`."""
        self._ranking.keep({name: self.storage.kept(values) for name, values in columns.items()})

    # --- gradients ----------------------------------------------------------------------------------------------------

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`."""
        self.gradients.forget()  # no expression reads them, and to hand them to polars takes a copy
        self._others = {name: self.storage.kept(values) for name, values in self.computed(others).items()}
        grids = None if offsets is None else [offsets[name] for name in gradients]
        largest = self.gradients.compute(gradients, self, grids)
        return dict(zip(gradients, largest, strict=True))

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self._output, self.drawn_gh, totals = output, None, self.gradients.totals[output]
        self._is_counted = False
        if sample is not None:
            if self._of_sample is None:  # kept from tree to tree: fresh memory is slow
                self._of_sample = self.storage.empty(self.tree_gh.shape, np.float64, is_rewritten=True)
            (totals,) = self.draw_sample(sample, self.tree_gh[np.newaxis], self._of_sample[np.newaxis])
            self.drawn_gh = self._of_sample
        self.give_to_root()
        self.may_have_samples = sample is not None  # all trees of a fit are grown on samples, or none
        return totals

    @property
    def tree_gh(self) -> FloatArray:
        """G and h of the current tree, float64 (rows, 2)."""
        return self.gradients.of(self._output) if self.drawn_gh is None else self.drawn_gh

    @property
    def counted_gh(self) -> FloatArray:
        """The pairs that count rows, float64 (rows, 2): (1, 0) for rows with a gradient in the tree, else (0, 0)."""
        if self._counted is None:
            self._counted = self.storage.empty((self.n_rows, 2), np.float64, is_rewritten=True)
        if not self._is_counted:
            of_outputs, out, self._is_counted = self.pairs_of_tree(), self._counted, True
            self.workers.over(
                self.n_rows, lambda *slice_: mark_rows(of_outputs, out, *slice_), smallest=VALUES_PER_TASK
            )
        return self._counted

    def pairs_of_tree(self) -> FloatArray:
        """Return g and h of the current tree, float64 (outputs, rows, 2)."""
        return self.tree_gh[np.newaxis]

    def give_to_root(self) -> None:
        """Assign all rows to the root of the new tree."""
        self.reset_nodes()

    def draw_sample(self, sample: Sample, gh: FloatArray, out: FloatArray) -> list[Stats]:
        """Write the pairs of a sample, float64 (outputs, rows, 2); return the sums of each output."""
        if self._positions is None:
            numbers = np.arange(self.n_rows) if self.row_numbers is None else self.row_numbers
            self._positions = self.positions.of(numbers).astype(np.uint32)
        return sample_gh(sample, gh, self._positions, out, self.workers)

    def forget_order(self, order: npt.NDArray[np.uint32]) -> None:
        """Drop state that depends on row order before the rows are reordered; for samples, keep row numbers."""
        if self.may_have_samples:
            self.row_numbers = order.copy() if self.row_numbers is None else self.row_numbers[order]
        else:
            self.row_numbers = None
        self._positions = None
        self._role_arrays = None, {}
        self.fixed_values.clear()

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        raise NotImplementedError

    def hessians(self) -> pl.Series:
        """Return h of every row for the current tree."""
        return pl.Series(self.tree_gh[:, 1])


# --- rows by node, binned columns -------------------------------------------------------------------------------------


class MemoryEngine(ArrayEngine):
    """`HistogramEngine` over binned columns."""

    binned: BinnedColumns
    partition: RowPartition
    _trees: TreeKernels | None = None
    _grown: GrownNodes | None = None
    _totals: list[Stats]  # of each output of the tree
    _kept_numbers: Numbers | None = None
    _vector_gh: FloatArray  # g and h of a tree for all outputs, (outputs, rows, 2)
    _vector_sample: FloatArray | None = None  # the memory of those of samples
    _are_all_outputs = False  # whether the tree is for all

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.load()
        may_sort = self.n_rows >= MIN_SORTED and not self.in_order
        self.binned, order = self.columns.bin(bins, may_sort=may_sort)
        self.columns.drop()
        self.partition = RowPartition(self.n_rows, self.workers)
        self._may_sort = may_sort
        if order is not None:
            self.put_in_order(order, np.empty(self.n_rows))
            self.partition.add_in_blocks = self.binned.sparse is None
        elif not may_sort:
            self.gradients.keep_order(self.binned.records)

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`."""
        if self._may_sort and len(self.gradients.gh) and self.partition.is_split:
            self.sort_rows()
        return super().compute_gradients(gradients, others, offsets)

    def sort_rows(self) -> None:
        """Sort the rows by the leaves of the first tree, once.

        Later trees have similar splits, so the rows of a node then lie close together in memory. No sum depends on row
        order (see `frameboost.expressions.grid`).
        """
        # The pairs are about to be computed anew: their memory is free until then.
        buffer, free = np.split(self.gradients.gh.ravel()[: 2 * self.n_rows], 2)
        order = free.view(np.uint32)[: self.n_rows]
        self.partition.write_order(order)
        self.put_in_order(order, buffer)

    def put_in_order(self, order: RowNumbers, buffer: FloatArray) -> None:
        """Reorder the rows for the rest of the fit; ``buffer`` has room for a number of each."""
        assert self.rows is not None
        self._may_sort = False
        self.forget_order(order)
        columns, self.rows = self.rows.get_columns(), pl.DataFrame()
        self.rows = pl.DataFrame([self._in_order(columns.pop(0), order) for _ in range(len(columns))])
        for margins in self.margin_arrays.values():
            take_all(margins, order, buffer, self.workers)
            margins[:] = buffer
        self.binned.sort(order, buffer, self.workers)
        self.gradients.keep_order(self.binned.records)

    def _in_order(self, values: pl.Series, order: RowNumbers) -> pl.Series:
        """Return a column with its rows reordered."""
        if values.dtype != pl.Float64 or values.null_count():
            return values[pl.Series(order)]
        sorted_values = np.empty(len(values))
        take_all(values.to_numpy(), order, sorted_values, self.workers)
        return pl.Series(values.name, sorted_values)

    # --- once a tree --------------------------------------------------------------------------------------------------

    @property
    def split_columns(self) -> SplitColumns:
        """The columns of codes that splits compare."""
        return self.binned

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self._are_all_outputs = False
        totals = super().start_tree(output, sample)
        self._totals = [totals]
        if sample is not None and self._trees is None:
            self.partition.set_apart(self.tree_gh)
        self.binned.start_tree(self.summed_gh, lambda: self.gradients.scale(output))
        return totals

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        self._vector_gh, totals = self.gradients.gh, list(self.gradients.totals)
        if sample is not None:
            if self._vector_sample is None:  # kept from tree to tree: fresh memory is slow
                self._vector_sample = self.storage.empty(self._vector_gh.shape, np.float64, is_rewritten=True)
            totals = self.draw_sample(sample, self._vector_gh, self._vector_sample)
            self._vector_gh = self._vector_sample
        self.drawn_gh = self._vector_gh[0]  # h of any output tells which rows are in the sample
        self._totals, self._is_counted, self._are_all_outputs = totals, False, True
        self.give_to_root()
        self.may_have_samples = sample is not None
        self.binned.start_tree(self.tree_gh, lambda: None)
        return totals

    def give_to_root(self) -> None:
        """See `ArrayEngine.give_to_root`; a tree grown in one call does it itself."""
        if self._trees is None:
            super().give_to_root()

    def capabilities(self, n_trees: int) -> Capabilities:
        """See `Capabilities`; one call sums the histograms of many nodes, most of them too small for threads."""
        takes_trees = self.binned.in_one is not None
        return Capabilities(
            takes_batches=True, takes_trees=takes_trees,
            grows_trees=takes_trees and n_trees > 0 and not are_in_levels(n_trees),
        )  # fmt: skip

    def grows_vector_trees(self, n_trees: int) -> bool:
        """See `TreeEngine.grows_vector_trees`."""
        return not are_in_levels(n_trees, for_all_outputs=True)

    def grow_tree(
        self, shape: TreeShape, penalties: Penalties, shrinkage: float, draws: FeatureDraws | None
    ) -> GrownNodes:
        """See `TreeEngine.grow_tree`."""
        if self._trees is None:
            self._trees = TreeKernels(self.binned, shape, penalties, self.workers, len(self._totals))
        gh = self.pairs_of_tree()
        self._grown = self._trees.grow(self._totals, gh, draws, self.partition, shape.least_gain, shrinkage)
        return self._grown

    def add_grown(self, grown: GrownNodes, names: Sequence[str], linear: Sequence[LinearColumns | None]) -> None:
        """See `TreeEngine.add_grown`."""
        is_own, margins = grown is self._grown, self.margins_of(names)
        if not any(linear):
            if is_own:
                self.partition.add_values(grown.value, margins)
            else:
                self._walk(grown, grown.value, margins)
            return
        leaves, node_of = np.flatnonzero(grown.left < 0), None if is_own else self._nodes_of_rows(grown)
        self._numbers.add(leaves, grown.value[:, leaves], linear, margins, node_of)

    def _nodes_of_rows(self, grown: GrownNodes) -> IntArray:
        numbers: FloatArray = np.zeros((1, self.n_rows))
        self._walk(grown, np.arange(len(grown.feature), dtype=np.float64)[np.newaxis], numbers)
        return np.asarray(numbers[0], np.int64)

    def _walk(self, grown: GrownNodes, values: FloatArray, out: FloatArray) -> None:
        """Add ``values``, (outputs, nodes), of each row's leaf to ``out``, (outputs, rows)."""
        assert self.binned.in_one is not None
        codes, _ = self.binned.in_one
        count = self.workers.count(len(codes), ROWS_PER_TASK)
        add_tree(
            self.workers.team(count), count, codes, grown.feature, grown.left, grown.table, grown.goes_left, values, out
        )

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self.partition.start_tree()
        self.may_have_samples = True  # the tree may be one of a checkpoint, and the one before that of the base margins

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        self.binned.sum_by_bin(self.partition, nodes, [self.summed_gh], out, [indices], self.workers)

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        self.binned.sum_by_bin(
            self.partition, nodes, [self.counted_gh], out, [indices], self.workers, are_of_tree=False
        )  # fmt: skip

    def pairs_of_tree(self) -> FloatArray:
        """See `ArrayEngine.pairs_of_tree`."""
        return self._vector_gh if self._are_all_outputs else super().pairs_of_tree()

    @property
    def summed_gh(self) -> FloatArray:
        """The pairs that histograms sum, float64 (rows, 2); None if records of keys hold them."""
        return self.gradients.summed(self._output) if self.drawn_gh is None else self.drawn_gh

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `VectorEngine.vector_histograms`."""
        of_outputs, first = out.reshape(-1, *out.shape[2:]), indices * out.shape[1]
        at = [first + k for k in range(len(self._vector_gh))]
        self.binned.sum_by_bin(self.partition, nodes, list(self._vector_gh), of_outputs, at, self.workers)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self.partition.apply_splits(splits, self.split_columns)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        self.partition.add_leaf_values(values, self.margins(margin))
        self.gradients.expire()

    # --- linear leaves ------------------------------------------------------------------------------------------------

    @property
    def _numbers(self) -> Numbers:
        assert self.rows is not None
        if self._kept_numbers is None or self._kept_numbers.rows is not self.rows:  # in another order by now
            self._kept_numbers = Numbers(self.rows, self.partition, self.workers)
        return self._kept_numbers

    def leaf_ranges(self, leaves: IntArray, features: IntArray) -> FloatArray:
        """See `LinearEngine.leaf_ranges`."""
        return self._numbers.ranges(leaves, features, self.pairs_of_tree())

    def leaf_sums(self, grids: LinearColumns, offsets: FloatArray) -> FloatArray:
        """See `LinearEngine.leaf_sums`."""
        return self._numbers.sums(grids, offsets, self.pairs_of_tree())

    def add_linear_leaves(self, values: Mapping[int, float], linear: LinearColumns, margin: str) -> None:
        """See `LinearEngine.add_linear_leaves`."""
        plain = np.array([list(values.values())])
        self._numbers.add(np.array(list(values)), plain, [linear], self.margins_of([margin]))

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        computed = self._views({"value": value} if weight is None else {"value": value, "weight": weight})
        values, weights, h = computed["value"], computed.get("weight"), self.tree_gh[:, 1]
        leaves = self.partition.leaves()
        if (h <= 0).any():
            leaves = {node: drawn for node, rows in leaves.items() if len(drawn := rows[h[rows] > 0])}

        def quantile(rows: RowNumbers) -> float:
            return leaf_quantile(values[rows], None if weights is None else weights[rows], alpha)

        quantiles = self.workers.each(list(leaves.values()), quantile, alone=self.n_rows < VALUES_PER_TASK)
        return dict(zip(leaves, quantiles, strict=True))

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        computed = self._views({"value": value} if weight is None else {"value": value, "weight": weight})
        leaves, h = dict(sorted(self.partition.leaves().items())), self.tree_gh[:, 1]
        if (h <= 0).any():
            leaves = {node: rows[h[rows] > 0] for node, rows in leaves.items()}
        nodes = np.repeat(np.array(list(leaves), np.int32), [len(rows) for rows in leaves.values()])
        rows = np.concatenate([np.empty(0, np.uint32), *leaves.values()])
        return pl.DataFrame({"node": nodes, **{name: each[rows] for name, each in computed.items()}})
