"""Cuts and codes in a database: cuts and categories from one query per column, codes by a binary search in SQL."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins, sample_condition
from frameboost.binning.value_counts import ValueCounts
from frameboost.engines.duckdb.cell_cuts import FEWEST_ROWS, cell_cuts
from frameboost.engines.duckdb.cells import NUMBERS, Cells
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.expressions.duckdb_sql import is_missing, is_present, literal, physical_sql, string_literal
from frameboost.expressions.places import Places
from frameboost.expressions.sql_files import render
from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType, Physical

__all__ = [
    "CountedRows",
    "Sample",
    "SqlColumn",
    "count_values",
    "from_database",
    "propose_bins",
    "read_categories",
    "sample_columns",
    "store_bins",
    "store_codes",
    "store_columns",
]

# Sorted values of some rows of a column.
Sample = npt.NDArray[Any]

# Rows to sample, at least, and for each bin.
_FEWEST_SAMPLED, _SAMPLED_PER_BIN = 2048, 4
_INTEGERS = {f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)}
# The first character of Unicode's private use area, which few texts contain.
_FIRST_SEPARATOR = 0xE000


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of the source: its quoted name, and its type in the database."""

    name: str
    type: FeatureType

    @property
    def sql(self) -> str:
        """The column, as an expression over the source."""
        column = f"source.{self.name}"
        # An ENUM has an order of its own, and a collation may take different strings for equal.
        return f"CAST({column} AS VARCHAR) COLLATE C" if self.type.is_categorical else column


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows that cuts and categories come from.

    Attributes
    ----------
    source
        Their table, view or query.
    n_rows
        How many there are.
    sample
        The condition on ``source`` that cuts look at a row.
    n
        A column that says how many rows of the data a row stands for; by default one.
    read_again
        Whether reading them twice takes no long time.
    """

    source: str
    n_rows: int
    sample: str = "TRUE"
    n: str | None = None
    read_again: bool = True

    @classmethod
    def of_source(cls, session: DuckDBSession, n_rows: int, places: Places | None = None) -> CountedRows:
        """Return the rows of a session's source, given the number of all rows and the places of these among them."""
        source, condition = session.source, "TRUE"
        position = session.column("position")
        sample = cls.sample_of(n_rows, position)
        if sample is not None:
            place = (places or Places()).sql("(row_number() OVER () - 1)")
            source, condition = f"(SELECT *, {place} AS {position} FROM {source})", sample
        return cls(source, n_rows, condition, read_again=session.is_table)

    @staticmethod
    def sample_of(n_rows: int, position: str) -> str | None:
        """Return the condition that cuts look at a row, given its column with the position; None if at all."""
        sample = sample_condition(n_rows)
        if sample is None:
            return None
        modulus, multiplier, bound = sample
        return f"source.{position} % {modulus} * {multiplier} % {2**32} < {bound}"

    def parts(self, column: SqlColumn) -> dict[str, str]:
        """Return the parts of a statement over the values of a column."""
        return {
            "source": self.source,
            "column": column.sql,
            "n": "" if self.n is None else f", source.{self.n} AS n",
            "is_present": is_present(column.type, column.sql),
            "sample": self.sample,
            "physical": physical_sql(column.type, "value"),
            "count": "COUNT(*)" if self.n is None else "CAST(SUM(n) AS BIGINT)",
            "values": "value" if self.n is None else "value, n",
        }


def propose_bins(
    session: DuckDBSession, rows: CountedRows, feature: Feature, column: SqlColumn, max_bin: int, *, missing: bool,
    sample: Sample,
) -> Bins:  # fmt: skip
    """Return the bins of one column: its categories, or cuts as by `frameboost.binning.bins.cut_positions`.

    ``sample`` has some of its values, ascending. If more of them are distinct than ``max_bin``, rows are counted by
    cells and values read near the cuts, or ranks are computed by a window over all rows; otherwise values are counted
    first, which is slower where most values are distinct.
    """
    if column.type.is_categorical:
        return read_categories(session, feature, column, missing=missing, source=rows.source)
    most = max_bin - missing
    parts = {**rows.parts(column), "max_bin": most}
    is_diverse = len(np.unique(sample)) > most
    if is_diverse and rows.n_rows >= FEWEST_ROWS and rows.read_again:
        near = cell_cuts(session, column.type, sample, most, parts)
        if near is not None:
            return Bins(feature, tuple(from_database(column.type, cut) for cut in near.tolist()), has_missing=missing)
    by_rank = session.rows(render("propose_cuts_by_rank", **parts)) if is_diverse and rows.n is None else []
    if by_rank and by_rank[-1][1] > most:
        found = [cut for cut, _ in by_rank[1:]]
    else:
        found = [cut for (cut,) in session.rows(render("propose_cuts", **parts))]
    return Bins(feature, tuple(from_database(column.type, cut) for cut in found), has_missing=missing)


