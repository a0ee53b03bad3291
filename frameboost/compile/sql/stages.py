"""A SELECT in stages: common table expressions, each over the previous one, that name values for later ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from frameboost.dialects.dialect import Dialect, in_lines
from frameboost.errors import ParameterError, TooLargeError

__all__ = ["ROW", "Stages", "TableSource", "grouped", "unlike"]

# The alias of a stage where it is joined. In a view ClickHouse writes the database before a table's name, and an alias
# hides a database of the same name: so it is one that no database has.
ROW = "row_of_data"


@dataclass(frozen=True, slots=True)
class TableSource:
    """The input of a query: its FROM item, and its alias, both quoted.

    ``rows`` is a SELECT of literals to read instead, as the first stage.
    """

    sql: str
    name: str
    rows: str = ""


class Stages:
    """A query built stage by stage.

    Parameters
    ----------
    dialect
        Whose SQL.
    table
        What the first stage reads.
    keep
        Other columns to return, None for all.
    reads
        Columns, quoted, that stages use.
    where
        A predicate on the rows, as SQL, in the first stage.
    left_out
        Quoted columns of the table to omit from all columns.
    after
        Earlier stages, with the columns in the last one; they have ``table`` and ``where``.

    Attributes
    ----------
    keep
        Other columns to return, quoted; None for all.
    reads
        The columns that a stage passes on, quoted.
    selects
        The SELECT of each stage, and finally that of the query.

    Examples
    --------
    >>> from frameboost.dialects.built_in import get_dialect
    >>> stages = Stages(get_dialect("postgres"), TableSource('"t"', '"t"'), ["id"], ['"x"'], None)
    >>> twice = stages.name({"twice": '2 * "x"'}, often=True)["twice"]
    >>> print(stages.select({"square": f"{twice} * {twice}"}))
    WITH stage_1 AS MATERIALIZED (
    SELECT "id", "x", 2 * "x" AS "v_1"
    FROM "t"
    )
    SELECT "id", "v_1" * "v_1" AS "square"
    FROM stage_1
    """

    def __init__(
        self, dialect: Dialect, table: TableSource, keep: Sequence[str] | None, reads: Sequence[str],
        where: str | None, left_out: Sequence[str] = (), after: Stages | None = None,
    ) -> None:  # fmt: skip
        self._dialect, self._table, self._where = dialect, table, where
        self.keep = None if keep is None else [dialect.quote(name) for name in keep]
        # The condition too: in ClickHouse names in it mean what the SELECT calls so.
        names = [*([] if self.keep is None else self.keep), *reads, table.sql, table.rows, where or ""]
        # With SELECT * only the columns that are read are known: so the prefix is one that few have.
        self._prefix, self._stage = (
            unlike(names, first) for first in ("v_" if keep is not None else "fb_v_", "stage_")
        )
        self.reads = list(dict.fromkeys([*(self.keep or []), *reads]))
        self._named = [*left_out] if keep is None else []
        self._count = 0
        self.selects = [table.rows] if table.rows else []
        self._fenced = {0} if table.rows else set[int]()
        self._called: dict[str, str] = {}
        self._order = ""
        if after is not None:
            self._prefix, self._stage, self._count = after._prefix, after._stage, after._count
            self.selects, self._fenced = [*after.selects], {*after._fenced}
        self._kept = list(keep or ())

    @property
    def can_add(self) -> bool:
        """Whether the last SELECT can omit the columns of stages."""
        return self.keep is not None or self._dialect.statements.except_columns is not None

    def rename_lost(self) -> dict[str, str]:
        """Begin with a stage that renames columns with names that are lost in stages; return the new names."""
        lost = self._dialect.names.lost
        names = [name for name in self.reads if lost is not None and re.fullmatch(lost, name[1:-1].lower())]
        if not names or self.keep is None:
            return {}
        new = dict(zip(names, self.reserve(len(names)), strict=True))
        columns = [f"{name} AS {new[name]}" if name in new else name for name in self.reads]
        self.replace(f"SELECT {in_lines(columns)}\n{self.source()}", [])
        self.reads = [new.get(name, name) for name in self.reads]
        self.keep = [new.get(name, name) for name in self.keep]
        self._called = {alias: name for name, alias in new.items()}
        return new

    def kept_columns(self, values: Sequence[str] | None = None) -> list[str]:
        """Return the kept columns for the last SELECT, computed as ``values`` if these are passed."""
        columns = self.keep or ()
        called = [self._called.get(name, name) for name in columns]
        return [
            value if value == name else f"{value} AS {name}"
            for value, name in zip(values or columns, called, strict=True)
        ]

    def name(self, values: Mapping[str, str], *, often: bool = False) -> dict[str, str]:
        """Add a stage that computes values, and return their columns.

        ``often`` means that later stages use some of them more than once; the stage is then fenced if the database
        would otherwise inline its expressions.
        """
        names = dict(zip(values, self.reserve(len(values)), strict=True))
        self.add({names[key]: value for key, value in values.items()}, often=often)
        return names

    def add(self, values: Mapping[str, str], *, without: Collection[str] = (), often: bool = False) -> None:
        """Add a stage that computes values under names of `reserve`; ``without`` are values that it does not pass on.

        ``often`` is as for `name`.
        """
        passed_on = self._named if self.keep is None else [name for name in self._named if name not in without]
        columns = [] if self.keep is None else [*self.reads, *passed_on]
        columns += [f"{value} AS {name}" for name, value in values.items()]
        columns += [self._everything()] if self.keep is None else []  # last, as it may have a column of the name
        self.check(len(columns))
        if often:
            self._fenced.add(len(self.selects))
        self.selects.append(f"SELECT {in_lines(columns)}\n{self.source()}")
        self._named = [*passed_on, *values]

    def rename_all(self, values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Add a stage of kept columns and values, computed once; return both by name.

        All are renamed, as some names are lost in stages. Later stages read these, and keep none.
        """
        old = self.keep or []
        kept = dict(zip(self._kept, self.reserve(len(old)), strict=True))
        names = dict(zip(values, self.reserve(len(values)), strict=True))
        columns = [f"{column} AS {name}" for column, name in zip(old, kept.values(), strict=True)]
        columns += [f"{value} AS {names[key]}" for key, value in values.items()]
        self.check(len(columns))
        self._fenced.add(len(self.selects))
        self.reduce(f"SELECT {in_lines(columns)}\n{self.source()}{self._order}", [*kept.values(), *names.values()], [])
        self.keep, self._called, self._order = [], {}, ""
        return kept, names

    def reserve(self, count: int) -> list[str]:
        """Return names for columns that `replace` will add."""
        self._count += count
        return [self._dialect.quote(f"{self._prefix}{self._count - count + i + 1}") for i in range(count)]

    def number_rows(self, name: str) -> None:
        """Add a stage of the read and kept columns, and the number of each row under this name."""
        columns = [*self.reads, f"{self._dialect.statements.row_number} AS {name}"]
        self.replace(f"SELECT {in_lines(columns)}\n{self.source()}", [name])

    def sort(self, key: str) -> None:
        """Begin with a stage of the read and kept columns, with rows in the order of an expression.

        `select` restores the original order by a row number that the stage adds.
        """
        [number] = self.reserve(1)
        columns = [self._everything()] if self.keep is None else self.reads
        columns = [*columns, f"{self._dialect.statements.row_number} AS {number}"]
        self.replace(f"SELECT {in_lines(columns)}\n{self.source()}\nORDER BY {key}", [number])
        self._order = f"\nORDER BY {number}"

    def aggregate(self, values: Mapping[str, str], by: Sequence[str] = ()) -> dict[str, str]:
        """Add a stage of aggregates, one row in all or one per group, and return their names."""
        names = dict(zip(values, self.reserve(len(values)), strict=True))
        self.check(len(by) + len(values))
        columns = [*by, *(f"{value} AS {names[key]}" for key, value in values.items())]
        groups = f"\nGROUP BY {', '.join(by)}" if by else ""
        self.reduce(f"SELECT {in_lines(columns)}\n{self.source()}{groups}", by, list(names.values()))
        return names

    def replace(self, query: str, names: Sequence[str]) -> None:
        """Add a stage written by the caller, of the read and kept columns and values of these names."""
        self.selects.append(query)
        self._named = list(names)

    def reduce(self, query: str, columns: Sequence[str], names: Sequence[str]) -> None:
        """Add a stage written by the caller, of these columns only and values of these names."""
        self.replace(query, names)
        self.reads = list(columns)

    def select(self, values: Mapping[str, str], into: str = "") -> str:
        """Return the query that ends in the kept columns and these values by name.

        ``into`` is a clause before FROM. If all columns are kept, values replace columns of the same name.
        """
        statements, names = self._dialect.statements, {self._dialect.quote(name) for name in values}
        if statements.aliases_hide_columns and names & {*self.reads}:
            values = self.name(values)
        columns = self.kept_columns() if self.keep is not None else [self._others(list(values))]
        named = [f"{value} AS {self._dialect.quote(name)}" for name, value in values.items()]
        columns = [*named, *columns] if self.keep is None and statements.first_of_name_wins else [*columns, *named]
        self.check(len(columns))
        return self.finish(f"SELECT {in_lines(columns)}\n{into}{self.source()}{self._order}")

    def pass_on(self, values: Mapping[str, str]) -> str:
        """Return the query that ends in all kept or read columns, and these values by name."""
        if self.keep is not None:
            self.keep = self.reads
        return self.select(values)

    def _others(self, names: Sequence[str]) -> str:
        """Return all columns except those of stages, and of these names as far as the database can."""
        statements, dialect = self._dialect.statements, self._dialect
        folded = {dialect.quote(name).lower() if dialect.names.any_case else dialect.quote(name) for name in names}
        replaced = [name for name in self.reads if (name.lower() if dialect.names.any_case else name) in folded]
        if statements.except_unknown is not None and len(replaced) < len(names):
            left_out = [*self._named, *(dialect.quote(name) for name in names)]
            strings = [dialect.string(name.lower()) for name in (*(quoted[1:-1] for quoted in self._named), *names)]
            return statements.except_unknown.format(v=in_lines(left_out), strings=in_lines(strings))
        if not self._named and not replaced:
            return self._everything()
        if statements.except_columns is not None:
            return statements.except_columns.format(v=in_lines([*self._named, *replaced]))
        if self._named:
            raise ParameterError(
                f"the query takes several stages, and {dialect.name} can't leave columns of theirs out; "
                "name the columns to return in keep"
            )
        raise ParameterError(
            f"the query would have column {replaced[0]} twice, which the model reads; name the columns to return in "
            "keep, or change name"
        )

    def finish(self, final: str) -> str:
        """Return the query that ends in a SELECT written by the caller."""
        *stages, _ = self.selects = [*self.selects, final]
        if not stages:
            return final
        most = self._dialect.limits.stages
        if most is not None and len(stages) > most:
            raise TooLargeError(
                f"the query would have {len(stages):,} stages, and {self._dialect.name} takes {most:,} at most"
            )
        return "WITH " + ",\n".join(map(self._written, range(len(stages)))) + f"\n{final}"

    def _written(self, number: int) -> str:
        name, query = f"{self._stage}{number + 1}", self.selects[number]
        if number not in self._fenced:
            return f"{name} AS (\n{query}\n)"
        return self._dialect.statements.fenced_stage.format(name=name, select=query.removeprefix("SELECT "))

    def _everything(self) -> str:
        return "*" if self.selects else self._dialect.statements.star.format(table=self._table.name)

    def source(self, alias: str = "") -> str:
        """Return the FROM of the next stage, with its alias, if any, and the WHERE of the first."""
        if self.selects:
            called = f" {self._dialect.statements.alias}{alias}" if alias else ""
            return f"FROM {self._stage}{len(self.selects)}{called}"
        return f"FROM {self._table.sql}" + (f"\nWHERE {self._where}" if self._where else "")

    def check(self, columns: int) -> None:
        """Raise `TooLargeError` if a SELECT would have too many columns."""
        most = self._dialect.limits.columns
        if most is not None and columns > most:
            raise TooLargeError(
                f"the query would have {columns:,} columns, and a SELECT in {self._dialect.name} has at most {most:,}"
            )


def grouped(columns: Sequence[str], condition: str, dialect: Dialect) -> tuple[Sequence[str], Sequence[str]]:
    """Return which columns of a row to group by, where its number is grouped by anyway, and SQL of each column's value.

    ``condition`` holds in one of the rows of a group.
    """
    template = dialect.statements.value_of_group
    if template is None:
        return columns, columns
    return (), [template.format(x=name, c=condition) for name in columns]


def unlike(names: Sequence[str], prefix: str) -> str:
    """Return a prefix that occurs in none of the names, in any case: ``vv_`` if a name has ``v_`` in it."""
    while any(prefix in name.lower() for name in names):
        prefix = f"{prefix[0]}{prefix}"
    return prefix
