"""The DuckDB engine over a star: attributes are binned once a row of their dimension, and facts have its key.

The facts of the nodes asked for are read in batches, and added up by key in memory, then by the codes of the keys. So
are the sums of the joined table found, which is never made (see `frameboost.engines.duckdb.batch_sums`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.batch_sums import LARGE, BatchSums
from frameboost.engines.duckdb.binning import CountedRows, SqlColumn
from frameboost.engines.duckdb.codes import store_bins
from frameboost.engines.duckdb.engine import MIN_SORTED
from frameboost.engines.duckdb.records.engine import DuckDBRecordEngine
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.engines.duckdb.star.tables import BranchTable
from frameboost.expressions.duckdb_sql import is_missing, render
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split

__all__ = ["DuckDBStarEngine"]


class DuckDBStarEngine(DuckDBRecordEngine):
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
        As for `DuckDBRecordEngine`.
    """

    def __init__(
        self, session: DuckDBSession, features: Sequence[Feature], columns: Sequence[SqlColumn],
        roles: Mapping[str, str], queries: SqlColumn | None = None, *, in_order: bool = False, facts: CountedRows,
        branches: Sequence[BranchTable], workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(session, features, columns, roles, queries, in_order=in_order, workers=workers)
        self._facts = facts
        self._branches = tuple(branches)
        apart = {number for branch in branches for number in branch.features}
        self._own = [number for number in range(len(self.features)) if number not in apart]
        self._dimensions: list[StarDimension] = []
        self._of_feature: dict[int, StarDimension] = {}

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
        super().bin_columns(bins)
        self._may_sort = self._may_sort and not self._sorted_by()

    @property
    def sums_by_kernel(self) -> bool:
        """See `DuckDBEngine.sums_by_kernel`: sums by key are."""
        return True

    @property
    def own_features(self) -> Sequence[int]:
        """See `DuckDBRecordEngine.own_features`."""
        return self._own

    @property
    def stored_features(self) -> Sequence[int]:
        """See `DuckDBRecordEngine.stored_features`."""
        by_key = {number for each in self.keyed_dimensions for number in each.features}
        return [number for number in range(len(self.features)) if number not in by_key]

    @property
    def keyed_dimensions(self) -> Sequence[StarDimension]:
        """See `DuckDBRecordEngine.keyed_dimensions`."""
        return [each for each in self._dimensions if each.codes is not None]

    def _sorted_by(self) -> str:
        """Return the key that the facts are sorted by, if any.

        It is that of the dimension with most keys, if its codes do not stay in the cache: then those of a key are read
        once for all of its facts that are in one node.
        """
        largest = max(self._dimensions, key=lambda each: each.n_keys)
        may_sort = not self.in_source_order and self.n_rows >= MIN_SORTED
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
        facts = session.source
        largest = {f"bin_{f}": bins[f].largest_code for f in self._own}
        for each in self._dimensions:
            largest |= {f"bin_{f}": bins[f].largest_code for f in each.features if each.has_codes}
            largest |= {each.column: each.n_keys - 1} if each.codes is not None else {}
        stored = store_bins(
            session, [bins[f] for f in self._own], [self.columns[f] for f in self._own], more | self.roles,
            in_order=self.in_source_order, more_joins=joins, numbers=self._own,
            sorted_by=self._sorted_by(), stored=self.words(largest),
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

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        if self._is_in_memory:
            super().histograms(nodes, out, indices)
        else:
            sums = BatchSums(self.session, self.layout, self.stored_features, self.keyed_dimensions)
            out[indices] = self.sums_of_batches(nodes, sums, self.rows_in(nodes))
