"""Binning in a database: cuts and categories of columns, and a table of the codes of every row.

Cuts of a column (`propose_bins`) are computed in the fastest way for its values: from counts by cells and the values
near the cuts, from a window function that ranks all rows, or from counts of distinct values. Codes (`store_bins`) are
computed by a binary search in SQL that starts at the cell of the value (`Cells`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins, cut_positions, sample_condition
from frameboost.binning.codes import ValueCounts, count_distinct
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.expressions.draws import RowPositions
from frameboost.expressions.duckdb_sql import (
    EXACT_TEXT,
    is_missing,
    is_present,
    literal,
    physical_sql,
    render,
    string_literal,
)
from frameboost.expressions.expression import float_literal
from frameboost.schema.types import Feature, FeatureType, Physical

__all__ = [
    "MAX_AT_ONCE", "MIN_ROWS", "NUMBERS", "Cells", "CountedRows", "SqlColumn", "Values", "batches_of", "bins_between",
    "count_values", "from_database", "propose_bins", "read_categories", "sample_columns", "store_bins", "store_codes",
    "store_columns",
]  # fmt: skip

# Some values of a column, ascending.
Values = npt.NDArray[Any]
Item = TypeVar("Item")

# Features that a statement counts, copies or codes at once: the memory and the time that its plan takes grow with the
# product of its steps and its columns.
MAX_AT_ONCE = 64
# Rows to sample, at least, and for each bin.
_MIN_SAMPLED, _SAMPLED_PER_BIN = 2048, 4
# Types whose values become the same number as DOUBLE in a database and as float64 here.
NUMBERS = ("float32", "float64", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)))
# The first character of Unicode's private use area, which few texts contain.
_FIRST_SEPARATOR = 0xE000

# Of cuts from counts by cells:
# Of fewer rows, sorting them is faster than two statements.
MIN_ROWS = 1 << 16
# The keys that a perfect hash table has room for (see `frameboost.engines.duckdb.engine`).
_CELLS = 4000
# With fewer cells for each bin, most of them would have to be read.
_MIN_CELLS_PER_BIN = 4
# The cells lie between these quantiles of the sample, so that a few large values leave no wide cells. What is beyond
# belongs to the first and the last cell.
_TAILS = (0.01, 0.99)
# Beyond this share of the rows to read, or as many as have 128 MB, the database ranks the rows instead.
_LARGEST_SHARE, _MAX_VALUES = 0.5, 1 << 24

# Of cells from which the search for a code starts:
# Longer lists fall out of the cache.
_SIZES = (256, 512, 1024, 2048, 4096)
# Finding the cell takes as long as about two steps of the search.
_MIN_STEPS_SAVED = 3


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of the source: its quoted name, and its type in the database."""

    name: str
    type: FeatureType

    @property
    def sql(self) -> str:
        """The column as an expression over the source."""
        column = f"source.{self.name}"
        # An ENUM has its declared order, and under a collation different strings may be equal.
        return EXACT_TEXT.format(x=column) if self.type.name == "string" else column


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows that cuts and categories come from.

    Attributes
    ----------
    source
        Their table, view or query.
    n_rows
        Their number.
    sample
        The condition on ``source`` for a row to contribute to cuts.
    n
        The column with the number of rows of the data that a row stands for; one by default.
    read_again
        Whether a second read is cheap.
    """

    source: str
    n_rows: int
    sample: str = "TRUE"
    n: str | None = None
    read_again: bool = True

    @classmethod
    def of_source(cls, session: DuckDBSession, n_rows: int, positions: RowPositions | None = None) -> CountedRows:
        """Return the rows of a session's source, from the number of all rows and the positions of these among them."""
        source, condition = session.source, "TRUE"
        position = session.column("position")
        sample = cls.sample_of(n_rows, position)
        if sample is not None:
            number = (positions or RowPositions()).sql("(row_number() OVER () - 1)")
            source, condition = f"(SELECT *, {number} AS {position} FROM {source})", sample
        return cls(source, n_rows, condition, read_again=session.is_table)

    @staticmethod
    def sample_of(n_rows: int, position: str) -> str | None:
        """Return the condition for a row to contribute to cuts, from its position column; None if all rows do."""
        sample = sample_condition(n_rows)
        if sample is None:
            return None
        modulus, multiplier, bound = sample
        return f"source.{position} % {modulus} * {multiplier} % {2**32} < {bound}"

    def copied(self, session: DuckDBSession, columns: Mapping[int, SqlColumn]) -> tuple[CountedRows, list[SqlColumn]]:
        """Copy columns to a new table, as ``value_0``, ``value_1``, ...; return its rows and columns."""
        table, sampled, n = session.table("values"), "TRUE", None
        read = [f"source.{column.name} AS value_{number}" for number, column in columns.items()]
        if self.sample != "TRUE":
            sampled = "source.is_sampled"
            read.append(f"{self.sample} AS is_sampled")
        if self.n is not None:
            n = "n_rows"
            read.append(f"source.{self.n} AS {n}")
        session.run(f"CREATE TEMP TABLE {table} AS SELECT {', '.join(read)} FROM {self.source} AS source")
        named = [SqlColumn(f"value_{number}", column.type) for number, column in columns.items()]
        return CountedRows(table, self.n_rows, sampled, n), named

    def parts(self, column: SqlColumn) -> dict[str, str]:
        """Return the parts of a statement over the values of a column."""
        return {
            "source": self.source,
            "column": column.sql,
            "n": "" if self.n is None else f", source.{self.n} AS n",
            "is_present": is_present(column.type, column.sql),
            "sample": self.sample,
            "physical": physical_sql(column.type, "value"),
            "highest": physical_sql(column.type, "highest"),
            "count": "COUNT(*)" if self.n is None else "CAST(SUM(n) AS BIGINT)",
            "values": "value" if self.n is None else "value, n",
        }