def sample_columns(
    session: DuckDBSession, columns: Sequence[SqlColumn], max_bin: int, source: str | None = None
) -> list[Sample]:
    """Return some present values of each column, ascending but for texts of decimals; none of a string column.

    They are of the session's source, unless another table is named.
    """
    values = ", ".join(
        f'{_plain(column)} AS "{i}"' for i, column in enumerate(columns) if not column.type.is_categorical
    )
    if not values:
        return [np.empty(0)] * len(columns)
    n_rows = max(_FEWEST_SAMPLED, _SAMPLED_PER_BIN * max_bin)
    found = session.columns(render("sample_columns", source=source or session.source, values=values, n_rows=n_rows))
    return [_present(found[str(i)]) if str(i) in found else np.empty(0) for i in range(len(columns))]


def _plain(column: SqlColumn) -> str:
    return column.sql if column.type.name in NUMBERS else physical_sql(column.type, column.sql)


def _present(values: Sample | np.ma.MaskedArray[Any, Any]) -> Sample:
    """Return the values of a column of a result that are neither NULL nor NaN, ascending."""
    present = values.compressed() if isinstance(values, np.ma.MaskedArray) else values
    return np.sort(present[present == present])


def count_values(session: DuckDBSession, column: SqlColumn, n_rows: int, places: Places) -> ValueCounts:
    """Return `ShardEngine.count_values` of a numeric column, given the positions of its rows among all rows."""
    rows = CountedRows.of_source(session, n_rows, places)
    found = session.columns(render("count_values", **rows.parts(column)))
    counts = found["n"].astype(np.int64)
    if column.type.is_float:
        dtype = np.float32 if column.type.name == "float32" else np.float64
        return ValueCounts(found["value"].astype(dtype) + dtype(0.0), counts)
    values = [from_database(column.type, value) for value in found["value"].tolist()]
    return ValueCounts(np.array(values, dtype=np.int64 if _fits_64_bits(values) else object), counts)


def _fits_64_bits(values: Sequence[Physical]) -> bool:
    return not values or (values[0] >= -(2**63) and values[-1] < 2**63)  # type: ignore[operator]


def read_categories(
    session: DuckDBSession, feature: Feature, column: SqlColumn, *, missing: bool, source: str | None = None
) -> Bins:
    """Return the bins of a string column, of the session's source or of another table: its categories."""
    rows = session.rows(render("categories", source=source or session.source, column=column.sql))
    categories = tuple(sorted(category for (category,) in rows))
    return Bins(Feature(feature.name, feature.type, categories), has_missing=missing)


def store_bins(
    session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], roles: Mapping[str, str], *,
    in_order: bool, table: str | None = None, more_joins: Sequence[str] = (), numbers: Sequence[int] | None = None,
    sorted_by: str = "", stored: Sequence[str] | None = None,
) -> str:  # fmt: skip
    """Store every row's bins, label, weight and other roles (name -> SQL) in a temporary table; return its name.

    Parameters
    ----------
    session, bins, columns, roles
        What to store of the session's source.
    in_order
        Whether to keep its order at the cost of a sort; only where rows are identified by position.
    table
        Another table to read instead.
    more_joins
        Joins to it, whose columns ``roles`` may name.
    numbers
        The numbers of the features, by which the columns are named; by default they count from 0.
    sorted_by
        The role to sort the rows by; by default they are not.
    stored
        What to store, as expressions over the codes and roles; by default all of them.
    """
    numbers = numbers or range(len(bins))
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
    source, position, order = _ordered(session, in_order=in_order)
    read += position
    read += [f"{sql} AS {role}" for role, sql in roles.items()]
    rows = render(
        "read_columns",
        source=table or source,
        columns=", ".join(read),
        cuts=cuts,
        joins="\n".join([*joins, *more_joins]),
    )
    made, rows = session.table("bins"), _search(rows, bins, cells, numbers)
    if stored is not None and codes:
        rows = f"SELECT * REPLACE ({', '.join(codes)}) FROM ({rows})"
    session.run(
        render(
            "bin_columns",
            bins=made,
            columns=", ".join([*codes, *roles] if stored is None else stored),
            rows=rows,
            in_order=f"ORDER BY {sorted_by} ASC" if sorted_by else order,
        )
    )
    return made


