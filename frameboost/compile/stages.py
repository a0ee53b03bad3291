"""A SELECT in stages: each names values that later ones use, as common table expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError

__all__ = ["Stages"]


class Stages:
    """A query that grows by stages.

    Parameters
    ----------
    dialect
        Whose SQL.
    table
        What the first stage reads, quoted.
    keep
        Columns to return besides, None for all of them.
    reads
        Columns, quoted, that stages use.
    where
        A condition, as SQL, on the rows.

    Attributes
    ----------
    keep
        The columns to return besides, quoted; None for all.
    reads
        The columns that a stage passes on, quoted.

    Examples
    --------
    >>> from frameboost.dialects.known import get_dialect
    >>> stages = Stages(get_dialect("sqlite"), '"t"', ["id"], ['"x"'], None)
    >>> twice = stages.name({"twice": '2 * "x"'})["twice"]
    >>> print(stages.select({"square": f"{twice} * {twice}"}))
    WITH stage_1 AS (
    SELECT "id", "x", 2 * "x" AS "v_1"
    FROM "t"
    )
    SELECT "id", "v_1" * "v_1" AS "square"
    FROM stage_1
    """

    def __init__(
        self, dialect: Dialect, table: str, keep: Sequence[str] | None, reads: Sequence[str], where: str | None
    ) -> None:
        self._dialect, self._table, self._where = dialect, table, where
        self.keep = None if keep is None else [dialect.quote(name) for name in keep]
        taken = [*([] if self.keep is None else self.keep), *reads, table]
        self._prefix, self._stage = (_unlike(taken, first) for first in ("v_", "stage_"))
        self.reads = list(dict.fromkeys([*(self.keep or []), *reads]))
        self._named: list[str] = []
        self._count = 0
        self._stages: list[str] = []

    def name(self, values: Mapping[str, str]) -> dict[str, str]:
        """Work values out, and return the names by which later stages know them."""
        names = {}
        for key in values:
            self._count += 1
            self._named.append(self._dialect.quote(f"{self._prefix}{self._count}"))
            names[key] = self._named[-1]
        before = self._named[: len(self._named) - len(values)]
        columns = [self._everything()] if self.keep is None else [*self.reads, *before]
        columns += [f"{value} AS {names[key]}" for key, value in values.items()]
        self._check(len(columns))
        self._stages.append(f"SELECT {', '.join(columns)}\n{self.source()}")
        return names

    def reserve(self, count: int) -> list[str]:
        """Return names for values that `replace` will bring."""
        self._count += count
        return [self._dialect.quote(f"{self._prefix}{self._count - count + i + 1}") for i in range(count)]

    def number_rows(self, name: str) -> None:
        """Make a stage of the columns that are read and kept, and a number of each row under the given name."""
        columns = [*self.reads, f"{self._dialect.row_number} AS {name}"]
        self.replace(f"SELECT {', '.join(columns)}\n{self.source()}", [name])

    def aggregate(self, values: Mapping[str, str]) -> dict[str, str]:
        """Make a stage of a single row of aggregates, and return their names."""
        names = dict(zip(values, self.reserve(len(values)), strict=True))
        self._check(len(values))
        columns = [f"{value} AS {names[key]}" for key, value in values.items()]
        self.replace(f"SELECT {', '.join(columns)}\n{self.source()}", list(names.values()))
        return names

    def replace(self, query: str, names: Sequence[str]) -> None:
        """Add a stage of one's own, of the columns that are read and kept and values of those names."""
        self._stages.append(query)
        self._named = list(names)

    def reduce(self, query: str, columns: Sequence[str], names: Sequence[str]) -> None:
        """Add a stage of one's own, of these columns only and values of those names."""
        self.replace(query, names)
        self.reads = list(columns)

    def select(self, values: Mapping[str, str], into: str = "") -> str:
        """Return the query for values by the names that they shall have, after the columns that are kept.

        ``into`` is a clause of its own, before FROM.
        """
        if self.keep is not None:
            columns = list(self.keep)
        elif not self._stages:
            columns = [self._everything()]
        elif self._dialect.except_columns is not None:
            columns = [self._dialect.except_columns.format(v=", ".join(self._named))]
        else:
            raise ParameterError(
                f"the query takes several stages, and {self._dialect.name} can't leave columns of theirs out; "
                "name the columns to return in keep"
            )
        columns += [f"{value} AS {self._dialect.quote(name)}" for name, value in values.items()]
        self._check(len(columns))
        return self.finish(f"SELECT {', '.join(columns)}\n{into}{self.source()}")

    def finish(self, final: str) -> str:
        """Return the query that ends in a SELECT of one's own."""
        if not self._stages:
            return final
        steps = (f"{self._stage}{i} AS (\n{step}\n)" for i, step in enumerate(self._stages, 1))
        return "WITH " + ",\n".join(steps) + f"\n{final}"

    def _everything(self) -> str:
        return "*" if self._stages else self._dialect.star.format(table=self._table)

    def source(self, alias: str = "") -> str:
        """Return the FROM of the next stage, and WHERE of the first."""
        if self._stages:
            return f"FROM {self._stage}{len(self._stages)} {alias}".rstrip()
        return f"FROM {self._table}" + (f"\nWHERE {self._where}" if self._where else "")

    def _check(self, columns: int) -> None:
        most = self._dialect.limits.columns
        if most is not None and columns > most:
            raise ParameterError(
                f"the query would have {columns:,} columns, and a SELECT in {self._dialect.name} has at most {most:,}"
            )


def _unlike(names: Sequence[str], prefix: str) -> str:
    """Return a prefix that no part of the names begins with, in any case."""
    while any(prefix in name.lower() for name in names):
        prefix = f"{prefix[0]}{prefix}"
    return prefix
