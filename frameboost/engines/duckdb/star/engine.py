"""The DuckDB engine over a star: attributes are binned once a row of their dimension, and facts have its key.

The facts of the nodes asked for are read in batches, and added up by key in memory, then by the codes of the keys. So
are the sums of the joined table found, which is never made (see `frameboost.engines.duckdb.batch_sums`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.binning.bins import Bins
from frameboost.engines.duckdb.batch_sums import LARGE, BatchSums
from frameboost.engines.duckdb.binning import CountedRows, SqlColumn
from frameboost.engines.duckdb.codes import store_bins
from frameboost.engines.duckdb.engine import FEWEST_SORTED, DuckDBEngine
from frameboost.engines.duckdb.nodes import Nodes
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.engines.duckdb.star.fact_nodes import BYTES_PER_FACT, BYTES_PER_WORD, FactNodes
from frameboost.engines.duckdb.star.records import Records
from frameboost.engines.duckdb.star.tables import BranchTable
from frameboost.expressions.duckdb_sql import is_missing
from frameboost.expressions.sql_files import render
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.splits.split import FloatArray, IntArray, Split

__all__ = ["DuckDBStarEngine"]

# Nodes and pairs of the facts are in memory if they take at most this part of what the database may take.
_SHARE = 1 / 8
# And if they have no more columns of their own: all are read in one batch.
_MOST_OWN = 1024


class DuckDBStarEngine(DuckDBEngine):
    """`HistogramEngine` over a star of DuckDB relations.

    Parameters
    ----------
    session
        Its source is a copy of the facts (see `frameboost.engines.duckdb.star.tables.copy_star`).
    features, columns, roles, queries, in_order
        As for `TableEngine`; the columns are those of the copies.
    facts
        The facts as cuts are found from them.
    branches
        The dimensions.
    workers
        The threads of kernels.
    """

    def __init__(
        self, session: DuckDBSession, features: Sequence[Feature], columns: Sequence[SqlColumn],
        roles: Mapping[str, str], queries: SqlColumn | None = None, *, in_order: bool = False, facts: CountedRows,
        branches: Sequence[BranchTable], workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(session, features, columns, roles, queries, in_order=in_order)
        self._facts = facts
        self._branches = tuple(branches)
        self._workers = workers
        apart = {number for branch in branches for number in branch.features}
        self._own = [number for number in range(len(self.features)) if number not in apart]
        self._dimensions: list[StarDimension] = []
        self._of_feature: dict[int, StarDimension] = {}
        self._keyed: list[StarDimension] = []  # of whose keys the sums are made
        self._with_codes: list[int] = []  # the features whose codes the facts have
        self._is_in_memory = False
        self._records: Records | None = None
        self._fact_nodes: FactNodes | None = None  # where they are in memory

    def _count_rows(self) -> list[int]:
        """See `TableEngine._count_rows`: a row of a dimension counts as often as facts refer to it."""
        if self._counts is None:
            found = dict[int, int]()
            for rows, features in self.tables_of_features():
                counts = "".join(
                    f", {'COUNT(*)' if rows.n is None else 'SUM(source.facts)'} "
                    f'FILTER (WHERE {is_missing(self.columns[i].type, self.columns[i].sql)}) AS "{i}"'
                    for i in features
                )
                statement = render("count_missing", source=rows.source, counts=counts)
                _, *missing = self.session.rows(statement)[0]
                found |= {i: int(n or 0) for i, n in zip(features, missing, strict=True)}
            self._counts = [self._facts.n_rows, *(found[i] for i in range(len(self.features)))]
        return self._counts

    def tables_of_features(self) -> list[tuple[CountedRows, Sequence[int]]]:
        """See `DuckDBEngine.tables_of_features`."""
        branches = [(branch.counted_rows(self.session), branch.features) for branch in self._branches]
        return [(self._facts, self._own), *branches]

    # --- bins ---------------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self._is_in_memory = self._fits_in_memory()
        super().bin_columns(bins)
        self._keyed = [each for each in self._dimensions if each.codes is not None]
        by_key = {number for each in self._keyed for number in each.features}
        self._with_codes = [number for number in range(len(bins)) if number not in by_key]
        if self._records is not None:
            n_threads = min(self._workers.n_jobs, int(self.session.setting("threads")))
            self._fact_nodes = FactNodes(
                self.session, self.bins, self.layout, self._records, self._with_codes, self._keyed, self.n_rows,
                self._workers, n_threads,
                holds_words=self._may_take(BYTES_PER_FACT + BYTES_PER_WORD * len(self._records.names)),
            )  # fmt: skip
        self._may_sort = self._may_sort and not self._is_in_memory and not self._sorted_by()

    def _fits_in_memory(self) -> bool:
        """Whether to hold nodes and pairs of the facts in memory."""
        may_read = self.keeps_order and len(self._own) <= _MOST_OWN and self.session.can_show()
        return may_read and self._may_take(BYTES_PER_FACT)

    def _may_take(self, n_bytes: int) -> bool:
        """Whether so many bytes a fact may be in memory."""
        return self.n_rows * n_bytes <= self.session.memory_limit * _SHARE

    def _sorted_by(self) -> str:
        """Return the key that the facts are sorted by, if any.

        It is that of the dimension with most keys, if its codes do not stay in the cache: then those of a key are read
        once for all of its facts that are in one node.
        """
        largest = max(self._dimensions, key=lambda each: each.n_keys)
        may_sort = not self.in_source_order and self.n_rows >= FEWEST_SORTED
        return largest.column if may_sort and largest.n_keys > LARGE else ""

    def store_bins(self, bins: Sequence[Bins]) -> str:
        """See `DuckDBEngine.store_bins`: the facts get their own codes, and of each dimension the key or all codes."""
        session, more, joins = self.session, dict[str, str](), list[str]()
        for i, branch in enumerate(self._branches):
            codes = store_bins(
                session, [bins[f] for f in branch.features], [self.columns[f] for f in branch.features],
                {"row_id": "source.row_id"}, in_order=False, table=branch.table, numbers=branch.features,
            )  # fmt: skip
            session.drop(branch.table)
            dimension = StarDimension.of_codes(
                session, f"key_{i}", codes, branch.features, self.n_rows, may_have_codes=not self._is_in_memory
            )
            join, columns = dimension.join(f"branch_{i}", f"source.{branch.row}")
            joins += [join] if join else []
            more |= columns
            self._dimensions.append(dimension)
            self._of_feature |= dict.fromkeys(branch.features, dimension)
        facts, words = session.source, None
        if self._is_in_memory:
            largest = {f"bin_{f}": bins[f].largest_code for f in self._own}
            for each in self._dimensions:
                largest |= {f"bin_{f}": bins[f].largest_code for f in each.features if each.has_codes}
                largest |= {each.column: each.n_keys - 1} if each.codes is not None else {}
            self._records = Records(largest)
            words = [*self._records.sql(), *self.roles]
        stored = store_bins(
            session, [bins[f] for f in self._own], [self.columns[f] for f in self._own], more | self.roles,
            in_order=self.in_source_order, more_joins=joins, numbers=self._own,
            sorted_by=self._sorted_by(), stored=words,
        )  # fmt: skip
        for table in [facts, *(each.table for each in self._dimensions)]:
            session.drop(table)
        return stored

    # --- once a tree --------------------------------------------------------------------------------------------------

    @property
    def most_walked_again(self) -> int:
        """See `DuckDBEngine.most_walked_again`; in the order of a key the rows of a chunk are in many nodes."""
        return 0 if self._sorted_by() else super().most_walked_again

    def goes_left(self, split: Split) -> str:
        """See `DuckDBEngine.goes_left`; a split on an attribute whose codes the facts lack has a bit for each key."""
        dimension = self._of_feature.get(split.feature)
        if dimension is None or dimension.has_codes:
            return super().goes_left(split)
        return dimension.goes_left(split, self.layout.bins[split.feature].missing)

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        super().follow_tree()
        if self._fact_nodes is not None:
            self._fact_nodes.restart()

    @property
    def nodes(self) -> Nodes:
        """See `DuckDBEngine.nodes`."""
        return super().nodes if self._fact_nodes is None else self._fact_nodes

    def histograms(self, nodes: Sequence[int], out: FloatArray, places: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        n_rows = sum(self._stats[node].H for node in nodes) / max(self._stats[0].H, 1e-300) * self.n_rows
        if self._fact_nodes is not None:
            out[places] = self._fact_nodes.histograms(nodes, self.pair, n_rows)
        else:
            sums = BatchSums(self.session, self.layout, self._with_codes, self._keyed)
            out[places] = self.sums_of_batches(nodes, sums, n_rows)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        if self._fact_nodes is None:
            super().add_leaf_values(values, margin)
        else:
            self._add_to(margin, "value", [self._fact_nodes.show_values(values)])

    def close(self) -> None:
        """See `Engine.close`."""
        self._fact_nodes = None
        super().close()