def _ordered(session: DuckDBSession, *, in_order: bool) -> tuple[str, list[str], str]:
    """Return the source, the further columns to read from it, and the clause that keeps its order."""
    if not in_order:
        return session.source, [], ""
    # Rows may come out of the parallel joins with cuts and categories in another order.
    position = session.column("position")
    source = f"(SELECT *, row_number() OVER () AS {position} FROM {session.source})"
    return source, [f"source.{position}"], f"ORDER BY {position} ASC"


def store_columns(
    session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], roles: Mapping[str, str], *,
    in_order: bool,
) -> str:  # fmt: skip
    """Store every row's values (of a string feature the category's code), label, weight and other roles.

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
    source, _, order = _ordered(session, in_order=in_order)
    table = session.table("columns")
    roles_sql = ", ".join(f"{sql} AS {role}" for role, sql in roles.items())
    session.run(
        render(
            "store_columns", bins=table, source=source, columns=", ".join(read), joins="\n".join(joins),
            roles=roles_sql, in_order=order,
        )
    )  # fmt: skip
    return table


def store_codes(session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], stored: str) -> str:
    """Store the bin of every value of a table made by `store_columns`, row by row; return the new table's name."""
    cells = [Cells.of(c.type, b.cuts) for b, c in zip(bins, columns, strict=True)]
    cuts = _store_cuts(session, bins, columns, cells, range(len(bins)))
    read, numbers = [], []
    for i, b in enumerate(bins):
        if b.feature.type.is_categorical:
            read.append(f"source.bin_{i} AS bin_{i}")
            code = f"bin_{i}"
        else:
            read += _search_start(i, f"source.value_{i}", b, cells[i])
            code = f"CASE WHEN value_{i} IS NULL THEN {b.missing} ELSE bin_{i} END"
        numbers.append(f"CAST({code} AS {_code_type(b)}) AS bin_{i}")
    read.append("source.rowid AS position")
    rows = render("read_columns", source=stored, columns=", ".join(read), cuts=cuts, joins="")
    table = session.table("codes")
    session.run(
        render(
            "rebin_columns", codes=table, numbers=", ".join(numbers), rows=_search(rows, bins, cells, range(len(bins)))
        )
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
        doubles = f"CAST('{[float(cut) for cut in cuts]}' AS DOUBLE[])"
        return f"CAST({doubles} AS FLOAT[])" if kind.name == "float32" else doubles
    if kind.name in _INTEGERS:
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
    """Return the columns that the search needs for feature ``i``: its value, its cuts, and the bin to start at."""
    start = "CAST(0 AS BIGINT)" if cells is None else cells.start(column, f"cuts.below_{i}")
    return [f"{column} AS value_{i}, {start} AS bin_{i}", *([f"cuts.cuts_{i}"] if bins.cuts else [])]


def _search(rows: str, bins: Sequence[Bins], cells: Sequence[Cells | None], numbers: Sequence[int]) -> str:
    """Return the rows after all steps of the search, which are powers of two, the largest first."""
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
    """Return a join that numbers a string feature's categories, by a table made for it."""
    table = session.table(alias)
    characters = set().union(*map(str, bins.feature.categories))
    separator = next(c for c in map(chr, itertools.count(_FIRST_SEPARATOR)) if c not in characters)
    values = string_literal(separator.join(map(str, bins.feature.categories)))
    session.run(
        render(
            "number_categories", categories=table, values=values, separator=string_literal(separator), count=bins.count
        )
    )
    return f"LEFT JOIN {table} AS {alias} ON {alias}.category = {column.sql}"


def from_database(kind: FeatureType, value: object) -> Physical:
    """Return the Python value of a result of `physical_sql`."""
    if kind.is_float:
        return float(value) + 0.0  # type: ignore[arg-type]  # writes -0.0 as 0.0, which is the same value
    if isinstance(value, str):  # a decimal: its digits without the point are the scaled integer
        return int(value.replace(".", ""))
    return int(value)  # type: ignore[call-overload, no-any-return]
