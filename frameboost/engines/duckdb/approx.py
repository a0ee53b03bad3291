"""The DuckDB engine of ``tree_method="approx"``: cuts proposed for each tree or each node.

Cuts of a tree are weighted by h. Columns that fit into memory are ranked once, and cuts are computed from h summed by
rank (`RankedColumns`). Otherwise h is summed by fine bins, which are fixed during the fit, and only rows of fine bins
that may contain a cut are grouped by value (`_weighted_cuts`). Cuts in each node take one statement per feature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import (
    Bins,
    NodeBins,
    SlotLayout,
    codes_by_rank,
    collect_bins,
    cut_positions,
    gaps_at,
    weighted_cuts_of,
)
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import (
    NUMBERS,
    SqlColumn,
    Values,
    bins_between,
    from_database,
    read_categories,
    sample_columns,
    store_codes,
    store_columns,
)
from frameboost.engines.duckdb.engine import HistogramQuery
from frameboost.engines.duckdb.memory import BYTES_PER_CODE, BYTES_PER_ROW, DuckDBMemoryEngine
from frameboost.expressions.duckdb_sql import literal, physical_sql, render
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray, IntArray, Split

if TYPE_CHECKING:
    from frameboost.binning.arrays import Codes
    from frameboost.engines.memory.columns import BinnedColumns

__all__ = ["DuckDBApproxEngine", "RankedColumns", "undecided_bins"]

# As many keys as a perfect hash table has (see `frameboost.engines.duckdb.engine`), and one for missing values.
FINE_BINS = 4000
# A rank, and at most one distinct value for each row.
_BYTES_PER_RANK = 4 + 8


class DuckDBApproxEngine(DuckDBMemoryEngine):
    """`RebinningEngine` and `NodeBinningEngine` over a DuckDB relation, and their engine of held-out rows.

    Its table of rows has values instead of codes, ``value_0``, ``value_1``, ..., but codes for categorical features,
    such as ``bin_2``. Numeric splits compare values with a threshold. If they fit, the ranks of the values are in
    memory, and so are codes, nodes, g and h of a tree with bins proposed for it.
    """

    _fine: list[Bins]  # bins of all features, many and fine
    _fine_codes: str | None = None  # the table of their codes
    _highest: dict[int, list[float]]  # the highest value of each, of features of floats
    _ranked: RankedColumns | None = None
    _binned: BinnedColumns | None = None  # the codes of a tree

    def load_columns(self) -> list[Bins]:
        """See `RebinningEngine.load_columns`."""
        bins = [
            read_categories(self.session, feature, column, missing=n > 0)
            if column.type.is_categorical
            else Bins(feature, has_missing=n > 0)
            for feature, column, n in zip(self.features, self.columns, self.count_missing(), strict=True)
        ]
        self.keep_columns(bins)
        n_bytes = _BYTES_PER_RANK + BYTES_PER_CODE
        self.holds_codes = self.may_be_in_memory(BYTES_PER_ROW + n_bytes * len(bins))
        return bins

    def keep_columns(self, bins: Sequence[Bins]) -> None:
        """Store the columns; of the training ``bins``, only the categories are used."""
        self._unbinned = list(bins)
        self.layout = SlotLayout(bins)
        self._bins = store_columns(self.session, bins, self.columns, self.roles, in_order=self.in_source_order)

    def rebin(self, max_bin: int) -> list[Bins]:
        """See `RebinningEngine.rebin`."""
        return self._rebin_in_memory(max_bin) if self.holds_codes else self._rebin_by_fine_bins(max_bin)

    def _rebin_in_memory(self, max_bin: int) -> list[Bins]:
        """Propose cuts from sums of h by rank; ranks are fixed during the fit."""
        from frameboost.engines.memory.columns import BinnedColumns

        if self._ranked is None:
            self._ranked = RankedColumns(
                self.session, self.bins, self.columns, self._unbinned, self.n_rows, self._workers
            )
        h = np.ascontiguousarray(self.row_gh.of(self.gh)[:, 1])
        positions = self._ranked.positions(h, max_bin)
        bins = self._ranked.bins(positions)
        self.layout = SlotLayout(bins)
        self._binned = BinnedColumns(bins, self.n_rows, room=self._binned)
        self._binned.fill(self._ranked.coder(positions), self._workers)
        self.hold_nodes(self._binned)
        return bins

    def _rebin_by_fine_bins(self, max_bin: int) -> list[Bins]:
        """Propose cuts from sums of h by fine bins, which are fixed during the fit, and by value near the cuts."""
        numbers = [i for i, b in enumerate(self._unbinned) if not b.feature.type.is_categorical]
        if self._fine_codes is None:
            samples = sample_columns(self.session, self.columns, FINE_BINS)
            self._fine = [
                _fine_bins(b, column, sample, FINE_BINS) if i in numbers else b
                for i, (b, column, sample) in enumerate(zip(self._unbinned, self.columns, samples, strict=True))
            ]
            self._fine_codes = store_codes(self.session, self._fine, self.columns, self.bins)
            floats = [i for i in numbers if self.columns[i].type.is_float]
            self._highest = {i: self._highest_values(i) for i in floats}
        layout = SlotLayout(self._fine)
        rows = f"{self._fine_codes} POSITIONAL JOIN {self.gh.table}"
        query = HistogramQuery(self.session, layout, rows, self.gh.numbers)
        ((_, h),) = query.run(1, None, 0, is_root=True).transpose(0, 2, 1)
        weighted = _weighted_cuts(
            self.session, dict(enumerate(self.columns)), {i: self._fine[i] for i in numbers},
            {i: h[layout.offsets[i] :][: self._fine[i].count] for i in numbers},
            max_bin, rows=f"{self.bins} POSITIONAL JOIN {rows}", h=self.gh.h, highest=self._highest,
        )  # fmt: skip
        bins = [weighted.get(i, b) for i, b in enumerate(self._unbinned)]
        self.layout = SlotLayout(bins)
        if self._codes is not None:
            self.session.drop(self._codes)
        self._codes = store_codes(self.session, bins, self.columns, self.bins)
        return bins

    def _highest_values(self, feature: int) -> list[float]:
        """Return the highest value of each fine bin of a float feature."""
        rows = f"{self.bins} POSITIONAL JOIN {self._fine_codes}"
        bin_, value = f"bin_{feature}", f"value_{feature}"
        statement = f"SELECT {bin_} AS bin, MAX({value}) AS highest FROM {rows} WHERE {value} IS NOT NULL GROUP BY 1"
        by_bin = dict(self.session.rows(statement))
        return [float(by_bin.get(number, np.nan)) for number in range(self._fine[feature].count)]

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`; nodes of a tree with other bins, as with dropout, are in a table."""
        self._nodes_in_memory = None
        super().reset_nodes()

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """See `NodeBinningEngine.node_bins`: one statement per feature, since columns differ in type."""
        table, g, h = self.gh
        self.row_nodes.settle(nodes)
        numbered, node_of = self.nodes.table()
        numbers = ", ".join(str(number) for number, node in node_of.items() if node in nodes)
        proposed = []
        for i, (b, column) in enumerate(zip(self._unbinned, self.columns, strict=True)):
            # Every category is a bin, and so is the code of missing values.
            is_categorical = column.type.is_categorical
            statement = render(
                "node_bins", bins=self._bins, gradients=table, g=g, h=h, nodes=numbered, open_nodes=numbers,
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
                    n_rows,
                )
                for number, *ends, G, H, n_rows in self.session.rows(statement)
            )
            proposed.append(collect_bins(b, nodes, entries))
        return proposed

    def goes_left(self, split: Split) -> str:
        """See `DuckDBEngine.goes_left`."""
        if split.categories is not None:
            return super().goes_left(split)
        value = f"value_{split.feature}"
        if split.threshold is None:
            return f"{value} IS NOT NULL"
        below = f"{value} < {literal(self.columns[split.feature].type, split.threshold)}"
        return f"{below} OR {value} IS NULL" if split.missing_left else below


