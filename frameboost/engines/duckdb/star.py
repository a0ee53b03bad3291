"""The DuckDB engine over a star: attributes are binned and summed once a row of their dimension, not once a fact.

Sums of g and h by node and key are one narrow group-by of the facts, and are summed once more by the codes of the keys,
for all attributes of a dimension. Where facts are few for the keys, that does not pay: then the codes of the attributes
are stored with the facts as well, and the facts are summed by them. Which way is taken follows from the number of rows
in the nodes asked for. Both give the sums of the joined table, which is never made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.duckdb.binning import CountedRows, SqlColumn, store_bins
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.duckdb.histograms import HistogramQuery
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.engines.duckdb.star_dimension import StarDimension
from frameboost.engines.duckdb.star_tables import BranchTable
from frameboost.expressions.duckdb_sql import is_missing
from frameboost.expressions.sql_files import render
from frameboost.schema.feature import Feature
from frameboost.splits.split import FloatArray, IntArray, Split

__all__ = ["DuckDBStarEngine"]


class DuckDBStarEngine(DuckDBEngine):
    """`HistogramEngine` over a star of DuckDB relations.

    Parameters
    ----------
    session
        Its source is a copy of the facts (see `frameboost.engines.duckdb.star_tables.copy_star`).
    features, columns, roles, queries, in_order
        As for `TableEngine`; the columns are those of the copies.
    facts
        The facts as cuts are found from them.
    branches
        The dimensions.
    """

    def __init__(
        self, session: DuckDBSession, features: Sequence[Feature], columns: Sequence[SqlColumn],
        roles: Mapping[str, str], queries: SqlColumn | None = None, *, in_order: bool = False, facts: CountedRows,
        branches: Sequence[BranchTable],
    ) -> None:  # fmt: skip
        super().__init__(session, features, columns, roles, queries, in_order=in_order)
        self._facts = facts
        self._branches = tuple(branches)
        apart = {number for branch in branches for number in branch.features}
        self._own = [number for number in range(len(self.features)) if number not in apart]
        self._dimensions: list[StarDimension] = []
        self._of_feature: dict[int, StarDimension] = {}
        self._sums: str | None = None

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

    def store_bins(self, bins: Sequence[Bins]) -> str:
        """See `DuckDBEngine.store_bins`: the facts get their own codes, and of each dimension the key or all codes."""
        session, more, joins = self.session, dict[str, str](), list[str]()
        for i, branch in enumerate(self._branches):
            codes = store_bins(
                session, [bins[f] for f in branch.features], [self.columns[f] for f in branch.features],
                {"row_id": "source.row_id"}, in_order=False, table=branch.table, numbers=branch.features,
            )  # fmt: skip
            session.drop(branch.table)
            dimension = StarDimension.of_codes(session, f"key_{i}", codes, branch.features, self.n_rows)
            joins.append(f"LEFT JOIN {dimension.read_by_row} AS branch_{i} ON branch_{i}.row_id = source.{branch.row}")
            more |= {name: f"branch_{i}.{name}" for name in dimension.columns}
            self._dimensions.append(dimension)
            self._of_feature |= dict.fromkeys(branch.features, dimension)
        facts = session.source
        stored = store_bins(
            session, [bins[f] for f in self._own], [self.columns[f] for f in self._own], more | self.roles,
            in_order=self.in_source_order, more_joins=joins, numbers=self._own,
        )  # fmt: skip
        for table in [facts, *(each.table for each in self._dimensions if not each.has_keys)]:
            session.drop(table)
        self._dimensions = [each for each in self._dimensions if each.has_keys]
        return stored

    # --- once a tree --------------------------------------------------------------------------------------------------

    def goes_left(self, split: Split) -> str:
        """See `DuckDBEngine.goes_left`; a split on an attribute whose codes the facts lack has a bit for each key."""
        dimension = self._of_feature.get(split.feature)
        if dimension is None or dimension.has_codes:
            return super().goes_left(split)
        return dimension.goes_left(split, self.layout.bins[split.feature].missing)

    def histograms(self, nodes: Sequence[int], out: FloatArray, places: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        first, everywhere = self.nodes.settle(nodes), self.nodes.is_root
        rows = " POSITIONAL JOIN ".join([self.bins, self.pair.table, *self.nodes.tables])
        totals = np.array([(self._stats[node].G, self._stats[node].H) for node in nodes])
        shares = totals[:, 1] / max(self._stats[0].H, 1e-300)
        by_key = [each for each in self._dimensions if each.sums_by_key(self.n_rows * shares)]
        apart = {number for each in by_key for number in each.features}
        stored = [number for number in range(len(self.features)) if number not in apart]
        if stored:
            query = HistogramQuery(
                self.session, self._layout_of(stored), rows, self.pair.g, self.pair.h,
                columns=[f"bin_{number}" for number in stored],
            )  # fmt: skip
            out[np.ix_(places, self._slots_of(stored))] = query.run(len(nodes), totals, first, everywhere=everywhere)
        if by_key:
            self._sum_by_key(by_key, rows, first, len(nodes), everywhere=everywhere)
        for number, dimension in enumerate(by_key):
            read = render(
                "read_keys", sums=self._sums, dimension=number, keys=dimension.table, n_keys=dimension.n_keys,
                first=first, columns=", ".join(f"keys.bin_{f}" for f in dimension.features),
            )  # fmt: skip
            query = HistogramQuery(
                self.session, self._layout_of(dimension.features), f"({read})", "g", "h",
                columns=[f"bin_{f}" for f in dimension.features],
            )  # fmt: skip
            found = query.run(len(nodes), totals, first, everywhere=everywhere)
            out[np.ix_(places, self._slots_of(dimension.features))] = found

    def _sum_by_key(
        self, dimensions: Sequence[StarDimension], rows: str, first: int, n_nodes: int, *, everywhere: bool
    ) -> None:
        """Store the sums by node and key of some dimensions."""
        strides = np.array([dimension.n_keys for dimension in dimensions])
        query = HistogramQuery(
            self.session, self.layout, rows, self.pair.g, self.pair.h, columns=[each.column for each in dimensions]
        )
        self._sums = self._sums or self.session.table("sums")
        statement = query.statement([[i] for i in range(len(strides))], first, n_nodes, strides, everywhere=everywhere)
        self.session.run(render("sum_by_key", sums=self._sums, histograms=statement))

    def _layout_of(self, features: Sequence[int]) -> SlotLayout:
        return SlotLayout([self.layout.bins[number] for number in features])

    def _slots_of(self, features: Sequence[int]) -> IntArray:
        offsets = self.layout.offsets
        return np.concatenate([np.arange(offsets[number], offsets[number + 1]) for number in features])