def batches_of(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Split a sequence into parts of at most `MAX_AT_ONCE`; an empty one has no parts."""
    return [items[start : start + MAX_AT_ONCE] for start in range(0, len(items), MAX_AT_ONCE)]


# --- cuts and categories ----------------------------------------------------------------------------------------------


def propose_bins(
    session: DuckDBSession, rows: CountedRows, feature: Feature, column: SqlColumn, max_bin: int, *, missing: bool,
    sample: Values,
) -> Bins:  # fmt: skip
    """Return the bins of one column: its categories, or cuts as by `frameboost.binning.bins.cut_positions`.

    ``sample`` has some of its values, ascending. If it has more than ``max_bin`` distinct values, rows are counted by
    cells and values are read near the cuts, or all rows are ranked by a window function. Otherwise values are counted
    first, which is slower if most values are distinct.
    """
    if column.type.is_categorical:
        return read_categories(session, feature, column, missing=missing, source=rows.source)
    most = max_bin - missing
    parts = {**rows.parts(column), "max_bin": most}
    is_diverse = len(np.unique(sample)) > most
    if is_diverse and rows.n_rows >= MIN_ROWS and rows.read_again:
        gaps = _cell_cuts(session, column.type, sample, most, parts)
        if gaps is not None:
            return bins_between(feature, column.type, *gaps.tolist(), missing=missing)
    ends = session.rows(render("propose_cuts_by_rank", **parts)) if is_diverse and rows.n is None else []
    if not ends or ends[-1][2] <= most:
        ends = session.rows(render("propose_cuts", **parts))
    lowest, highest = ([row[side] for row in ends] for side in (0, 1))
    return bins_between(feature, column.type, highest[:-1], lowest[1:], missing=missing)


def bins_between(
    feature: Feature, kind: FeatureType, below: Sequence[object], cuts: Sequence[object], *, missing: bool
) -> Bins:
    """Return the bins of a feature from results of `physical_sql`: the cuts, and the value before each."""
    starts, before = (tuple([from_database(kind, value) for value in values]) for values in (cuts, below))
    return Bins(feature, starts, missing, before if kind.is_float else ())


def read_categories(
    session: DuckDBSession, feature: Feature, column: SqlColumn, *, missing: bool, source: str | None = None
) -> Bins:
    """Return the bins of a categorical column, of the session's source or of another table."""
    value = column.sql if column.type.name == "string" else physical_sql(column.type, column.sql)
    rows = session.rows(render("categories", source=source or session.source, column=value))
    known = [category for (category,) in rows]
    if column.type.name != "string":
        numbers = [from_database(column.type, category) for category in known]
        known = list({number for number in numbers if number == number})  # NaN is missing, -0.0 is 0.0
    categories = tuple(sorted(known))
    return Bins(Feature(feature.name, feature.type, categories), has_missing=missing)


def from_database(kind: FeatureType, value: object) -> Physical:
    """Return the Python value of a result of `physical_sql`."""
    if kind.is_float:
        return float(value) + 0.0  # type: ignore[arg-type]  # writes -0.0 as 0.0, which is the same value
    if isinstance(value, str):  # a decimal: its digits without the point are the scaled integer
        return int(value.replace(".", ""))
    return int(value)  # type: ignore[call-overload, no-any-return]


def sample_columns(
    session: DuckDBSession, columns: Sequence[SqlColumn], max_bin: int, source: str | None = None
) -> list[Values]:
    """Return some present values of each column, ascending except for texts of decimals; none for string columns.

    The table is the session's source by default.
    """
    values = ", ".join(
        f'{_plain(column)} AS "{i}"' for i, column in enumerate(columns) if not column.type.is_categorical
    )
    if not values:
        return [np.empty(0)] * len(columns)
    n_rows = max(_MIN_SAMPLED, _SAMPLED_PER_BIN * max_bin)
    read = session.columns(render("sample_columns", source=source or session.source, values=values, n_rows=n_rows))
    return [_present(read[str(i)]) if str(i) in read else np.empty(0) for i in range(len(columns))]


def _plain(column: SqlColumn) -> str:
    return column.sql if column.type.name in NUMBERS else physical_sql(column.type, column.sql)


def _present(values: Values | np.ma.MaskedArray[Any, Any]) -> Values:
    """Return the values of a column of a result that are neither NULL nor NaN, ascending."""
    present = values.compressed() if isinstance(values, np.ma.MaskedArray) else values
    return np.sort(present[present == present])


def count_values(session: DuckDBSession, column: SqlColumn, n_rows: int, positions: RowPositions) -> ValueCounts:
    """Return `ShardEngine.count_values` of a numeric column, from the positions of its rows among all rows."""
    rows = CountedRows.of_source(session, n_rows, positions)
    read = session.columns(render("count_values", **rows.parts(column)))
    counts = read["n"].astype(np.int64)
    if column.type.is_float:
        dtype = np.float32 if column.type.name == "float32" else np.float64
        return ValueCounts(read["value"].astype(dtype) + dtype(0.0), counts)
    values = [from_database(column.type, value) for value in read["value"].tolist()]
    return ValueCounts(np.array(values, dtype=np.int64 if _fits_64_bits(values) else object), counts)


def _fits_64_bits(values: Sequence[Physical]) -> bool:
    return not values or (values[0] >= -(2**63) and values[-1] < 2**63)  # type: ignore[operator]


# --- cuts from counts by cells ----------------------------------------------------------------------------------------


def _cell_cuts(
    session: DuckDBSession,
    kind: FeatureType,
    sample: Values,
    max_bin: int,
    parts: Mapping[str, object],
) -> npt.NDArray[np.generic] | None:
    """Return the gaps at the cuts of a column (see `gaps_at`), or None if another way is necessary, or faster.

    Rows are counted by cells of equal width, then values are read near the cuts. Example: two bins for the eight values
    1, 2, 4, 5, 6, 7, 8, 9, so that the cut is the lowest of the upper four. Three cells, from 1, 4 and 7, have 2, 3 and
    3 rows. The first cell has rows 0 and 1, in the lower half, the last rows 5 to 7, in the upper half. Only the
    second, with rows 2 to 4, has rows of both halves, so its values 4, 5 and 6 are read: row 4 is the cut, 6. Sorting
    the whole column takes five times as long.

    ``sample`` has some of its values, ascending; ``parts`` are the parts of a statement over the column.
    """
    cell = _cell(kind, sample)
    if cell is None or max_bin * _MIN_CELLS_PER_BIN > _CELLS:
        return None
    cells = session.columns(render("count_cells", cell=cell, **parts))
    order = np.argsort(cells["cell"])
    number, n, lowest, highest = (np.asarray(cells[name])[order] for name in ("cell", "n", "lowest", "highest"))
    ends = np.cumsum(n, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    is_one = lowest == highest
    is_read = ~is_one & ((ends - n) * max_bin // max(total, 1) < (ends - 1) * max_bin // max(total, 1))
    if n[is_read].sum() > min(_LARGEST_SHARE * total, _MAX_VALUES):
        return None
    reads = np.zeros(_CELLS + 1, dtype=np.uint8)
    reads[number[is_read]] = 1
    bits = (reads + ord("0")).tobytes().decode()
    read = session.columns(render("values_of_cells", cell=cell, cells=bits, **parts)) if reads.any() else {"value": []}
    values, counts = count_distinct(np.asarray(read["value"], dtype=lowest.dtype), read.get("n"))
    # Rows of the other cells count as rows of its lowest value, which changes no part; below the next is the highest.
    upper = np.append(values, highest[~is_read])
    values, counts = np.append(values, lowest[~is_read]), np.append(counts, n[~is_read])
    if len(values) <= max_bin:  # too few to decide whether each value gets a bin
        return None
    order = np.argsort(values)
    counts = counts[order].astype(np.int64)
    at = cut_positions(np.cumsum(counts) - counts, total, max_bin)
    return np.stack([upper[order][at - 1], values[order][at]])


def _cell(kind: FeatureType, sample: Values) -> str | None:
    """Return the SQL of the cell index of ``value``, or None if there are no such cells.

    It is a monotone function of the value, also under floating-point rounding.
    """
    if kind.name not in NUMBERS or not len(sample):
        return None
    low, high = (float(sample[int(len(sample) * tail)]) for tail in _TAILS)
    with np.errstate(all="ignore"):
        scale = float(np.float64(_CELLS) / (np.float64(high) - np.float64(low)))
    if not 0.0 < scale < np.inf or not np.isfinite([low, high]).all():
        return None
    within = f"least(greatest(CAST(value AS DOUBLE), {float_literal(low)}), {float_literal(high)})"
    return f"CAST(({within} - {float_literal(low)}) * {float_literal(scale)} AS USMALLINT)"


# --- codes ------------------------------------------------------------------------------------------------------------


def store_bins(
    session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], roles: Mapping[str, str], *,
    in_order: bool, table: str | None = None, more_joins: Sequence[str] = (), numbers: Sequence[int] | None = None,
    sorted_by: str = "",
) -> str:  # fmt: skip
    """Store every row's bins, label, weight and other roles (name -> SQL) in a temporary table; return its name.

    Parameters
    ----------
    session, bins, columns, roles
        The columns of the session's source to store.
    in_order
        Whether to keep its order at the cost of a sort; only if rows are identified by position.
    table
        Another table to read instead.
    more_joins
        Joins to it; ``roles`` may refer to their columns.
    numbers
        The feature indices for the column names; from 0 by default.
    sorted_by
        The role to sort the rows by; unsorted by default.
    """
    numbers = range(len(bins)) if numbers is None else numbers
    if len(bins) > MAX_AT_ONCE:
        # The plan of one statement has all steps of the search for all features at once, in memory too. So there is a
        # table for each group of features, and one for the roles, which then become one.
        groups = zip(batches_of(bins), batches_of(columns), batches_of(numbers), strict=True)
        parts = [
            store_bins(session, some, its_columns, {}, in_order=True, table=table, numbers=its_numbers)
            for some, its_columns, its_numbers in groups
        ]
        if roles:
            parts.append(store_bins(session, [], [], roles, in_order=True, table=table, more_joins=more_joins))
        return _joined(session, parts, in_order=in_order, sorted_by=sorted_by)
    cells = [Cells.of(c.type, b.cuts) for b, c in zip(bins, columns, strict=True)]
    cuts = _store_cuts(session, bins, columns, cells, numbers)
    read, joins, codes = [], [], []
    for i, b, column, cell in zip(numbers, bins, columns, cells, strict=True):
        if column.type.is_categorical:
            joins.append(_category_join(session, f"category_{i}", b, column))
            read.append(f"category_{i}.code AS bin_{i}")
            missing = f"bin_{i} IS NULL"
        else:
            read += _search_start(i, column.sql, b, cell)
            missing = is_missing(column.type, f"value_{i}")
        codes.append(f"CAST(CASE WHEN {missing} THEN {b.missing} ELSE bin_{i} END AS {_code_type(b)}) AS bin_{i}")
    source, position, order = _ordered(session, table, in_order=in_order)
    read += position
    read += [f"{sql} AS {role}" for role, sql in roles.items()]
    rows = render(
        "read_columns",
        source=source,
        columns=", ".join(read),
        cuts=cuts,
        joins="\n".join([*joins, *more_joins]),
    )
    made, rows = session.table("bins"), _search(rows, bins, cells, numbers)
    session.run(
        render(
            "bin_columns",
            bins=made,
            columns=", ".join([*codes, *roles]),
            rows=rows,
            in_order=f"ORDER BY {sorted_by} ASC" if sorted_by else order,
        )
    )
    return made


def _joined(session: DuckDBSession, parts: Sequence[str], *, in_order: bool, sorted_by: str = "") -> str:
    """Store tables joined by position in one table, and drop these tables; return its name."""
    made = session.table("bins")
    keeps_order = session.setting("preserve_insertion_order")
    order = sorted_by or (f"{parts[0]}.rowid" if in_order or not keeps_order else "")
    session.run(
        render(
            "join_parts", bins=made, parts=" POSITIONAL JOIN ".join(parts),
            in_order=f"ORDER BY {order} ASC" if order else "",
        )
    )  # fmt: skip
    for part in parts:
        session.drop(part)
    return made


def _ordered(session: DuckDBSession, table: str | None, *, in_order: bool) -> tuple[str, list[str], str]:
    """Return the source, the additional columns to read from it, and the clause that keeps its order."""
    if not in_order:
        return table or session.source, [], ""
    # Rows may come out of the parallel joins with cuts and categories in another order.
    position = session.column("position")
    if table is not None or session.has_copy:
        return table or session.source, [f"source.rowid AS {position}"], f"ORDER BY {position} ASC"
    source = f"(SELECT *, row_number() OVER () AS {position} FROM {session.source})"
    return source, [f"source.{position}"], f"ORDER BY {position} ASC"


def store_columns(
    session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], roles: Mapping[str, str], *,
    in_order: bool,
) -> str:  # fmt: skip
    """Store every row's values (codes for string features), label, weight and other roles.

    Return the name of the temporary table: ``value_0``, or ``bin_0`` for a string feature, and so on, then the roles.
    ``in_order`` is as for `store_bins`.
    """
    read, joins = [], []
    for i, (b, column) in enumerate(zip(bins, columns, strict=True)):
        if column.type.is_categorical:
            joins.append(_category_join(session, f"category_{i}", b, column))
            read.append(f"CAST(COALESCE(category_{i}.code, {b.missing}) AS INTEGER) AS bin_{i}")
        else:
            read.append(f"CASE WHEN {is_present(column.type, column.sql)} THEN {column.sql} END AS value_{i}")
    source, position, order = _ordered(session, None, in_order=in_order)
    if position:
        order = f"ORDER BY {position[0].partition(' AS ')[0]} ASC"
    table = session.table("columns")
    roles_sql = ", ".join(f"{sql} AS {role}" for role, sql in roles.items())
    session.run(
        render(
            "store_columns", bins=table, source=source, columns=", ".join(read), joins="\n".join(joins),
            roles=roles_sql, in_order=order,
        )
    )  # fmt: skip
    return table


def store_codes(
    session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], stored: str, first: int = 0
) -> str:  # fmt: skip
    """Store the bin of every value of a table made by `store_columns`; return the new table's name.

    ``first`` is the index of the first feature.
    """
    if len(bins) > MAX_AT_ONCE:
        groups = enumerate(zip(batches_of(bins), batches_of(columns), strict=True))
        parts = [store_codes(session, *group, stored, first + MAX_AT_ONCE * k) for k, group in groups]
        return _joined(session, parts, in_order=False)
    numbers = range(first, first + len(bins))
    cells = [Cells.of(c.type, b.cuts) for b, c in zip(bins, columns, strict=True)]
    cuts = _store_cuts(session, bins, columns, cells, numbers)
    read, codes = [], []
    for i, b, cell in zip(numbers, bins, cells, strict=True):
        if b.feature.type.is_categorical:
            read.append(f"source.bin_{i} AS bin_{i}")
            code = f"bin_{i}"
        else:
            read += _search_start(i, f"source.value_{i}", b, cell)
            code = f"CASE WHEN value_{i} IS NULL THEN {b.missing} ELSE bin_{i} END"
        codes.append(f"CAST({code} AS {_code_type(b)}) AS bin_{i}")
    read.append("source.rowid AS position")
    rows = render("read_columns", source=stored, columns=", ".join(read), cuts=cuts, joins="")
    table = session.table("codes")
    session.run(
        render("rebin_columns", codes=table, numbers=", ".join(codes), rows=_search(rows, bins, cells, numbers))
    )
    session.drop(cuts)
    return table


