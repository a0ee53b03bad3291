"""The DuckDB engine of ``tree_method="approx"``: cuts are proposed for each tree, or in each node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frameboost.binning.bins import Bins, NodeBins, SlotLayout, collect_bins
from frameboost.engines.duckdb.binning import from_database, read_categories, sample_columns
from frameboost.engines.duckdb.codes import store_codes, store_columns
from frameboost.engines.duckdb.histograms import HistogramQuery
from frameboost.engines.duckdb.records.engine import DuckDBRecordEngine
from frameboost.engines.duckdb.records.layout import Records
from frameboost.engines.duckdb.records.nodes import BYTES_PER_ROW, BYTES_PER_WORD
from frameboost.engines.duckdb.records.ranks import BYTES_PER_RANK, RankedColumns
from frameboost.engines.duckdb.records.words import HeldWords
from frameboost.engines.duckdb.weighted_cuts import FINE_BINS, fine_bins, weighted_cuts
from frameboost.expressions.duckdb_sql import literal, physical_sql, render
from frameboost.splits.split import Split

__all__ = ["DuckDBApproxEngine"]


class DuckDBApproxEngine(DuckDBRecordEngine):
    """`RebinningEngine` and `NodeBinningEngine` over a DuckDB relation, and the engine of held-out rows for both.

    Its table of rows has values in place of codes, ``value_0``, ``value_1``, ..., except for a categorical feature,
    whose codes are ``bin_2``. Numeric splits compare values with a threshold. Where they fit, the ranks of the values
    are in memory, and the codes, nodes and pairs of a tree whose bins are proposed with it.
    """

    _fine: list[Bins]  # bins of all features, many and fine
    _fine_codes: str | None = None  # the table of their codes
    _highest: dict[int, list[float]]  # the highest value of each, of features of floats
    _ranked: RankedColumns | None = None

    def load_columns(self) -> list[Bins]:
        """See `RebinningEngine.load_columns`."""
        bins = [
            read_categories(self.session, feature, column, missing=n > 0)
            if column.type.is_categorical
            else Bins(feature, has_missing=n > 0)
            for feature, column, n in zip(self.features, self.columns, self.count_missing(), strict=True)
        ]
        self.keep_columns(bins)
        n_bytes = BYTES_PER_RANK + BYTES_PER_WORD  # a word has at least one code
        self._is_in_memory = self.may_be_in_memory(BYTES_PER_ROW + n_bytes * len(bins))
        return bins

    def keep_columns(self, bins: Sequence[Bins]) -> None:
        """Store the columns; of ``bins``, those of training, only the categories are used."""
        self._unbinned = list(bins)
        self.layout = SlotLayout(bins)
        self._bins = store_columns(self.session, bins, self.columns, self.roles, in_order=self.in_source_order)

    def rebin(self, max_bin: int) -> list[Bins]:
        """See `RebinningEngine.rebin`."""
        return self._rebin_in_memory(max_bin) if self._is_in_memory else self._rebin_by_fine_bins(max_bin)

    def _rebin_in_memory(self, max_bin: int) -> list[Bins]:
        """Do so from sums of h by rank: ranks last the fit."""
        if self._ranked is None:
            self._ranked = RankedColumns(
                self.session, self.bins, self.columns, self._unbinned, self.n_rows, self._workers
            )
        _, h = self.row_gh.of(self.gh)
        positions = self._ranked.positions(h, max_bin)
        bins = self._ranked.bins(positions)
        self.layout = SlotLayout(bins)
        records = Records({f"bin_{i}": each.largest_code for i, each in enumerate(bins)})
        self.hold_nodes(records, HeldWords(self._ranked.words(records, bins, positions)))
        return bins

    def _rebin_by_fine_bins(self, max_bin: int) -> list[Bins]:
        """Do so from sums of h by fine bins, which last the fit, and near the cuts by value."""
        numbers = [i for i, b in enumerate(self._unbinned) if not b.feature.type.is_categorical]
        if self._fine_codes is None:
            samples = sample_columns(self.session, self.columns, FINE_BINS)
            self._fine = [
                fine_bins(b, column, sample, FINE_BINS) if i in numbers else b
                for i, (b, column, sample) in enumerate(zip(self._unbinned, self.columns, samples, strict=True))
            ]
            self._fine_codes = store_codes(self.session, self._fine, self.columns, self.bins)
            floats = [i for i in numbers if self.columns[i].type.is_float]
            self._highest = {i: self._highest_values(i) for i in floats}
        layout = SlotLayout(self._fine)
        rows = f"{self._fine_codes} POSITIONAL JOIN {self.gh.table}"
        query = HistogramQuery(self.session, layout, rows, self.gh.numbers)
        ((_, h),) = query.run(1, None, 0, everywhere=True).transpose(0, 2, 1)
        found = weighted_cuts(
            self.session, dict(enumerate(self.columns)), {i: self._fine[i] for i in numbers},
            {i: h[layout.offsets[i] :][: self._fine[i].count] for i in numbers},
            max_bin, rows=f"{self.bins} POSITIONAL JOIN {rows}", h=self.gh.h, highest=self._highest,
        )  # fmt: skip
        bins = [found.get(i, b) for i, b in enumerate(self._unbinned)]
        self.layout = SlotLayout(bins)
        if self._codes is not None:
            self.session.drop(self._codes)
        self._codes = store_codes(self.session, bins, self.columns, self.bins)
        return bins

    def _highest_values(self, feature: int) -> list[float]:
        """Return the highest value of each fine bin of a feature of floats."""
        rows = f"{self.bins} POSITIONAL JOIN {self._fine_codes}"
        bin_, value = f"bin_{feature}", f"value_{feature}"
        statement = f"SELECT {bin_} AS bin, MAX({value}) AS highest FROM {rows} WHERE {value} IS NOT NULL GROUP BY 1"
        by_bin = dict(self.session.rows(statement))
        return [float(by_bin.get(number, np.nan)) for number in range(self._fine[feature].count)]

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`; rows that follow a tree of other bins, as by dropout, are in a table."""
        self._record_nodes = None
        super().reset_nodes()

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """See `NodeBinningEngine.node_bins`: one statement per feature, since columns differ in type."""
        table, g, h = self.gh
        self.row_nodes.settle(nodes)
        numbered, node_of = self.nodes.table()
        wanted = ", ".join(str(number) for number, node in node_of.items() if node in nodes)
        found = []
        for i, (b, column) in enumerate(zip(self._unbinned, self.columns, strict=True)):
            # Every category is a bin of its own, and so is the code of missing.
            is_categorical = column.type.is_categorical
            statement = render(
                "node_bins", bins=self._bins, gradients=table, g=g, h=h, nodes=numbered, open_nodes=wanted,
                value=f"bin_{i}" if is_categorical else f"value_{i}",
                max_bin=b.count + 1 if is_categorical else max_bin - b.has_missing,
                physical="start" if is_categorical else physical_sql(column.type, "start"),
                highest="stop" if is_categorical else physical_sql(column.type, "stop"),
            )  # fmt: skip
            entries = (
                (
                    node_of[number],
                    *(end if is_categorical or end is None else from_database(column.type, end) for end in ends),
                    G,
                    H,
                )
                for number, *ends, G, H in self.session.rows(statement)
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