# --- columns as ranks in memory ---------------------------------------------------------------------------------------


class RankedColumns:
    """The ranks of all columns of a table made by `frameboost.engines.duckdb.binning.store_columns`.

    Each column is ranked once, by the database if its values are not numbers. For each tree, h is summed by rank,
    prefix sums of h yield the cuts, and a table of rank -> code yields every row's code. Example: the column 7, NULL,
    5, 7 has the distinct values 5 and 7, and the ranks 1, 2, 0, 1. If 7 is a cut, the codes of ranks 0, 1 and 2 are 0,
    1 and 2.

    Parameters
    ----------
    session, table, columns
        Where they are.
    bins
        The bins of the features, without cuts. The codes of categorical features are ranks already.
    n_rows
        The number of rows.
    workers
        The threads.
    """

    def __init__(
        self, session: DuckDBSession, table: str, columns: Sequence[SqlColumn], bins: Sequence[Bins], n_rows: int,
        workers: Workers,
    ) -> None:  # fmt: skip
        self._session = session
        self._table = table
        self._columns = columns
        self._bins = bins
        self._workers = workers
        self._ranks = np.empty((len(bins), n_rows), np.uint32)
        numbers = [i for i, column in enumerate(columns) if column.type.name in NUMBERS]
        read = [session.columns(f"SELECT value_{i} AS value FROM {table}")["value"] for i in numbers]
        ranked = self._workers.each(range(len(numbers)), lambda k: self._rank_in_memory(numbers[k], read[k]))
        by_feature = dict(zip(numbers, ranked, strict=True))
        self._distinct = [by_feature[i] if i in by_feature else self._rank_in_database(i) for i in range(len(bins))]

    def _rank_in_memory(self, feature: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rank a numeric column, in a quarter of the database's time; return the distinct values.

        An array with missing values is masked.
        """
        distinct, ranks = np.unique(np.ma.compressed(values), return_inverse=True)
        self._ranks[feature] = len(distinct)
        self._ranks[feature][~np.ma.getmaskarray(values)] = ranks
        return distinct

    def _rank_in_database(self, feature: int) -> npt.NDArray[Any]:
        """Rank a column in the database; return the distinct values. Codes of categories are ranks already."""
        kind, value = self._columns[feature].type, f"value_{feature}"
        is_categorical = kind.is_categorical
        rank = f"bin_{feature}" if is_categorical else f"DENSE_RANK() OVER (ORDER BY {value} ASC NULLS LAST) - 1"
        ranks = self._session.columns(render("rank_values", rank=rank, bins=self._table))
        self._ranks[feature, ranks["position"]] = ranks["rank"]
        if is_categorical:
            return np.empty(self._bins[feature].count)
        statement = render("distinct_values", value=value, physical=physical_sql(kind, value), bins=self._table)
        return np.asarray(self._session.columns(statement)["value"])

    def positions(self, h: FloatArray, max_bin: int) -> list[IntArray]:
        """Return the ranks of each feature's cuts, from h of each row; none for categorical features."""

        def propose(feature: int) -> IntArray:
            bins, n_distinct = self._bins[feature], len(self._distinct[feature])
            if bins.feature.type.is_categorical:
                return np.empty(0, np.int64)
            by_rank = np.bincount(self._ranks[feature], h, n_distinct + 1)[:-1]
            return weighted_cuts_of(by_rank, max_bin - bins.has_missing)

        return self._workers.each(range(len(self._bins)), propose)

    def bins(self, positions: Sequence[IntArray]) -> list[Bins]:
        """Return the bins, from the ranks of the cuts."""
        return [
            bins_between(b.feature, column.type, *gaps_at(distinct, at).tolist(), missing=b.has_missing)
            for b, column, distinct, at in zip(self._bins, self._columns, self._distinct, positions, strict=True)
        ]

    def coder(self, positions: Sequence[IntArray]) -> Callable[[int, Bins, Codes], None]:
        """Return a function that writes the codes of a feature in all rows, from its index and bins."""

        def write(feature: int, bins: Bins, codes: Codes) -> None:
            by_rank = self._codes(feature, bins, positions[feature]).astype(codes.dtype, copy=False)
            np.take(by_rank, self._ranks[feature], out=codes, mode="clip")

        return write

    def _codes(self, feature: int, bins: Bins, at: IntArray) -> npt.NDArray[np.unsignedinteger]:
        """Return the code of each rank."""
        if bins.feature.type.is_categorical:
            return np.arange(bins.missing + 1, dtype=np.uint64)
        return codes_by_rank(at, len(self._distinct[feature]), bins.missing)


# --- cuts from sums of h by fine bins ---------------------------------------------------------------------------------


def _fine_bins(bins: Bins, column: SqlColumn, sample: Values, max_bin: int) -> Bins:
    """Return the fine bins of a numeric feature, of about equally many rows; each but the first starts at a value.

    ``sample`` has values of some rows. Fine bins determine where cuts are searched, and do not change them.
    """
    if sample.dtype == object:  # texts have another order
        sample = np.array([from_database(column.type, text) for text in sample], dtype=object)
    values, counts = np.unique(sample, return_counts=True)
    at = cut_positions(np.cumsum(counts) - counts, len(sample), max_bin - bins.has_missing)
    return replace(bins, cuts=tuple(from_database(column.type, cut) for cut in values[at].tolist()))


def _weighted_cuts(
    session: DuckDBSession, columns: Mapping[int, SqlColumn], fine: Mapping[int, Bins], sums: Mapping[int, FloatArray],
    max_bin: int, *, rows: str, h: str, highest: Mapping[int, Sequence[float]],
) -> dict[int, Bins]:  # fmt: skip
    """Return the bins of numeric features, by index, with the cuts of `weighted_cuts_of` over all values.

    Example: the h of a column's fine bins are 1, 4, 1, 2, and two bins are to be proposed. The fine bins start at 0, 1,
    5 and 6 of 8. The part of a value is floor(2 * start / 8): 0, 0, 1, 1. The second bin starts at a value of the
    second fine bin, where parts change from 0 to 1, or at the first value of the third: only the rows of the second
    fine bin are grouped by value.

    ``rows`` are the tables of values, fine bins and ``h``, joined by position; ``sums`` has h by fine bin. ``highest``
    has the highest value of each fine bin of float features.
    """
    most = {i: max_bin - b.has_missing for i, b in fine.items()}
    undecided = {i: undecided_bins(sums[i], most[i]) for i in fine}
    values = {i: _ValuesOfBins.empty() for i in fine}
    for kind in dict.fromkeys(columns[i].type for i in fine):  # a statement for each type, which a column of it has
        features = [i for i in fine if columns[i].type == kind and len(undecided[i])]
        if features:
            values |= _read(session, columns, fine, {i: undecided[i] for i in features}, rows, h)
    return {
        i: _bins(b, sums[i], undecided[i], values[i], most[i], columns[i], highest.get(i, ())) for i, b in fine.items()
    }


def undecided_bins(sums: FloatArray, max_bin: int) -> npt.NDArray[np.int64]:
    """Return the fine bins with values of several parts, from h by fine bin; all of them if each value is a part.

    >>> undecided_bins(np.array([1.0, 4.0, 1.0, 2.0]), 2).tolist()
    [1, 3]
    """
    ends = np.cumsum(sums)
    total = ends[-1]
    if len(sums) <= max_bin:
        return np.arange(len(sums))
    if not total > 0.0:
        return np.empty(0, dtype=np.int64)
    part = np.floor(np.append(0.0, ends) * float(max_bin) / total)
    return np.flatnonzero(np.diff(part))


@dataclass(frozen=True, slots=True)
class _ValuesOfBins:
    """The distinct values in some fine bins of a feature, ascending: for each its bin, its h, and the value."""

    bins: npt.NDArray[np.int64]
    h: FloatArray
    value_at: Callable[[int], object]

    @classmethod
    def empty(cls) -> _ValuesOfBins:
        return cls(np.empty(0, dtype=np.int64), np.empty(0), lambda _: None)


def _read(
    session: DuckDBSession, columns: Mapping[int, SqlColumn], fine: Mapping[int, Bins],
    undecided: Mapping[int, npt.NDArray[np.int64]], rows: str, h: str,
) -> dict[int, _ValuesOfBins]:  # fmt: skip
    """Return the values in the undecided bins of features with one type."""
    statement = "\nUNION ALL\n".join(
        render(
            "sum_by_value", feature=i, bins=_bit_string(numbers, fine[i].largest_code + 1), rows=rows, h=h,
            physical=physical_sql(columns[i].type, "value"),
        )
        for i, numbers in undecided.items()
    )  # fmt: skip
    table = session.columns(statement)
    order = np.lexsort((table["place"], table["feature"]))
    features, values = table["feature"][order], table["value"][order]
    read = {}
    for i in undecided:
        of_feature = slice(*np.searchsorted(features, [i, i + 1]).tolist())
        at = order[of_feature]
        read[i] = _ValuesOfBins(table["bin"][at].astype(np.int64), table["h"][at], values[of_feature].__getitem__)
    return read


def _bit_string(numbers: Sequence[int] | npt.NDArray[np.int64], size: int) -> str:
    bits = np.full(size, ord("0"), dtype=np.uint8)
    bits[numbers] = ord("1")
    return bits.tobytes().decode()


def _bins(
    fine: Bins, sums: FloatArray, undecided: npt.NDArray[np.int64], values: _ValuesOfBins, max_bin: int,
    column: SqlColumn, highest: Sequence[float],
) -> Bins:  # fmt: skip
    """Return the bins, from the values in undecided fine bins; in others only the lowest value can be a cut."""
    whole = np.setdiff1d(np.arange(len(sums)), undecided)
    bins = np.concatenate([values.bins, whole])
    order = np.argsort(bins, kind="stable")
    weights = np.concatenate([values.h, sums[whole]])[order]
    at = weighted_cuts_of(weights, max_bin)
    n_values = len(values.bins)

    def value(index: int, of_bin: Callable[[int], Physical]) -> Physical:
        return from_database(column.type, values.value_at(index)) if index < n_values else of_bin(int(bins[index]))

    cuts = tuple([value(index, lambda bin_: fine.cuts[bin_ - 1]) for index in order[at].tolist()])
    before = order[at - 1].tolist() if column.type.is_float else []
    return replace(fine, cuts=cuts, below=tuple([value(index, highest.__getitem__) for index in before]))