def _store_cuts(
    session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], cells: Sequence[Cells | None],
    numbers: Sequence[int],
) -> str:  # fmt: skip
    """Store the cuts of all features, and the counts of their cells, as one row of lists; return the table's name."""
    table = session.table("cuts")
    lists = [f"{_list(c.type, b.cuts)} AS cuts_{i}" for i, b, c in zip(numbers, bins, columns, strict=True) if b.cuts]
    lists += [
        f"CAST('{list(c.below)}' AS INTEGER[]) AS below_{i}"
        for i, c in zip(numbers, cells, strict=True)
        if c is not None
    ]
    session.run(render("store_cuts", cuts=table, lists=", ".join(lists) or "NULL"))
    return table


def _code_type(bins: Bins) -> str:
    return "UTINYINT" if bins.largest_code <= 255 else "INTEGER"


def _list(kind: FeatureType, cuts: Sequence[Physical]) -> str:
    """Return the cuts as a list that compares exactly with the column."""
    # A text is parsed and planned in a tenth of the time that as many literals take.
    if kind.is_float:
        doubles = f"CAST('{[float(cut) for cut in kind.edges(cuts)]}' AS DOUBLE[])"
        return f"CAST({doubles} AS FLOAT[])" if kind.name == "float32" else doubles
    if kind.name in NUMBERS:
        numbers = [int(cut) for cut in cuts]
        for type_, bits in (("INTEGER", 31), ("BIGINT", 63)):
            if -(2**bits) <= min(numbers) and max(numbers) < 2**bits:
                return f"CAST('{numbers}' AS {type_}[])"
    if kind.precision_and_scale:
        precision, scale = kind.precision_and_scale
        decimals = ", ".join(f"{kind.decimal(int(cut)):f}" for cut in cuts)
        return f"CAST('[{decimals}]' AS DECIMAL({precision}, {scale})[])"
    return f"[{', '.join(literal(kind, cut) for cut in cuts)}]"


