"""Statements in a dialect: queries, common table expressions, and what makes and fills views and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["INDEX", "MATERIALIZED", "PLAIN_STAGE", "Statements"]

# SQLite joins no more SELECTs than 500. https://www.sqlite.org/limits.html
_MAX_SELECTS = 400

INDEX = "CREATE INDEX {index} ON {name} ({columns})"
PLAIN_STAGE = "{name} AS (\nSELECT {select}\n)"
MATERIALIZED = "{name} AS MATERIALIZED (\nSELECT {select}\n)"


@dataclass(frozen=True)
class Statements:
    """Templates of statements and of their clauses.

    Attributes
    ----------
    star
        All columns of ``{table}``, with others beside them.
    except_columns
        All columns but ``{v}``; None where there is no such thing.
    except_unknown
        The same where some of ``{v}`` may be no columns, or of ``{strings}``, names in lower case as strings; None
        where there is no such thing.
    first_is_meant
        Whether of two columns of one name in a subquery or a new table the first one keeps the name.
    alias
        What stands between a table and its alias.
    aliases_hide_columns
        Whether a name that a SELECT gives to a value stands for that value wherever else in the SELECT it is used.
    star_names_tables
        Whether all columns of a table that is joined are named with their table where another has a column of the name.
    joins_to_nulls
        What ends a SELECT with a LEFT JOIN so that it has NULLs where no row is found.
    count
        The number of rows, and what adds one where ``{c}`` holds, both in 64 bits.
    row_number
        A number that is different in each row.
    value_of_group
        The value of ``{x}`` in the row of a group where ``{c}`` holds, of any type; None to group by ``{x}`` instead,
        where columns of most types may be grouped by.
    keeps_order
        Whether the rows of a table have an order of their own, in which ``row_number`` counts them.
    fenced_stage
        A common table expression ``{name}`` of SELECT ``{select}`` whose values are worked out once, where the database
        would otherwise put their expressions wherever their names stand.
    define_table, create_index
        Statements of ``{name}`` and ``{columns}``, and ``{index}``; None where tables are not made by a statement
        alone, and where they need no index to be joined.
    index_in_schema
        Whether it is the index, not the table, whose name says in which schema it is.
    insert_row
        A row of ``{v}`` for INSERT, where it is a SELECT of its own; None where rows are listed after VALUES.
    create_view, create_table
        Statements of ``{name}`` and ``{query}``.
    selects_into
        Whether a table is made of a query by INTO in the query, instead.
    update, update_needs_where
        A statement of ``{name}``, ``{column}``, ``{value}`` and ``{where}``, and whether one of all rows must say so.
    """

    star: str = "*"
    except_columns: str | None = None
    except_unknown: str | None = None
    first_is_meant: bool = False
    alias: str = "AS "
    aliases_hide_columns: bool = False
    star_names_tables: bool = False
    joins_to_nulls: str = ""
    count: tuple[str, str] = ("COUNT(*)", "SUM(CASE WHEN {c} THEN 1 ELSE 0 END)")
    row_number: str = "ROW_NUMBER() OVER ()"
    value_of_group: str | None = None
    keeps_order: bool = False
    fenced_stage: str = PLAIN_STAGE
    define_table: str | None = "CREATE TABLE {name} (\n  {columns}\n)"
    create_index: str | None = None
    index_in_schema: bool = False
    insert_row: str | None = None
    create_view: str = "CREATE VIEW {name} AS\n{query}"
    create_table: str = "CREATE TABLE {name} AS\n{query}"
    selects_into: bool = False
    update: str = "UPDATE {name}\nSET {column} = {value}{where}"
    update_needs_where: bool = False

    def constant_rows(self, rows: Sequence[Sequence[str]], names: Sequence[str]) -> str:
        """Return a query of rows of literals, under quoted names; there is at least one row.

        Every database has SELECTs joined by UNION ALL, not every one VALUES in FROM.
        """
        first = [f"{value} AS {name}" for value, name in zip(rows[0], names, strict=True)]
        template = self.insert_row or "SELECT {v}"
        return self._union([template.format(v=", ".join(row)) for row in (first, *rows[1:])])

    def _union(self, selects: Sequence[str]) -> str:
        if len(selects) <= _MAX_SELECTS:
            return "\nUNION ALL\n".join(selects)
        parts = [selects[first : first + _MAX_SELECTS] for first in range(0, len(selects), _MAX_SELECTS)]
        whole = [f"SELECT * FROM (\n{self._union(part)}\n) {self.alias}part_{i}" for i, part in enumerate(parts)]
        return self._union(whole)

    def rows_of(self, rows: Sequence[Sequence[str]]) -> str:
        """Return rows of literals as INSERT takes them."""
        if self.insert_row is not None:
            return "\nUNION ALL ".join(self.insert_row.format(v=", ".join(row)) for row in rows)
        return "VALUES\n" + ",\n".join(f"({', '.join(row)})" for row in rows)
