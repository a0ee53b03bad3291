"""The engine inside a database whose cuts are proposed anew: for each tree, or in each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.node_bins import NodeBins, collect_bins
from frameboost.engines.duckdb.binning import from_database, read_categories, store_codes, store_columns
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.duckdb.widths import narrow_roles
from frameboost.expressions.duckdb_sql import literal, physical_sql
from frameboost.expressions.sql_files import render
from frameboost.splits.split import Split

__all__ = ["DuckDBApproxEngine"]


class DuckDBApproxEngine(DuckDBEngine):
    """`RebinningEngine` and `NodeBinningEngine` over a DuckDB relation; rows that follow are of this kind too.

    Where `DuckDBEngine` has a table of bins, this one has the columns themselves: ``value_0``, ``value_1``, ..., or,
    for a categorical feature, its codes as ``bin_2``. Splits are by threshold.
    """

    def load_columns(self) -> list[Bins]:
        """See `RebinningEngine.load_columns`."""
        bins = [
            read_categories(self.session, feature, column, missing=n > 0)
            if column.type.is_categorical
            else Bins(feature, has_missing=n > 0)
            for feature, column, n in zip(self.features, self.columns, self.count_missing(), strict=True)
        ]
        self.keep_columns(bins)
        return bins

    def keep_columns(self, bins: Sequence[Bins]) -> None:
        """Store the columns; ``bins`` are those of training, of which only the categories count."""
        self._unbinned = list(bins)
        self.layout = SlotLayout(bins)
        self._read_settings()
        roles = narrow_roles(self.session, self._roles, self._role_columns)
        self._bins = store_columns(self.session, bins, self.columns, roles, in_order=self._in_source_order)

    def rebin(self, max_bin: int) -> list[Bins]:
        """See `RebinningEngine.rebin`."""
        bins = [
            b if b.feature.type.is_categorical else replace(b, cuts=self._cuts(i, max_bin - b.has_missing))
            for i, b in enumerate(self._unbinned)
        ]
        self.layout = SlotLayout(bins)
        if self._codes is not None:
            self.session.drop(self._codes)
        self._codes = store_codes(self.session, bins, self.columns, str(self._bins))
        return bins

    def _cuts(self, feature: int, max_bin: int) -> tuple[float | int | str, ...]:
        table, _, h = self._pair
        kind = self.columns[feature].type
        statement = render(
            "propose_weighted_cuts", bins=self._bins, gradients=table, h=h, value=f"value_{feature}", max_bin=max_bin,
            physical=physical_sql(kind, "value"),
        )  # fmt: skip
        return tuple(from_database(kind, cut) for (cut,) in self.session.run(statement))

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """See `NodeBinningEngine.node_bins`: a statement a feature, since columns differ in type."""
        table, g, h = self._pair
        self._row_nodes.settle(nodes)
        numbered, node_of = self._row_nodes.table()
        wanted = ", ".join(str(number) for number, node in node_of.items() if node in nodes)
        found = []
        for i, (b, column) in enumerate(zip(self._unbinned, self.columns, strict=True)):
            # Each category is a bin, the code of missing included.
            is_categorical = column.type.is_categorical
            statement = render(
                "node_bins", bins=self._bins, gradients=table, g=g, h=h, nodes=numbered, open_nodes=wanted,
                value=f"bin_{i}" if is_categorical else f"value_{i}",
                max_bin=b.count + 1 if is_categorical else max_bin - b.has_missing,
                physical="start" if is_categorical else physical_sql(column.type, "start"),
            )  # fmt: skip
            rows = self.session.run(statement)
            entries = (
                (node_of[number], start if is_categorical or start is None else from_database(column.type, start), G, H)
                for number, start, G, H in rows
            )
            found.append(collect_bins(b, nodes, entries))
        return found

    def goes_left(self, split: Split) -> str:
        """See `DuckDBEngine.goes_left`."""
        if split.categories is not None:
            return super().goes_left(split)
        value = f"value_{split.feature}"
        if split.threshold is None:
            return f"{value} IS NOT NULL"
        below = f"{value} < {literal(self.columns[split.feature].type, split.threshold)}"
        return f"{below} OR {value} IS NULL" if split.missing_left else below