def _search_start(i: int, column: str, bins: Bins, cells: Cells | None) -> list[str]:
    """Return the columns that the search needs for feature ``i``: its value, its cuts, and the initial bin."""
    start = "CAST(0 AS BIGINT)" if cells is None else cells.start(column, f"cuts.below_{i}")
    return [f"{column} AS value_{i}, {start} AS bin_{i}", *([f"cuts.cuts_{i}"] if bins.cuts else [])]


def _search(rows: str, bins: Sequence[Bins], cells: Sequence[Cells | None], numbers: Sequence[int]) -> str:
    """Return the rows after all steps of the search; steps are powers of two, in descending order."""
    n_steps = [len(b.cuts).bit_length() if c is None else c.n_steps for b, c in zip(bins, cells, strict=True)]
    for bit in reversed(range(max(n_steps, default=0))):
        step = 1 << bit
        steps = [
            f"bin_{i} + CASE WHEN value_{i} >= cuts_{i}[bin_{i} + {step}] THEN {step} ELSE 0 END AS bin_{i}"
            for i, n in zip(numbers, n_steps, strict=True)
            if bit < n
        ]
        rows = render("search_cuts", rows=rows, steps=", ".join(steps))
    return rows


def _category_join(session: DuckDBSession, alias: str, bins: Bins, column: SqlColumn) -> str:
    """Return a join that maps a feature's categories to numbers, by a new table."""
    table, kind, categories = session.table(alias), column.type.values, bins.feature.categories
    if kind.name == "string":
        texts = list(map(str, categories))
        characters = set().union(*texts)
        separator = next(c for c in map(chr, itertools.count(_FIRST_SEPARATOR)) if c not in characters)
        # A text is parsed and planned in a tenth of the time that as many literals take.
        values = f"string_split({string_literal(separator.join(texts))}, {string_literal(separator)})"
    else:
        values = _list(kind, categories) if categories else "[]"
    session.run(
        render(
            "number_categories",
            categories=table,
            values=values,
            type=kind.duckdb_name,
            count=bins.count,
        )
    )
    return f"LEFT JOIN {table} AS {alias} ON {alias}.category = {column.sql}"


