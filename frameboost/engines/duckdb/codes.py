"""Codes in a database: tables of the bins of every row, found by a binary search in SQL."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import MAX_AT_ONCE, SqlColumn, batches_of
from frameboost.engines.duckdb.cells import Cells
from frameboost.expressions.duckdb_sql import is_missing, is_present, literal, render, string_literal
from frameboost.schema.types import FeatureType, Physical

__all__ = ["store_bins", "store_codes", "store_columns"]

# The first character of Unicode's private use area, which few texts contain.
_FIRST_SEPARATOR = 0xE000
_INTEGERS = {f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)}


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
    numbers = range(len(bins)) if numbers is None else numbers
    if len(bins) > MAX_AT_ONCE:
        return _store_in_parts(
            session, bins, columns, roles, numbers, in_order=in_order, table=table, more_joins=more_joins,
            sorted_by=sorted_by, stored=stored,
        )  # fmt: skip
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


def _store_in_parts(
    session: DuckDBSession, bins: Sequence[Bins], columns: Sequence[SqlColumn], roles: Mapping[str, str],
    numbers: Sequence[int], *, in_order: bool, table: str | None, more_joins: Sequence[str], sorted_by: str,
    stored: Sequence[str] | None,
) -> str:  # fmt: skip
    """Do as `store_bins`, with a table for each group of features and one for the roles, which then become one.

    The plan of one statement has all steps of the search for all features at once, in memory too.
    """
    groups = zip(batches_of(bins), batches_of(columns), batches_of(numbers), strict=True)
    parts = [
        store_bins(session, own, own_columns, {}, in_order=True, table=table, numbers=own_numbers)
        for own, own_columns, own_numbers in groups
    ]
    if roles:
        parts.append(store_bins(session, [], [], roles, in_order=True, table=table, more_joins=more_joins))
    return _joined(session, parts, "*" if stored is None else ", ".join(stored), in_order=in_order, sorted_by=sorted_by)


def _joined(session: DuckDBSession, parts: Sequence[str], columns: str, *, in_order: bool, sorted_by: str = "") -> str:
    """Store columns of tables that are joined by position in one table, and drop these; return its name."""
    made = session.table("bins")
    keeps_order = session.setting("preserve_insertion_order")
    order = sorted_by or (f"{parts[0]}.rowid" if in_order or not keeps_order else "")
    session.run(
        render(
            "join_parts", bins=made, columns=columns, parts=" POSITIONAL JOIN ".join(parts),
            in_order=f"ORDER BY {order} ASC" if order else "",
        )
    )  # fmt: skip
    for part in parts:
        session.drop(part)
    return made


def _ordered(session: DuckDBSession, table: str | None, *, in_order: bool) -> tuple[str, list[str], str]:
    """Return the source, the further columns to read from it, and the clause that keeps its order."""
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
    """Store the bin of every value of a table made by `store_columns`, row by row; return the new table's name.

    ``first`` is the number of the first feature.
    """
    if len(bins) > MAX_AT_ONCE:
        groups = enumerate(zip(batches_of(bins), batches_of(columns), strict=True))
        parts = [store_codes(session, *group, stored, first + MAX_AT_ONCE * k) for k, group in groups]
        return _joined(session, parts, "*", in_order=False)
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
    """Return a join that numbers a feature's categories, by a table made for it."""
    table, kind = session.table(alias), column.type
    if kind.precision_and_scale:
        categories = [f"{kind.decimal(int(value)):f}" for value in bins.feature.categories]
    elif kind.family == "boolean":
        categories = ["true" if value else "false" for value in bins.feature.categories]
    else:
        categories = list(map(str, bins.feature.categories))
    characters = set().union(*categories)
    separator = next(c for c in map(chr, itertools.count(_FIRST_SEPARATOR)) if c not in characters)
    values = string_literal(separator.join(categories))
    session.run(
        render(
            "number_categories",
            categories=table,
            values=values,
            separator=string_literal(separator),
            type=kind.duckdb_name,
            count=bins.count,
        )
    )
    return f"LEFT JOIN {table} AS {alias} ON {alias}.category = {column.sql}"
