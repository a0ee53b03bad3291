"""The tables of a model that was trained on a star: what its queries join to the rows that they score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from frameboost.checks.messages import listed, shown
from frameboost.compile.sql.joined_tables import joined_tables, names_in_join
from frameboost.compile.sql.scores_by_key import Scores, score_by_key
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import TableSource
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.joins.star_sources import DIMENSION_NAME, TableJoin

__all__ = ["StarTables", "Tables", "star_tables"]

Tables = Mapping[str, str] | Literal["joined"]


@dataclass(frozen=True)
class StarTables:
    """Dimensions as tables of a database.

    Attributes
    ----------
    joins
        The dimensions, in order.
    dialect
        The database's SQL.
    read
        The columns that the model reads, by their names in training.
    columns
        The names of columns in their tables that differ from those of training.
    tables
        The names of tables that differ from those of the dimensions.
    """

    joins: tuple[TableJoin, ...]
    dialect: Dialect
    read: frozenset[str]
    columns: Mapping[str, str]
    tables: Mapping[str, str]

    @property
    def names_in_join(self) -> Mapping[str, str]:
        """The names of columns that the model reads, in the join, that differ from those of training."""
        only_joined = {name for join in self.joins for name in (*join.columns, *(key.left for key in join.keys))}
        names = names_in_join(self.joins, self.dialect, self.columns)
        return {name: own for name, own in names.items() if name not in only_joined or name in self.read}

    @property
    def table_names(self) -> list[str]:
        """The tables of the dimensions, each once."""
        return list(dict.fromkeys(self.tables.get(join.table, join.table) for join in self.joins))

    def source(self, facts: str, others: Iterable[str] = (), scores: Scores | None = None) -> TableSource:
        """Return what a query reads: the facts, a quoted table, with the columns that it reads of the dimensions."""
        for number, join in enumerate(self.joins, start=1):
            if join.table == DIMENSION_NAME.format(number) and join.table not in self.tables:
                raise ParameterError(
                    f"{join.table} of the model is rows without a table's name, so that no query can join it; give the "
                    f"table that has them, as tables={{{shown(join.table)}: 'planes'}}, or tables='joined' for rows "
                    "that are joined already; or name it in training, as fb.join(..., name='planes')"
                )
        wanted = self.read | set(others)
        return joined_tables(facts, self.joins, self.dialect, wanted, self.columns, self.tables, scores)

    def score_by_key(self, model: SqlModel) -> tuple[SqlModel, Scores]:
        """Return the model, and what `source` adds to the dimensions for it; see `scores_by_key`."""
        return score_by_key(model, self.joins, self.columns)

    def called(self, names: Mapping[str, str]) -> StarTables:
        """Return it with other names of `table_names`."""
        now = {join.table: self.tables.get(join.table, join.table) for join in self.joins}
        return replace(self, tables={name: names[table] for name, table in now.items()})


def star_tables(
    ensemble: Ensemble, dialect: Dialect, columns: Mapping[str, str] | None, tables: Tables | None
) -> StarTables | None:
    """Return the tables that queries of a model join; None if it was trained on one, or ``tables`` says "joined".

    Raises
    ------
    ParameterError
        If ``tables`` names a table that the model does not have, or is neither a dict nor "joined".
    """
    if tables is not None and not ensemble.joins:
        raise ParameterError("tables is for a model that was trained on a star of tables, as fb.join makes it")
    if not ensemble.joins or (isinstance(tables, str) and tables == "joined"):
        return None
    if tables is not None and not isinstance(tables, Mapping):
        raise ParameterError(
            f"tables must be a dict of the tables' names by dimension, or 'joined', not {shown(tables)}"
        )
    known = [join.table for join in ensemble.joins]
    for name, table in (tables or {}).items():
        if name not in known:
            raise ParameterError(f"tables names {shown(name)}; the dimensions of the model are {listed(known)}")
        if not isinstance(table, str) or not table:
            raise ParameterError(f"tables must give {shown(name)} the name of a table, not {shown(table)}")
    lookup = None if ensemble.interval is None else ensemble.interval.groups
    read = frozenset([*ensemble.read_names, *([] if lookup is None else [lookup.column])])
    return StarTables(ensemble.joins, dialect, read, dict(columns or {}), dict(tables or {}))