# --- where the search for a code starts -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of equal width over a column's cuts: the search for a bin starts at the value's cell.

    Example: the cuts are 1, 2, 3, 10, and the cells are 3 wide and centred on 1, 4, 7 and 10. They contain the cuts {1,
    2}, {3}, {} and {10}, so 0, 2, 3 and 3 cuts are in lower cells: the search for a value in the second cell starts at
    bin 2, with one cut to compare.

    The cell index is a monotone function of the value, also under floating-point rounding. So cuts in lower cells are
    not above the value, and cuts in higher cells are: only cuts in the value's cell remain to be compared.

    Attributes
    ----------
    kind
        The column's type.
    low, high
        Its first and last cut.
    scale
        The number of cells per unit of the column.
    below
        The number of cuts in lower cells, for each cell.
    n_steps
        The number of steps of the search within a cell: 2^(n_steps - 1), ..., 2, 1.
    """

    kind: FeatureType
    low: Physical
    high: Physical
    scale: float
    below: tuple[int, ...]
    n_steps: int

    @classmethod
    def of(cls, kind: FeatureType, cuts: Sequence[Physical]) -> Cells | None:
        """Return the cells for ascending cuts, or None if they would not save enough steps."""
        if kind.name not in NUMBERS or len(cuts).bit_length() <= _MIN_STEPS_SAVED:
            return None
        best = None
        with np.errstate(all="ignore"):
            cuts = kind.edges(cuts)
            numbers = np.array(cuts, dtype=np.float64)
            for size in _SIZES:
                scale = float(size / (numbers[-1] - numbers[0]))
                cells = np.rint((numbers - numbers[0]) * scale)
                if not (0.0 < scale < np.inf and np.isfinite(cells).all()):
                    return None
                n_steps = int(np.unique(cells, return_counts=True)[1].max()).bit_length()
                if best is None or n_steps < best.n_steps:
                    below = np.searchsorted(cells, np.arange(cells[-1] + 1)).tolist()
                    best = cls(kind, cuts[0], cuts[-1], scale, tuple(below), n_steps)
        assert best is not None
        return best if best.n_steps + _MIN_STEPS_SAVED <= len(cuts).bit_length() else None

    def start(self, column: str, below: str) -> str:
        """Return the SQL of the initial bin, from a column and the list ``below`` in SQL."""
        low, high = (literal(self.kind, cut) for cut in (self.low, self.high))
        number = f"(CAST({column} AS DOUBLE) - {float_literal(float(self.low))}) * {float_literal(self.scale)}"
        return (
            f"CAST({below}[CASE WHEN {column} < {low} THEN 1 WHEN {column} >= {high} THEN {len(self.below)} "
            f"ELSE CAST({number} AS BIGINT) + 1 END] AS BIGINT)"
        )
