"""The rows in a database: temporary tables joined by position, and queries over them; the engine's base class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.duckdb.binning import SqlColumn, batches_of
from frameboost.engines.duckdb.gradients import GradientTable
from frameboost.engines.duckdb.ranking import pair_parts, window_sql
from frameboost.engines.fixed_terms import FixedTerms, names_used
from frameboost.engines.linear_contract import linear_role
from frameboost.expressions.draws import RowPositions
from frameboost.expressions.duckdb_sql import is_missing, render
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import (
    Aggregate,
    Aggregator,
    Scalar,
    largest_magnitudes,
    rounded,
    rounded_on,
)
from frameboost.losses.loss import PAIR_SUMS, RankingPairs
from frameboost.schema.types import Feature

__all__ = ["TableEngine"]


class TableEngine:
    """Row state of an engine over a DuckDB relation.

    It is temporary tables of the caller's connection, which DuckDB spills to disk: the binned columns, and beside them
    margins, gradients and nodes. Tables are joined by position: all are made from the first by statements that keep its
    order.

    Parameters
    ----------
    session
        Where the relation lives.
    features
        The features, as the model knows them.
    columns
        The same as the database has them. Physical values are the same in both.
    roles
        Role -> quoted column name. ``label`` is always there; without ``weight`` every weight is 1.
    queries
        The column of the role ``qid``, if there is one.
    in_order
        Whether rows must keep the order of the relation, as where they are sampled by position.
    """

    def __init__(
        self,
        session: DuckDBSession,
        features: Sequence[Feature],
        columns: Sequence[SqlColumn],
        roles: Mapping[str, str],
        queries: SqlColumn | None = None,
        *,
        in_order: bool = False,
    ) -> None:
        self.session = session
        self.features = tuple(features)
        self.columns = tuple(columns)
        # Expressions over the source.
        self.roles = {role: _present_double(column) for role, column in roles.items()}
        if queries is not None:
            self.roles["qid"] = f"CASE WHEN {is_missing(queries.type, queries.sql)} THEN NULL ELSE {queries.sql} END"
        self.in_source_order = in_order or queries is not None
        self.gradients = GradientTable(session)
        self._bins: str | None = None
        self._margins: dict[str, str] = {}  # margin -> its table, which has a column of the same name
        self._pairs: str | None = None
        self._terms: dict[str, Scalar | Cumulative | QueryWindow] = {}
        self._fixed = FixedTerms(self.roles)
        self._fixed_keys: dict[str, Hashable] = {}  # of the fixed terms that are defined, by name
        self._stored: dict[Hashable, tuple[str, str]] = {}  # of those that are stored, by key: table and column
        self._counts: list[int] | None = None
        self._queries = queries
        self.positions = RowPositions()  # of its rows among all, of which there are
        self.n_all_rows = 0
        self.is_shard = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._count_rows()[0]

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        return self._count_rows()[1:]

    def _count_rows(self) -> list[int]:
        """Return the number of rows, then for each feature how many have it missing."""
        if self._counts is None:
            self._counts = []
            for columns in batches_of(self.columns) or [()]:
                counts = "".join(
                    f', COUNT(*) FILTER (WHERE {is_missing(c.type, c.sql)}) AS "{i}"' for i, c in enumerate(columns)
                )
                statement = render("count_missing", source=self.session.source, counts=counts)
                n_rows, *missing = self.session.rows(statement)[0]
                self._counts = [n_rows, *self._counts[1:], *missing]
        return self._counts

    # --- tables -------------------------------------------------------------------------------------------------------

    @property
    def bins(self) -> str:
        """The table that all others are made from: codes or values, and the roles."""
        assert self._bins is not None
        return self._bins

    @property
    def keeps_order(self) -> bool:
        """Whether DuckDB writes rows in the order in which it reads them, as it does by default."""
        return bool(self.session.setting("preserve_insertion_order"))

    @property
    def in_bin_order(self) -> str:
        """The clause by which a statement over the bins keeps their order."""
        return "" if self.keeps_order else f"ORDER BY {self._bins}.rowid ASC"

    @property
    def _in_order(self) -> str:
        """The clause by which a statement over `query` keeps the order of the bins."""
        windows = any(isinstance(term, Cumulative | QueryWindow) for term in self._terms.values())
        return "ORDER BY position ASC" if windows or not self.keeps_order else ""

    def replace_table(self, old: str | None, part: str, statement: str, **parts: object) -> str:
        """Run a statement that creates a table, in place of the old one if there is one; return its name."""
        table = old or self.session.table(part)
        self.session.run(render(statement, **{part: table}, **parts))
        return table

    # --- queries over all rows ----------------------------------------------------------------------------------------

    def query(
        self, wanted: Sequence[Scalar] | None = None, more: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[str, dict[str, str]]:
        """Return a query of the rows with all columns that expressions may name, and the columns' names in it.

        Parameters
        ----------
        wanted
            The expressions; by default any. DuckDB plans all columns of a query, of which K classes have some 2 K.
        more
            More columns: name -> table.
        """
        terms = self._used_terms(wanted)
        if self._bins is None:
            roles = [f"{sql} AS {role}" for role, sql in self.roles.items()] + self._unit_weight
            names = list(dict.fromkeys([*self.roles, "weight"]))
            return self._with_terms(f"SELECT {', '.join(roles)} FROM {self.session.source} AS source", names, terms)
        columns = dict.fromkeys(self._row_roles, self._role_table) | self._margins
        columns |= dict.fromkeys(self.gradients.names, str(self.gradients.table))
        if self._pairs is not None:
            columns |= dict.fromkeys(PAIR_SUMS, self._pairs)
        if wanted is not None:
            used = names_used(*wanted, *terms.values())
            by_query = any(isinstance(term, QueryWindow) for term in terms.values())
            columns = {name: table for name, table in columns.items() if name in used or (by_query and name == "qid")}
        columns |= more
        stored = {name: self._stored[key] for name, key in self._fixed_keys.items() if key in self._stored}
        tables = list(dict.fromkeys([*columns.values(), *(table for table, _ in stored.values())])) or [self.bins]
        fixed = [f"{table}.{column} AS {name}" for name, (table, column) in stored.items()]
        selected = [f"{tables[0]}.rowid AS position", *columns, *fixed, *self._unit_weight]
        query = f"SELECT {', '.join(selected)} FROM {' POSITIONAL JOIN '.join(tables)}"
        return self._with_terms(query, list(dict.fromkeys([*columns, *stored, "weight"])), terms)

    def _used_terms(self, wanted: Sequence[Scalar] | None) -> dict[str, Scalar | Cumulative | QueryWindow]:
        """Return the defined terms that these expressions use, directly or through other terms."""
        if wanted is None:
            return self._terms
        used = names_used(*wanted)
        found = {}
        for name, term in reversed(self._terms.items()):  # each may use those before it
            if name in used:
                used |= names_used(term)
                found[name] = term
        return dict(reversed(found.items()))

    @property
    def _role_table(self) -> str:
        """The table that roles are read from: that of the only margin has them too, which saves a join."""
        return next(iter(self._margins.values())) if len(self._margins) == 1 else self.bins

    @property
    def _row_roles(self) -> list[str]:
        """The roles but for the numbers that leaves may have slopes of, which stay with the bins."""
        return [role for role in self.roles if not role.startswith(linear_role(""))]

    @property
    def _unit_weight(self) -> list[str]:
        """The column of weights where the rows bring none; it is not stored."""
        return [] if "weight" in self.roles else ["1e0 AS weight"]

    def _with_terms(
        self, query: str, columns: Sequence[str], terms: Mapping[str, Scalar | Cumulative | QueryWindow]
    ) -> tuple[str, dict[str, str]]:
        names = {name: name for name in columns}
        apart: list[dict[str, None]] = []  # terms in groups, none of which uses another of its group
        for name, term in terms.items():
            if name in names:  # a fixed term that is stored
                continue
            if not apart or not names_used(term).isdisjoint(apart[-1]):
                apart.append({})
            apart[-1][name] = None
        # Windows over the same order, in one SELECT, take one sort.
        for group in apart:
            found = ", ".join(f"{_term_sql(terms[name], names)} AS {name}" for name in group)
            query = f"SELECT *, {found} FROM ({query})"
            names |= {name: name for name in group}
        return query, names

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`."""
        self._terms.update(terms)
        for name, term in terms.items():
            self.roles.pop(name, None)  # what `store_terms` has stored under that name
            key = self._fixed.define(name, term)
            self._fixed_keys.pop(name, None)
            if key is not None:
                self._fixed_keys[name] = key

    def store_terms(self) -> None:
        """Store the terms that are defined, once for all that follows: for rows of a relation as they are."""
        rows, names = self.query()
        columns = [*self.roles, *self._terms]
        self._bins = self.replace_table(
            None, "fixed", "store_terms", rows=rows, columns=", ".join(names[name] for name in columns), in_order=""
        )
        self.roles = {name: name for name in columns}
        self._terms.clear()
        self._fixed, self._fixed_keys = FixedTerms(self.roles), {}

    def _store_fixed_terms(self) -> None:
        """Store the terms that are the same in every round, of those defined so far."""
        new = {name: key for name, key in self._fixed_keys.items() if key not in self._stored}
        if new:
            rows, _ = self.query()
            table = self.replace_table(
                None, "fixed", "store_terms", rows=rows, columns=", ".join(new), in_order="ORDER BY position ASC"
            )  # fmt: skip
            self._stored |= {key: (table, name) for name, key in new.items()}

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`; what is the same in every round is kept."""
        return self._fixed.aggregated(aggregates, self._aggregated_by_query)

    def _aggregated_by_query(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        rows, names = self.query([each.expression for each in aggregates.values()])
        return self._aggregated(aggregates, names, "aggregate", rows=rows)

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """See `Engine.by_score`."""
        return _Scores(self, score, positive, negative)

    def aggregate_scores(
        self, score: Scalar, positive: Scalar, negative: Scalar, aggregates: Mapping[str, Aggregate]
    ) -> dict[str, float | None]:
        """Return aggregates over the distinct scores (see `Engine.by_score`)."""
        rows, names = self.query([score, positive, negative])
        sides = [f"{side}{part}" for side in ("positive", "negative") for part in ("", "_above", "_total")]
        return self._aggregated(
            aggregates, {side: side for side in sides}, "aggregate_scores", rows=rows,
            score=score.to_sql(names), positive=positive.to_sql(names), negative=negative.to_sql(names),
        )  # fmt: skip

    def _aggregated(
        self, aggregates: Mapping[str, Aggregate], names: Mapping[str, str], statement: str, **parts: object
    ) -> dict[str, float | None]:
        wanted = ", ".join(
            f"{a.function.upper()}(CAST({a.expression.to_sql(names)} AS DOUBLE))" for a in aggregates.values()
        )
        row = self.session.rows(render(statement, aggregates=wanted, **parts))[0]
        sums = {name for name, a in aggregates.items() if a.function == "sum"}
        return {n: 0.0 if v is None and n in sums else v for n, v in zip(aggregates, row, strict=True)}

    # --- margins, pairs and gradients ---------------------------------------------------------------------------------

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        names = {role: role for role in self.roles}
        for name, expression in margins.items():
            start = f"CAST({expression.to_sql(names)} AS DOUBLE) AS {name}"
            columns = ", ".join([*(self._row_roles if len(margins) == 1 else ()), start])
            self._margins[name] = self.replace_table(
                None, "margins", "start_margins", columns=columns, bins=self._bins, in_order=self.in_bin_order
            )

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        self._store_fixed_terms()
        rows, names = self.query()
        self._pairs = self.replace_table(
            self._pairs, "pairs", "rank_pairs", rows=rows, bins=self._bins, **pair_parts(pairs, offset, names)
        )

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        self.gradients.drop()  # first, as it is the largest of the tables that each round replaces
        numbers = {**rounded(self, gradients), **others}
        rows, names = self.query()
        self.gradients.store(numbers, rows, names, in_order=self._in_order, bins=self.bins)

    # --- as a shard ---------------------------------------------------------------------------------------------------

    def start_at(self, positions: RowPositions, n_rows: int) -> None:
        """See `ShardEngine.start_at`."""
        self.positions, self.n_all_rows, self.is_shard = positions, n_rows, True

    def compute_gradients_on(
        self, offsets: Mapping[str, float], gradients: Mapping[str, Expression], others: Mapping[str, Scalar]
    ) -> dict[str, float]:
        """See `ShardEngine.compute_gradients_on`."""
        self.gradients.drop()
        rows, names = self.query()
        numbers = {**rounded_on(offsets, gradients), **others}
        self.gradients.store(numbers, rows, names, in_order=self._in_order, bins=self.bins)
        return largest_magnitudes(self, gradients)

    def score_sums(self, score: Scalar, positive: Scalar, negative: Scalar) -> pl.DataFrame:
        """See `ShardEngine.score_sums`."""
        rows, names = self.query([score, positive, negative])
        parts = {"score": score, "positive": positive, "negative": negative}
        statement = render("score_sums", rows=rows, **{name: each.to_sql(names) for name, each in parts.items()})
        return pl.DataFrame(self.session.columns(statement))

    def query_names(self) -> pl.Series:
        """See `ShardEngine.query_names`."""
        assert self._queries is not None
        statement = f"SELECT DISTINCT CAST({self._queries.sql} AS VARCHAR) FROM {self.session.source} AS source"
        return pl.Series([name for (name,) in self.session.rows(statement)], dtype=pl.String)

    def close(self) -> None:
        """See `Engine.close`."""
        self.session.close()


@dataclass(frozen=True)
class _Scores:
    """The distinct scores; each aggregation finds them by a query of its own, which keeps nothing."""

    rows: TableEngine
    score: Scalar
    positive: Scalar
    negative: Scalar

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        return self.rows.aggregate_scores(self.score, self.positive, self.negative, aggregates)


def _present_double(column: str) -> str:
    """Return a column as DOUBLE, NaN as NULL: both mean that the value is missing."""
    return f"CASE WHEN isnan(CAST(source.{column} AS DOUBLE)) THEN NULL ELSE CAST(source.{column} AS DOUBLE) END"


def _term_sql(term: Scalar | Cumulative | QueryWindow, names: Mapping[str, str]) -> str:
    if isinstance(term, QueryWindow):
        return window_sql(term, names)
    if not isinstance(term, Cumulative):
        return term.to_sql(names)
    direction = "DESC" if term.descending else "ASC"
    return f"SUM({term.value.to_sql(names)}) OVER (ORDER BY {term.order.to_sql(names)} {direction})"
