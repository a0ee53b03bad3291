"""The importance of features on the rows of a database table, by queries that return a few numbers.

The values of a feature are permuted by a join: the row at position k gets the value of the row with the k-th smallest
draw. Draws are hashes (`frameboost.expressions.draws`), so that databases and memory permute alike:

=========  =====  ========================  =============
position   value  draw                      dealt
=========  =====  ========================  =============
0          a      0.78, which is number 1   c
1          b      0.99, which is number 2   a
2          c      0.49, which is number 0   b
=========  =====  ========================  =============
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import counted, shown
from frameboost.compile.sql.stages import TableSource
from frameboost.data.database_table import DatabaseTable
from frameboost.database.database_model import DatabaseModel, database_model
from frameboost.database.star import Tables
from frameboost.dialects.dialect import MATERIALIZED
from frameboost.dialects.draws import draw_query
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.schema.types import FeatureType, free_name

__all__ = ["TableToScore"]

# DuckDB plans a query over the join for seconds (three classes, 2.0.1) unless that is stored, which is slower of rows
# that are scored alone.
_FENCED = {"duckdb": MATERIALIZED}
_INTEGER, _NUMBER, _TEXT = FeatureType("int64"), FeatureType("float64"), FeatureType("string")


@dataclass(frozen=True, eq=False, repr=False)
class _OverQuery(DatabaseModel):
    """A model with queries that read the rows of another query, whatever table they name."""

    rows: TableSource | None = None

    def _source(self, table: str, others: Sequence[str] = ()) -> TableSource:
        return super()._source(table, others) if self.rows is None else self.rows


class TableToScore:
    """A model, and a database table to score in place.

    Parameters
    ----------
    ensemble
        The model.
    table
        The rows, with checked columns.
    """

    def __init__(self, ensemble: Ensemble, table: DatabaseTable) -> None:
        tables: Tables | None = "joined" if ensemble.joins else None
        self._model = database_model(ensemble, table.dialect.name, tables=tables)
        self._table, self._dialect = table, table.dialect

    def metric(
        self, target: str | Sequence[str], roles: Mapping[str, str | None], metric: Any,
        dealt: tuple[str, int] | None = None,
    ) -> float:  # fmt: skip
        """Return a metric of the rows; ``dealt`` is a column to permute, and the key of the draws.

        Raises
        ------
        DataError
            If labels, weights or offsets are invalid for the objective.
        """
        rows = self._rows(self._read(target, roles))
        if dealt is not None:
            target, roles, rows = self._dealt(target, roles, *dealt)
        query = self._over(rows).evaluate_query("rows", target, eval_metric=metric, **roles)  # type: ignore[arg-type]
        types = dict.fromkeys(("rows", "unlabelled", "invalid"), _INTEGER) | {"metric": _TEXT, "value": _NUMBER}
        row = self._table.connection.frame(query, types).row(0, named=True)
        if wrong := row["unlabelled"] + row["invalid"]:
            raise DataError(
                f"table {shown(self._table.name)} has {counted(wrong, 'row')} without a label, or with a label, a "
                "weight or an offset that the objective can't have"
            )
        if row["value"] is None:
            raise DataError(f"table {shown(self._table.name)} has no row that counts, so that there is no metric")
        return float(row["value"])

    def mean_magnitudes(self) -> npt.NDArray[np.float64]:
        """Return the mean absolute Shapley value of each feature, summed over outputs.

        Raises
        ------
        TooLargeError
            If they do not fit into a query.
        DataError
            If the table has no rows.
        """
        ensemble, quote = self._model.ensemble, self._dialect.quote
        sums = np.zeros(len(ensemble.features))
        for output in range(ensemble.n_outputs):
            explained = self._over(self._rows(self._read([], {}))).explain_query("rows", output=output, approx=False)
            of_feature = [f"AVG(ABS({quote(column.feature.name)}))" for column in self._model.columns]
            names = [quote(f"mean_{number}") for number in range(len(of_feature))]
            columns = ", ".join(f"{value} AS {name}" for value, name in zip(of_feature, names, strict=True))
            query = f"SELECT {columns} FROM ({explained}) {self._dialect.statements.alias}{quote('explained_rows')}"
            means = self._table.connection.frame(query, dict.fromkeys(names, _NUMBER)).row(0)
            if None in means:
                raise DataError(f"table {shown(self._table.name)} has no rows")
            sums += np.array(means)
        return sums

    def _over(self, rows: str) -> DatabaseModel:
        """Return the model with queries that read the rows of a query."""
        name = self._dialect.quote("rows_to_score")
        source = TableSource(f"({rows}) {self._dialect.statements.alias}{name}", name)
        return _OverQuery(**{each.name: getattr(self._model, each.name) for each in fields(self._model)}, rows=source)

    def _read(self, target: str | Sequence[str], roles: Mapping[str, str | None]) -> dict[str, str]:
        """Return the columns that the model and the metric read, by quoted names."""
        targets = [target] if isinstance(target, str) else list(target)
        named = [name for name in roles.values() if name is not None]
        names = dict.fromkeys([*self._model.ensemble.read_names, *targets, *named])
        return {self._dialect.quote(name): self._table.sql(name) for name in names}

    def _rows(self, columns: Mapping[str, str]) -> str:
        return self._table.select(columns)

    def _dealt(
        self, target: str | Sequence[str], roles: Mapping[str, str | None], feature: str, key: int
    ) -> tuple[str | list[str], dict[str, str | None], str]:
        """Return the target, the roles, and the query of rows with the values of a feature permuted.

        A feature that also has a role keeps its values in the role, under another name.
        """
        quote, dialect, table = self._dialect.quote, self._dialect, self._table
        columns, other = self._read(target, roles), free_name("undealt", table.columns)
        value_dealt, position, rank, draw = (
            free_name(name, table.columns) for name in ("dealt", "position", "number", "draw")
        )
        value = columns.pop(quote(feature))

        def called(name: Any) -> Any:
            return other if name == feature else name

        targets = called(target) if isinstance(target, str) else [called(name) for name in target]
        left = table.select(columns | {quote(other): value, quote(position): table.position})
        in_order = table.select({quote(value_dealt): value, quote(position): table.position})
        drawn = draw_query(in_order, quote(position), key, draw, dialect)
        order = f"ROW_NUMBER() OVER (ORDER BY {quote(draw)} ASC, {quote(position)} ASC) - 1 AS {quote(rank)}"
        right = dialect.select_besides(drawn, order, "ranked")
        a, b, as_ = quote("rows_in_order"), quote("rows_drawn"), dialect.statements.alias
        kept = [f"{a}.{name} AS {name}" for name in [*columns, quote(other)]]
        select = (
            f"{', '.join(kept)}, {b}.{quote(value_dealt)} AS {quote(feature)} FROM ({left}) {as_}{a} "
            f"JOIN ({right}) {as_}{b} ON {a}.{quote(position)} = {b}.{quote(rank)}"
        )
        stage = _FENCED.get(dialect.name, dialect.statements.fenced_stage)
        fenced = stage.format(name=quote("rows_dealt"), select=select)
        query = f"WITH {fenced} SELECT * FROM {quote('rows_dealt')}"
        return targets, {role: called(name) for role, name in roles.items()}, query
