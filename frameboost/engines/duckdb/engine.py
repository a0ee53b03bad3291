"""Gradient boosting inside a database: each step of training is a statement of ``sql/``, on the user's connection.

1. Cuts and codes: the bin index of every value, with labels and weights, is stored in a temporary table, the *bins*
   (`frameboost.engines.duckdb.binning`). All other tables are made from it and joined to it by position.
2. Margins: a table for each output.
3. For each round, a table of g and h, from labels and margins, rounded so that sums are exact (`GradientTable`).
4. For each level of a tree, g and h are summed by node and bin: as group-bys (`HistogramQuery`), or by a kernel over
   the rows that the database reads (`BatchSums`). From these histograms training chooses splits.
5. Splits are deferred until nodes of rows are read, and then executed as one ``CASE`` (`RowNodes`). 6. The leaf value
of every row is added to its margin.

`TableEngine` has the rows: labels, margins, terms of metrics, aggregates. `DuckDBEngine` grows trees, in the order of
these steps. Their parts follow below.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.codes import ValueCounts
from frameboost.data.duckdb_session import SHOWN, DuckDBSession
from frameboost.engines.contract import Capabilities, Cumulative, QueryWindow, Sample, linear_role
from frameboost.engines.duckdb.binning import (
    MAX_AT_ONCE,
    CountedRows,
    SqlColumn,
    batches_of,
    count_values,
    propose_bins,
    read_categories,
    sample_columns,
    store_bins,
)
from frameboost.engines.duckdb.linear import LeafQuery, linear_values
from frameboost.engines.fixed_terms import FixedTerms, names_used, terms_apart, used_terms
from frameboost.engines.query_costs import kernel_pays
from frameboost.engines.ranking.queries import Queries
from frameboost.errors import ParameterError
from frameboost.expressions.draws import RowPositions, draw_sql
from frameboost.expressions.duckdb_sql import is_missing, render
from frameboost.expressions.expression import Expression, float_literal
from frameboost.expressions.grid import (
    Aggregate,
    Aggregator,
    Rounded,
    Scalar,
    grid_offsets,
    largest_magnitudes,
    rounded_on,
)
from frameboost.losses.loss import PAIR_SUMS, RankingPairs
from frameboost.runtime.workers import Workers, kept_workers
from frameboost.schema.types import Feature, Physical
from frameboost.splits.split import FloatArray, IntArray, Split, Stats
from frameboost.trees.linear_leaves import LinearColumns

__all__ = [
    "MAX_CACHED_KEYS", "MIN_SORTED", "BatchSums", "BinSums", "DuckDBEngine", "FeatureTables", "HistogramQuery",
    "KeyCodes", "Nodes", "RowNodes", "TreeGradients", "narrowest_integer", "sums_by_key_pay",
]  # fmt: skip

# With fewer rows sorting does not pay; more might not fit in memory.
MIN_SORTED, _MAX_SORTED = 1 << 17, 1 << 22
# Features that are summed by group-bys in one pass over the rows: fewer would leave threads idle, more would take
# memory for all sums.
_MIN_SUMMED, _MAX_SUMMED = 4, 32
# DuckDB's perfect hash aggregate indexes an array by the key, as long as keys have no more bits than this setting. That
# is five times as fast as hashing. So many nodes are summed in parts, each of which reads all rows, up to a limit.
_MAX_KEY_BITS = "perfect_ht_threshold"
_MAX_PARTS = 5
# The most features to read at once for the kernel: a batch has 122,880 rows.
_MAX_READ = 256
# The sums of more keys than this do not stay in the L2 cache.
MAX_CACHED_KEYS = 1 << 15
# With fewer rows for each sum by node and key, rows are added to the bins of their key's codes directly.
_MIN_ROWS_PER_SUM = 2.0
# The most sums by node and key of one dimension, of 16 bytes each.
_MAX_SUMS = 1 << 22
# The most splits to put off: a deeper CASE is too deep for DuckDB.
_MAX_PUT_OFF = 32
# The most old splits for each new one to walk from the root again. That reads the bins alone, on all threads; bins and
# nodes joined by position are read by one thread.
_MAX_WALKED_AGAIN = 3
# DuckDB turns a longer IN into a join. A bit string with a bit for every code takes the same time for any set.
_MAX_IN_A_LIST = 4


# --- where the features are -------------------------------------------------------------------------------------------


class FeatureTables(Protocol):
    """The tables of the features: one relation, or those of a star.

    Attributes
    ----------
    has_keys
        Whether rows have keys, and are therefore summed by kernels.
    sorted_by
        The key that the rows are sorted by once bins are stored, empty without one.
    """

    has_keys: bool
    sorted_by: str

    @property
    def features(self) -> Sequence[int]:
        """The features with codes by row."""

    @property
    def dimensions(self) -> Sequence[KeyCodes]:
        """The features with codes by key, once bins are stored."""

    def count_missing(self) -> list[int]:
        """Return the number of rows, then the number of missing values of each feature."""

    def counted_rows(self) -> list[tuple[CountedRows, Sequence[int]]]:
        """Return the tables that cuts come from, each with the indices of its features."""

    def store_bins(self, bins: Sequence[Bins], roles: Mapping[str, str], *, in_order: bool, may_repeat: bool) -> str:
        """Store the codes and roles of every row; return the table's name.

        If codes ``may_repeat``, rows may have codes beside the key that has them too.
        """

    def goes_left(self, split: Split, missing: int) -> str | None:
        """Return the condition for a row to go left by key, None if it has the code; ``missing`` is the last code."""


class OneTable:
    """`FeatureTables` of one relation, the source of its session."""

    has_keys = False
    dimensions = ()
    sorted_by = ""

    def __init__(self, session: DuckDBSession, columns: Sequence[SqlColumn]) -> None:
        self._session = session
        self._columns = tuple(columns)
        self._counts: list[int] = []

    @property
    def features(self) -> Sequence[int]:
        """See `FeatureTables`: all features."""
        return range(len(self._columns))

    def count_missing(self) -> list[int]:
        """See `FeatureTables.count_missing`; counted once."""
        if not self._counts:
            for columns in batches_of(self._columns) or [()]:
                counts = "".join(
                    f', COUNT(*) FILTER (WHERE {is_missing(c.type, c.sql)}) AS "{i}"' for i, c in enumerate(columns)
                )
                statement = render("count_missing", source=self._session.source, counts=counts)
                n_rows, *missing = self._session.rows(statement)[0]
                self._counts = [n_rows, *self._counts[1:], *missing]
        return self._counts

    def counted_rows(self) -> list[tuple[CountedRows, Sequence[int]]]:
        """See `FeatureTables.counted_rows`."""
        return [(CountedRows.of_source(self._session, self.count_missing()[0]), self.features)]

    def store_bins(self, bins: Sequence[Bins], roles: Mapping[str, str], *, in_order: bool, may_repeat: bool) -> str:
        """See `FeatureTables.store_bins`."""
        return store_bins(self._session, bins, self._columns, roles, in_order=in_order)

    def goes_left(self, split: Split, missing: int) -> None:
        """See `FeatureTables.goes_left`: every row has all codes."""


# --- rows -------------------------------------------------------------------------------------------------------------


class TableEngine:
    """The rows of an engine over a DuckDB relation.

    They are temporary tables of the caller's connection, which DuckDB spills to disk: the binned columns, margins,
    gradients and nodes. Tables are joined by position: all are made from the first by statements that keep its order.

    Parameters
    ----------
    session
        The session of the relation.
    features
        The features of the model.
    columns
        The same features as columns of the database, with the same physical values.
    roles
        Role -> quoted column name. ``label`` is required; without ``weight`` every weight is 1.
    queries
        The column of the role ``qid``, if there is one.
    in_order
        Whether rows must keep the order of the relation, for example to be sampled by position.
    tables
        The tables of the features; the relation by default.
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
        tables: FeatureTables | None = None,
    ) -> None:
        self.session = session
        self.features = tuple(features)
        self.columns = tuple(columns)
        self.tables = OneTable(session, columns) if tables is None else tables
        # Expressions over the source.
        self.roles = {role: _present_double(column) for role, column in roles.items()}
        if queries is not None:
            self.roles["qid"] = f"CASE WHEN {is_missing(queries.type, queries.sql)} THEN NULL ELSE {queries.sql} END"
        self.in_source_order = in_order or queries is not None
        self.gradients = GradientTable(session)
        self._bins: str | None = None
        self._margins: dict[str, str] = {}  # margin -> its table, which has a column of the same name
        self._by_query: Queries | None = None
        self._added: dict[str, str] = {}  # column of every row that is computed apart -> its table
        self._terms: dict[str, Scalar | Cumulative | QueryWindow] = {}
        self._fixed = FixedTerms(self.roles)
        self._fixed_keys: dict[str, Hashable] = {}  # of the fixed terms that are defined, by name
        self._stored: dict[Hashable, tuple[str, str]] = {}  # of those that are stored, by key: table and column
        self._queries = queries
        self.positions = RowPositions()  # of a shard's rows among all
        self.n_all_rows = 0
        self.is_shard = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.tables.count_missing()[0]

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        return self.tables.count_missing()[1:]

    # --- tables -------------------------------------------------------------------------------------------------------

    @property
    def bins(self) -> str:
        """The table that all others derive from: codes or values, and the roles."""
        assert self._bins is not None
        return self._bins

    @property
    def keeps_order(self) -> bool:
        """Whether DuckDB writes rows in the order of reading, as it does by default."""
        return bool(self.session.setting("preserve_insertion_order"))

    @property
    def in_bin_order(self) -> str:
        """The clause that keeps the order of the bins in a statement over them."""
        return "" if self.keeps_order else f"ORDER BY {self._bins}.rowid ASC"

    @property
    def _in_order(self) -> str:
        """The clause that keeps the order of the bins in a statement over `query`."""
        windows = any(isinstance(term, Cumulative | QueryWindow) for term in self._terms.values())
        return "ORDER BY position ASC" if windows or not self.keeps_order else ""

    def replace_table(self, old: str | None, part: str, statement: str, **parts: object) -> str:
        """Run a statement that creates a table, and drop the old one, if any; return the name."""
        table = old or self.session.table(part)
        self.session.run(render(statement, **{part: table}, **parts))
        return table

    # --- queries over all rows ----------------------------------------------------------------------------------------

    def query(
        self, expressions: Sequence[Scalar] | None = None, more: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[str, dict[str, str]]:
        """Return a query of the rows with all columns that expressions may use, and the names of these columns.

        Parameters
        ----------
        expressions
            The expressions; any by default. DuckDB plans all columns of a query, about 2 K for K classes.
        more
            Additional columns: name -> table.
        """
        terms = self._terms if expressions is None else used_terms(self._terms, expressions)
        if self._bins is None:
            roles = [f"{sql} AS {role}" for role, sql in self.roles.items()] + self._unit_weight
            names = list(dict.fromkeys([*self.roles, "weight"]))
            return self._with_terms(f"SELECT {', '.join(roles)} FROM {self.session.source} AS source", names, terms)
        # The numbers that leaves may have slopes of are read only where an expression names them.
        columns = {} if expressions is None else dict.fromkeys(self.roles, self.bins)
        columns |= dict.fromkeys(self._row_roles, self._role_table) | self._margins
        columns |= dict.fromkeys(self.gradients.names, str(self.gradients.table))
        columns |= self._added
        if expressions is not None:
            used = names_used(*expressions, *terms.values())
            by_query = any(isinstance(term, QueryWindow) for term in terms.values())
            columns = {name: table for name, table in columns.items() if name in used or (by_query and name == "qid")}
        columns |= more
        stored = {name: self._stored[key] for name, key in self._fixed_keys.items() if key in self._stored}
        tables = list(dict.fromkeys([*columns.values(), *(table for table, _ in stored.values())])) or [self.bins]
        fixed = [f"{table}.{column} AS {name}" for name, (table, column) in stored.items()]
        selected = [f"{tables[0]}.rowid AS position", *columns, *fixed, *self._unit_weight]
        query = f"SELECT {', '.join(selected)} FROM {' POSITIONAL JOIN '.join(tables)}"
        return self._with_terms(query, list(dict.fromkeys([*columns, *stored, "weight"])), terms)

    @property
    def _role_table(self) -> str:
        """The table of the roles; if all margins are in one table they are too, which saves a join."""
        tables = set(self._margins.values())
        return tables.pop() if len(tables) == 1 else self.bins

    @property
    def _row_roles(self) -> list[str]:
        """The roles except the numbers of linear leaves, which stay in the bins."""
        return [role for role in self.roles if not role.startswith(linear_role(""))]

    @property
    def _unit_weight(self) -> list[str]:
        """The weight column of unweighted rows; it is not stored."""
        return [] if "weight" in self.roles else ["1e0 AS weight"]

    def _with_terms(
        self, query: str, columns: Sequence[str], terms: Mapping[str, Scalar | Cumulative | QueryWindow]
    ) -> tuple[str, dict[str, str]]:
        names = {name: name for name in columns}
        # Windows over the same order, in one SELECT, take one sort.
        # A fixed term that is stored is among the names.
        for group in terms_apart({name: term for name, term in terms.items() if name not in names}):
            added = ", ".join(f"{_term_sql(terms[name], names)} AS {name}" for name in group)
            query = f"SELECT *, {added} FROM ({query})"
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
        """Store the defined terms for all later calls, for rows with constant margins."""
        rows, names = self.query()
        columns = [*self.roles, *self._terms]
        self._bins = self.replace_table(
            None, "fixed", "store_terms", rows=rows, columns=", ".join(names[name] for name in columns), in_order=""
        )
        self.roles = {name: name for name in columns}
        self._terms.clear()
        self._fixed, self._fixed_keys = FixedTerms(self.roles), {}

    def _store_fixed_terms(self) -> None:
        """Store the terms defined so far that are constant over rounds."""
        new = {name: key for name, key in self._fixed_keys.items() if key not in self._stored}
        if new:
            rows, _ = self.query()
            table = self.replace_table(
                None, "fixed", "store_terms", rows=rows, columns=", ".join(new), in_order="ORDER BY position ASC"
            )  # fmt: skip
            self._stored |= {key: (table, name) for name, key in new.items()}

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`; results that are constant over rounds are cached."""
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
            aggregates, {name: name for name in ("score", *sides)}, "aggregate_scores", rows=rows,
            score=score.to_sql(names), positive=positive.to_sql(names), negative=negative.to_sql(names),
        )  # fmt: skip

    def _aggregated(
        self, aggregates: Mapping[str, Aggregate], names: Mapping[str, str], statement: str, **parts: object
    ) -> dict[str, float | None]:
        columns = ", ".join(
            f"{a.function.upper()}(CAST({a.expression.to_sql(names)} AS DOUBLE))" for a in aggregates.values()
        )
        row = self.session.rows(render(statement, aggregates=columns, **parts))[0]
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
        if pairs.seed is not None:  # SQL has no draws of pairs
            self.sum_pairs_in_memory(pairs, offset, kept_workers())
            return
        self._store_fixed_terms()
        rows, names = self.query()
        of_pair = {f"{name}_{side}": f"{side}.{names[name]}" for side in "ij" for name in pairs.columns}
        table = self.replace_table(
            self._added.get(PAIR_SUMS[0]), "pairs", "rank_pairs", rows=rows, bins=self._bins,
            columns=", ".join(names[name] for name in pairs.columns), truncation=pairs.truncation,
            size=Rounded(pairs.size, offset).to_sql(of_pair),
            curvature=Rounded(pairs.curvature, offset).to_sql(of_pair),
        )  # fmt: skip
        self._added |= dict.fromkeys(PAIR_SUMS, table)

    def sum_pairs_in_memory(self, pairs: RankingPairs, offset: float, workers: Workers) -> None:
        """Do the same by a kernel over arrays."""
        # It needs numba, as what the package imports at once does not.
        from frameboost.engines.ranking.pairs import columns_read, pair_sums

        self._store_fixed_terms()
        columns = self.computed({name: Expression(name, (name,)) for name in columns_read(pairs)})
        if self._by_query is None:
            queries = self.session.columns(f"SELECT qid FROM {self.bins} {self.in_bin_order}")["qid"]
            _, query_of = np.unique(queries, return_inverse=True)
            self._by_query = Queries(query_of, workers)
        sums = pair_sums(self._by_query, columns, pairs, offset, workers)
        self.store_arrays(dict(zip(PAIR_SUMS, sums, strict=True)))

    def computed(self, values: Mapping[str, Scalar]) -> dict[str, FloatArray]:
        """See `ArrayRows.computed`."""
        rows, names = self.query(list(values.values()))
        numbers = ", ".join(f"CAST({each.to_sql(names)} AS DOUBLE) AS {name}" for name, each in values.items())
        is_binned = self._bins is not None
        table = self.session.columns(f"SELECT {numbers}{', position' * is_binned} FROM ({rows})")
        arrays = {}
        for name in values:
            arrays[name] = np.empty(len(table[name]))
            arrays[name][table["position"] if is_binned else slice(None)] = np.ma.filled(table[name], np.nan)
        return arrays

    def store_arrays(self, columns: Mapping[str, FloatArray]) -> None:
        """See `ArrayRows.store_arrays`."""
        names = list(columns)
        if names[0] not in self._added and not self.session.can_show():
            raise ParameterError(
                "the connection reads no arrays of Python, into which the objective is computed; allow it by SET "
                "python_enable_replacements = true, or write the objective as SQL: fb.Objective(gradient=..., "
                "hessian=...)"
            )
        self.session.show(**columns)
        table = self.replace_table(
            self._added.get(names[0]), "added", "store_arrays", arrays=SHOWN, columns=", ".join(names)
        )
        self.session.hide(*names)
        self._added |= dict.fromkeys(names, table)

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`."""
        self.gradients.drop()  # first: the largest of the tables that each round replaces
        largest = largest_magnitudes(self, gradients)
        numbers = {**rounded_on(offsets or grid_offsets(largest, self.n_rows), gradients), **others}
        rows, names = self.query()
        self.gradients.store(numbers, rows, names, in_order=self._in_order, bins=self.bins)
        return largest

    # --- as a shard ---------------------------------------------------------------------------------------------------

    def start_at(self, positions: RowPositions, n_rows: int) -> None:
        """See `ShardEngine.start_at`."""
        self.positions, self.n_all_rows, self.is_shard = positions, n_rows, True

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
    """The distinct scores, recomputed for each aggregation."""

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
    """Return a column as DOUBLE, with NaN as NULL: both are missing values."""
    return f"CASE WHEN isnan(CAST(source.{column} AS DOUBLE)) THEN NULL ELSE CAST(source.{column} AS DOUBLE) END"


def _term_sql(term: Scalar | Cumulative | QueryWindow, names: Mapping[str, str]) -> str:
    if isinstance(term, QueryWindow):
        return _window_sql(term, names)
    if not isinstance(term, Cumulative):
        return term.to_sql(names)
    direction = "DESC" if term.descending else "ASC"
    return f"SUM({term.value.to_sql(names)}) OVER (ORDER BY {term.order.to_sql(names)} {direction})"


def _window_sql(window: QueryWindow, names: Mapping[str, str]) -> str:
    """Return a window function over each row's query; rows have the columns ``qid`` and ``position``."""
    value = window.value.to_sql(names)
    match window.function:
        case "rank":  # ties: the row that comes first
            rank = f"row_number() OVER (PARTITION BY qid ORDER BY {value} DESC, position ASC)"
            return f"CAST({rank} - 1 AS DOUBLE)"
        case "running":
            assert window.order is not None
            return f"SUM({value}) OVER (PARTITION BY qid ORDER BY {window.order.to_sql(names)} ASC)"
    return f"{window.function.upper()}({value}) OVER (PARTITION BY qid)"


# --- trees ------------------------------------------------------------------------------------------------------------


class DuckDBEngine(TableEngine):
    """`HistogramEngine` over a DuckDB relation."""

    layout: SlotLayout
    gh: TreeGradients
    _codes: str | None = None  # the table of codes, where it is not that of the bins
    _nodes: RowNodes | None = None
    _stats: dict[int, Stats]  # of each node of the tree
    _outputs: dict[int, FloatArray]  # these of each output, (outputs, 2), in a tree for all
    _gh_of_outputs: list[TreeGradients]  # of each output
    _may_sort: bool = False
    holds_codes: bool = False  # whether codes are held in memory, and all else that trees are grown from

    def capabilities(self, n_trees: int) -> Capabilities:
        """See `Capabilities`."""
        return Capabilities(takes_batches=True)

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        n_missing, bins = self.count_missing(), dict(user_bins)
        for rows, features in self.tables.counted_rows():
            for group in batches_of([i for i in features if i not in bins]):
                read, columns = rows, [self.columns[i] for i in group]
                if len(features) > MAX_AT_ONCE:
                    read, columns = rows.copied(self.session, dict(zip(group, columns, strict=True)))
                table = None if read is rows and rows.n is None else read.source  # of all rows, not only those sampled
                samples = sample_columns(self.session, columns, max_bin, table)
                for i, column, sample in zip(group, columns, samples, strict=True):
                    bins[i] = propose_bins(
                        self.session, read, self.features[i], column, max_bin, missing=n_missing[i] > 0, sample=sample
                    )
                if read is not rows:
                    self.session.drop(read.source)
        return [bins[i] for i in range(len(self.features))]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.layout = SlotLayout(bins)
        self._bins = self.tables.store_bins(
            bins, self.roles, in_order=self.in_source_order, may_repeat=not self.holds_codes
        )
        if self.session.has_copy:  # that nothing reads any more
            self.session.drop(self.session.source)
        may_sort = not self.in_source_order and not self.tables.sorted_by
        self._may_sort = may_sort and MIN_SORTED <= self.n_rows <= _MAX_SORTED

    def close(self) -> None:
        """See `Engine.close`."""
        self._nodes = None  # it holds a method of this object: the connection would stay open until the next gc.collect
        super().close()

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`."""
        if self._may_sort and self._nodes is not None:
            self.gradients.drop()
            self._sort_rows()
        return super().compute_gradients(gradients, others, offsets)

    def _sort_rows(self) -> None:
        """Sort the rows by the leaves of the first tree, once.

        Later trees have similar splits, so the rows of a node are then in few chunks, and DuckDB skips the others.
        """
        self._may_sort = False
        nodes, _ = self.nodes.table()
        self._margins = {name: self._sorted(table, nodes) for name, table in self._margins.items()}
        self._bins = self._sorted(self.bins, nodes)
        self.nodes.drop()
        self._nodes = None

    def _sorted(self, table: str, nodes: str) -> str:
        in_order = self.replace_table(None, "in_order", "sort_rows", table=table, nodes=nodes)
        self.session.drop(table)
        return in_order

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self.gh = self.gradients.of_tree(output, sample, self.positions, self._tree_order)
        self._gh_of_outputs = [self.gh]
        self.reset_nodes()
        self._stats = {0: self.sums(self.gh)}
        return self._stats[0]

    def sums(self, gh: TreeGradients) -> Stats:
        """Return the sums of g and h over all rows."""
        return self.gradients.sums(gh)

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        outputs = range(self.gradients.n_outputs)
        self._gh_of_outputs = self.gradients.of_outputs(outputs, sample, self.positions, self._tree_order)
        self.gh = self._gh_of_outputs[0]  # h of any output tells which rows are in the sample
        self.reset_nodes()
        totals = [self.gradients.sums(gh) for gh in self._gh_of_outputs]
        self._outputs = {0: np.array(totals)}
        self._stats = {0: Stats(*self._outputs[0].sum(axis=0).tolist())}
        return totals

    @property
    def _tree_order(self) -> str:
        return "" if self.keeps_order else "ORDER BY position ASC"

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        if self._nodes is None:
            # In the order of a key the rows of a chunk are in many nodes.
            most = 0 if self.tables.sorted_by else _MAX_WALKED_AGAIN
            self._nodes = RowNodes(self.session, self.bins, self.goes_left, self.in_bin_order, most)
        self._nodes.restart()
        self._stats = {}
        self._outputs = {}

    @property
    def nodes(self) -> Nodes:
        """The nodes of the rows."""
        return self.row_nodes

    @property
    def row_nodes(self) -> RowNodes:
        """The nodes of the rows, in a table."""
        assert self._nodes is not None
        return self._nodes

    @property
    def n_threads(self) -> int:
        """The threads of the database."""
        return int(self.session.setting("threads"))

    @property
    def sums_by_kernel(self) -> bool:
        """Whether histograms are summed by kernels instead of group-bys."""
        return self.tables.has_keys or kernel_pays(self.n_threads)

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        if self.sums_by_kernel:
            self._sum_by_kernel(nodes, (self.gh.g, self.gh.h), out, indices)
            return
        # The sums of a shard's own rows are not known.
        totals = None if self.is_shard else np.array([(self._stats[node].G, self._stats[node].H) for node in nodes])
        out[indices] = self._sums_by_bin(nodes, self.gh.numbers, totals)

    def _sum_by_kernel(self, nodes: Sequence[int], gh: tuple[str, str], out: FloatArray, indices: IntArray) -> None:
        """Write the histograms of two numbers per row."""
        first, rows = self._rows_of(nodes)
        sums = BatchSums(self.session, self.layout, self.tables.features, self.tables.dimensions)
        is_root = self.row_nodes.is_root
        out[indices] = sums.histograms(rows, gh, first, len(nodes), self.rows_in(nodes), is_root=is_root)

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `VectorEngine.vector_histograms`."""
        numbers = {name: name for gh in self._gh_of_outputs for name in (gh.g, gh.h)}
        sums = self._sums_by_bin(nodes, numbers, np.stack([self._outputs[node].ravel() for node in nodes]))
        out[indices, : len(self._gh_of_outputs)] = sums.reshape(*sums.shape[:2], -1, 2).swapaxes(1, 2)

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        is_there = " OR ".join(f"{name} <> 0" for gh in self._gh_of_outputs for name in (gh.g, gh.h))
        counted = f"CASE WHEN {is_there} THEN 1.0 ELSE 0.0 END"
        out[indices] = 0.0
        if self.sums_by_kernel:
            self._sum_by_kernel(nodes, (counted, "0.0"), out, indices)
        else:
            out[indices, :, 0] = self._sums_by_bin(nodes, {"n": counted}, None)[..., 0]

    def rows_in(self, nodes: Sequence[int]) -> float:
        """Return the approximate number of rows in some nodes."""
        return sum(self._stats[node].H for node in nodes) / max(self._stats[0].H, 1e-300) * self.n_rows

    def _sums_by_bin(self, nodes: Sequence[int], numbers: Mapping[str, str], totals: FloatArray | None) -> FloatArray:
        """Return the sums of numbers by bin, (nodes, slots, numbers)."""
        first, rows = self._rows_of(nodes)
        query = HistogramQuery(self.session, self.layout, rows, numbers)
        return query.run(len(nodes), totals, first, is_root=self.row_nodes.is_root)

    def _rows_of(self, nodes: Sequence[int]) -> tuple[int, str]:
        """Return the first of the consecutive numbers of the nodes, and the tables of codes, g and h, and nodes."""
        first = self.row_nodes.settle(nodes)
        return first, " POSITIONAL JOIN ".join([self._codes or self.bins, self.gh.table, *self.row_nodes.tables])

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self.nodes.move(splits)
        for node, (split, left, right) in splits.items():
            self._stats |= {left: split.left, right: split.right}
            if split.left_outputs is not None and node in self._outputs:
                of_left = split.left_outputs
                self._outputs |= {left: of_left, right: self._outputs[node] - of_left}

    def goes_left(self, split: Split) -> str:
        """Return the condition for a row to go left, over the columns of the bins."""
        column, missing = f"bin_{split.feature}", self.layout.bins[split.feature].missing
        by_key = self.tables.goes_left(split, missing)
        if by_key is not None:
            return by_key
        if split.categories is not None and len(split.categories) <= _MAX_IN_A_LIST:
            return f"{column} {'NOT ' if split.missing_left else ''}IN ({', '.join(map(str, split.categories))})"
        if split.categories is not None:
            bits = "".join("1" if is_left else "0" for is_left in split.goes_left(missing + 1))
            return f"get_bit(CAST('{bits}' AS BIT), {column}) = 1"
        return f"{column} < {split.bin}" + (f" OR {column} = {missing}" if split.missing_left else "")

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        self._add({node: float_literal(value) for node, value in values.items()}, margin)

    def _add(self, values: Mapping[int, str], margin: str) -> None:
        """Add the leaf value of each row, as SQL, to its margin."""
        self._add_to(margin, self.nodes.case(values), self.nodes.sources)

    def _add_to(self, margin: str, leaves: str, sources: Sequence[str]) -> None:
        """Add an expression over tables joined by position to a margin."""
        old = self._margins[margin]
        self._margins[margin] = self.replace_table(
            old, "margins", "add_leaves", rows=" POSITIONAL JOIN ".join([*sources, old]),
            table=old, margin=margin, leaves=leaves, in_order=self.in_bin_order,
        )  # fmt: skip

    # --- linear leaves ------------------------------------------------------------------------------------------------

    def leaf_ranges(self, leaves: IntArray, features: IntArray) -> FloatArray:
        """See `LinearEngine.leaf_ranges`."""
        return np.stack([query.ranges(leaves, features) for query in self._leaf_queries()])

    def leaf_sums(self, grids: LinearColumns, offsets: FloatArray) -> FloatArray:
        """See `LinearEngine.leaf_sums`."""
        of_outputs = zip(self._leaf_queries(), offsets, strict=True)
        return np.stack([query.sums(grids, of_output) for query, of_output in of_outputs])

    def _leaf_queries(self) -> Iterator[LeafQuery]:
        nodes = self.nodes
        for gh in self._gh_of_outputs:
            rows = " POSITIONAL JOIN ".join([*nodes.sources, gh.table])
            yield LeafQuery(self.session, rows, gh.g, gh.h, nodes.leaves(), nodes.case)

    def add_linear_leaves(self, values: Mapping[int, float], linear: LinearColumns, margin: str) -> None:
        """See `LinearEngine.add_linear_leaves`."""
        old, parts = self._margins[margin], linear_values(values, linear)
        if not self.keeps_order:
            parts["besides"] += ", position"
        self._margins[margin] = self.replace_table(
            old, "margins", "add_linear_leaves", rows=" POSITIONAL JOIN ".join([*self.nodes.sources, old]),
            table=old, margin=margin, leaf=self.nodes.case({node: str(node) for node in values}),
            position="" if self.keeps_order else f", {self._bins}.rowid AS position",
            in_order="" if self.keeps_order else "ORDER BY position ASC", **parts,
        )  # fmt: skip

    # --- leaves of quantiles ------------------------------------------------------------------------------------------

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        rows, names, node_of = self._rows_by_node()
        parts = {"rows": rows, "value": value.to_sql(names), "alpha": float_literal(alpha)}
        if weight is None:
            statement = render("node_quantiles", **parts)
        else:
            statement = render("node_weighted_quantiles", weight=weight.to_sql(names), **parts)
        return {node_of[number]: quantile for number, quantile in self.session.rows(statement)}

    def _rows_by_node(self) -> tuple[str, dict[str, str], Mapping[int, int]]:
        """Return a query of all rows with ``node`` and ``h``, its columns, and the node of each number in ``node``."""
        table, node_of = self.nodes.table()
        rows, names = self.query(more={"node": table, self.gh.h: self.gh.table})
        return f"SELECT *, {self.gh.h} AS h FROM ({rows})", names, node_of

    # --- as a shard ---------------------------------------------------------------------------------------------------

    def count_values(self, features: Sequence[int]) -> list[ValueCounts]:
        """See `ShardEngine.count_values`."""
        return [count_values(self.session, self.columns[i], self.n_all_rows, self.positions) for i in features]

    def categories(self, feature: int) -> list[Physical]:
        """See `ShardEngine.categories`."""
        bins = read_categories(self.session, self.features[feature], self.columns[feature], missing=False)
        return list(bins.feature.categories)

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        rows, names, node_of = self._rows_by_node()
        named = {"value": value, **({} if weight is None else {"weight": weight})}
        numbers = ", ".join(f"CAST({each.to_sql(names)} AS DOUBLE) AS {name}" for name, each in named.items())
        values = pl.DataFrame(self.session.columns(render("node_values", rows=rows, numbers=numbers)))
        return values.with_columns(pl.col("node").cast(pl.Int32).replace_strict(dict(node_of), return_dtype=pl.Int32))


# --- gradients --------------------------------------------------------------------------------------------------------


class TreeGradients(NamedTuple):
    """The g and h of the current tree: their table, and the names of the two columns."""

    table: str
    g: str
    h: str

    @property
    def numbers(self) -> dict[str, str]:
        """The columns, renamed to ``g`` and ``h``."""
        return {"g": self.g, "h": self.h}


class GradientTable:
    """The gradients of a round, in the row order of the bins.

    Attributes
    ----------
    table
        Its name, None before the first round and during the computation of the next. `SHOWN` if the columns are arrays.
    names
        Its columns: ``g_0``, ``h_0``, ``g_1``, ...
    """

    def __init__(self, session: DuckDBSession) -> None:
        self.table: str | None = None
        self.names: tuple[str, ...] = ()
        self._session = session
        self._sampled: str | None = None

    def drop(self) -> None:
        """Drop the table."""
        if self.table is not None:
            self._session.drop(self.table)
        self.table, self.names = None, ()

    def store(
        self, numbers: Mapping[str, Scalar], rows: str, names: Mapping[str, str], *, in_order: str, bins: str
    ) -> None:
        """Store numbers computed over a query of the rows in a new table."""
        columns = ", ".join(f"CAST({number.to_sql(names)} AS DOUBLE) AS {name}" for name, number in numbers.items())
        table = self._session.table("gradients")
        self._session.run(
            render("gradients", gradients=table, rows=rows, numbers=columns, in_order=in_order, bins=bins)
        )
        self.table, self.names = table, tuple(numbers)

    def of_tree(self, output: int, sample: Sample | None, positions: RowPositions, in_order: str) -> TreeGradients:
        """Return g and h of an output; with a sample, from a table with zeros in other rows.

        Rows are drawn by their position among all rows (``positions``).
        """
        return self.of_outputs([output], sample, positions, in_order)[0]

    def of_outputs(
        self, outputs: Iterable[int], sample: Sample | None, positions: RowPositions, in_order: str
    ) -> list[TreeGradients]:  # fmt: skip
        """Return g and h of several outputs, in one table; each row is drawn once."""
        stored = [TreeGradients(str(self.table), f"g_{output}", f"h_{output}") for output in outputs]
        if sample is None:
            return stored
        self._sampled = self._sampled or self._session.table("sampled")
        drawn = [TreeGradients(self._sampled, f"drawn_{gh.g}", f"drawn_{gh.h}") for gh in stored]
        numbers = []
        of_all = {name: name for gh in stored for name in (gh.g, gh.h)}
        for gh, into in zip(stored, drawn, strict=True):
            names = {**of_all, "g": gh.g, "h": gh.h, "draw": "draw"}
            numbers += [f"{sample.g.to_sql(names)} AS {into.g}", f"{sample.h.to_sql(names)} AS {into.h}"]
        self._session.run(
            render(
                "sample_gradients", sampled=self._sampled, gradients=self.table, numbers=", ".join(numbers),
                read=", ".join(f"{gh.g}, {gh.h}" for gh in stored),
                draw=draw_sql(positions.sql("rowid"), sample.key), in_order=in_order,
            )
        )  # fmt: skip
        return drawn

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return sum(name.startswith("g_") for name in self.names)

    def sums(self, gh: TreeGradients) -> Stats:
        """Return the sums of g and h over all rows."""
        G, H = self._session.rows(render("gradient_sums", gradients=gh.table, g=gh.g, h=gh.h))[0]
        return Stats(G, H)


# --- histograms by group-bys: the rows of some nodes are read once for each group of features -------------------------


@dataclass(frozen=True, slots=True)
class HistogramQuery:
    """A query of histograms.

    Attributes
    ----------
    session
        The session.
    layout
        The bins of all features.
    rows
        The tables, joined by position: bin_0, ..., the numbers and, unless all rows are in one node, ``node``.
    numbers
        The columns to sum, by the names of their sums: ``g`` and ``h``, or g and h of each output in turn.
    """

    session: DuckDBSession
    layout: SlotLayout
    rows: str
    numbers: Mapping[str, str]

    def run(self, n_nodes: int, totals: FloatArray | None, first: int, *, is_root: bool) -> FloatArray:
        """Return the histograms of consecutive nodes from ``first``, float64 (nodes, slots, numbers).

        ``totals`` are the sums of each node, (nodes, numbers), if known, which makes the query faster. With
        ``is_root``, all rows are in the only node, and there is no table of nodes.
        """
        strides = np.array(self.layout.strides())
        if totals is not None and n_nodes > 1:
            strides = self._shared(strides)
        parts = []
        for part in self._parts(n_nodes, int(strides.min())):
            is_of_part = "TRUE" if is_root else f"node BETWEEN {first + part[0]} AND {first + part[-1]}"
            groups = self._groups(len(strides))
            sums = self.session.columns(
                "\nUNION ALL\n".join(self._statement(group, first, n_nodes, strides, is_of_part) for group in groups)
            )
            index, code = np.divmod(sums["key"].astype(np.int64), strides[sums["feature"]])
            slots = self.layout.offsets[sums["feature"]] + code
            by_key = np.zeros((len(part) + 1, self.layout.n_slots, len(self.numbers)))
            for i, name in enumerate(self.numbers):
                by_key[index - part[0], slots, i] = sums[name]
            known = None if totals is None else totals[part.start : part.stop]
            parts.append(by_key[:-1] if known is None else self._separated(by_key, known, strides))
        return np.concatenate(parts)

    @staticmethod
    def _shared(strides: IntArray) -> IntArray:
        """Return strides between the keys of adjacent nodes at which the nodes share a key.

        They are the number of codes minus 1: the last code of a node shares its key with the first code of the next
        node. So the keys of 16 nodes of 256 codes, 0 to 4080, fit into a perfect hash table of 12 bits.
        """
        return np.maximum(strides - 1, 1)

    def _separated(self, sums: FloatArray, totals: FloatArray, strides: IntArray) -> FloatArray:
        """Return the histograms from the sums by key, if a node's last code shares the key of the next node's first.

        The sum of a node's last code is its total minus its other sums, which is exact as all sums are on a grid.
        Example: three codes of two nodes have the sums 1, 2, 3 and 4, 5, 6. By key they are 1, 2, 3 + 4, 5, 6. With the
        first total, 6, the last sum of the first node is 6 - (1 + 2) = 3, and the first sum of the second is 7 - 3 = 4.
        """
        offsets = self.layout.offsets
        last_codes = np.array([b.largest_code for b in self.layout.bins])
        (shared,) = np.nonzero(last_codes >= strides)
        firsts = offsets[shared]
        lasts = firsts + last_codes[shared]
        for index, total in enumerate(totals):
            last = total - np.add.reduceat(sums[index], offsets[:-1])[shared]
            sums[index, lasts] = last
            sums[index + 1, firsts] -= last
        return sums[:-1]

    def _parts(self, n_nodes: int, stride: int) -> Iterator[range]:
        """Yield the indices of the nodes to sum at a time."""
        at_once = max(1, (2 ** int(self.session.setting(_MAX_KEY_BITS)) - 3) // stride)
        n_parts = -(-n_nodes // at_once)
        if n_parts > _MAX_PARTS:
            n_parts = 1
        bounds = [n_nodes * i // n_parts for i in range(n_parts + 1)]
        return (range(start, end) for start, end in itertools.pairwise(bounds))

    def _groups(self, n_features: int) -> Iterator[range]:
        """Yield the features to sum in one pass over the rows; passes run in parallel."""
        size = -(-n_features // int(self.session.setting("threads")))
        size = min(max(size, _MIN_SUMMED), _MAX_SUMMED)
        return (range(start, min(start + size, n_features)) for start in range(0, n_features, size))

    def _statement(self, features: Sequence[int], first: int, n_nodes: int, strides: IntArray, is_of_part: str) -> str:
        """Return the statement for the sums of some features by key, the index of the node * stride + code."""
        added = ", ".join(f"SUM({name}) AS {name}" for name in self.numbers)
        keys = ", ".join(f"key_{i} := {self._key(i, strides[i], first, n_nodes)}" for i in features)
        return render(
            "histograms",
            rows=self.rows,
            keys=keys,
            numbers=", ".join(f"{column} AS {name}" for name, column in self.numbers.items()),
            is_asked=is_of_part,
            sums="\nUNION ALL\n".join(render("sum_by_bin", feature=i, numbers=added) for i in features),
        )

    @staticmethod
    def _key(feature: int, stride: int, first: int, n_nodes: int) -> str:
        """Return the key in the narrowest type: grouping by narrow keys is faster."""
        if n_nodes == 1:
            return f"bin_{feature}"
        n_keys = n_nodes * stride + 1
        kind = "USMALLINT" if n_keys <= 2**16 else "UINTEGER" if n_keys <= 2**32 else "BIGINT"
        return f"CAST(node - {first} AS {kind}) * {stride} + bin_{feature}"


# --- histograms by a kernel, of the rows that the database reads in batches -------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class KeyCodes:
    """Features that rows have by a key instead of by codes, as those of a dimension of a star.

    Attributes
    ----------
    column
        The key column of the bins.
    features
        The indices of the features.
    codes
        Their codes by key, (keys, features), of uint8 or uint32.
    """

    column: str
    features: tuple[int, ...]
    codes: npt.NDArray[np.unsignedinteger]

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return len(self.codes)


class BinSums:
    """Histograms of some nodes, accumulated over batches of rows.

    Parameters
    ----------
    layout
        The bins of all features.
    dimensions
        The features with codes by key.
    n_nodes
        The number of nodes.
    n_rows
        The approximate number of their rows, to choose the faster way for each dimension.
    """

    def __init__(self, layout: SlotLayout, dimensions: Sequence[KeyCodes], n_nodes: int, n_rows: float) -> None:
        self._layout = layout
        self._dimensions = dimensions
        self._slots = [layout.offsets[list(each.features)] for each in dimensions]
        self._out = np.zeros((n_nodes, layout.n_slots, 2))
        self._by_key = [
            np.zeros((n_nodes, each.n_keys, 2)) if sums_by_key_pay(each.n_keys, n_nodes, n_rows) else None
            for each in dimensions
        ]

    def add(self, stored: Sequence[int], columns: Sequence[Any], indices: Any, g: Any, h: Any) -> None:
        """Add a batch of rows.

        Parameters
        ----------
        stored
            The features with codes in the first columns; keys of the dimensions may follow.
        columns
            Unsigned codes and keys.
        indices, g, h
            The node index, g and h of each row.
        """
        from frameboost.binning.arrays import add_codes
        from frameboost.engines.duckdb.star.kernels import add_codes_of_keys

        for feature, codes in zip(stored, columns, strict=False):
            add_codes(indices, codes, self._layout.offsets[feature], g, h, self._out)
        of_dimensions = zip(self._dimensions, self._by_key, self._slots, columns[len(stored) :], strict=False)
        for dimension, by_key, slots, keys in of_dimensions:
            if by_key is not None:
                add_codes(indices, keys, 0, g, h, by_key)
            else:
                add_codes_of_keys(indices, keys, g, h, dimension.codes, slots, self._out)

    def result(self) -> FloatArray:
        """Return the histograms, (nodes, slots, 2)."""
        from frameboost.engines.duckdb.star.kernels import add_sums_of_keys

        for dimension, by_key, slots in zip(self._dimensions, self._by_key, self._slots, strict=True):
            if by_key is not None:
                add_sums_of_keys(by_key, dimension.codes, slots, self._out)
        return self._out


def sums_by_key_pay(n_keys: int, n_nodes: int, n_rows: float) -> bool:
    """Whether to sum rows by node and key first, and the sums then by bin of the keys' codes.

    >>> sums_by_key_pay(200, 1, 1e6), sums_by_key_pay(200, 16, 5e3), sums_by_key_pay(10**6, 1, 1e9)
    (True, False, False)
    """
    n_sums = n_keys * n_nodes
    return n_keys <= MAX_CACHED_KEYS and n_sums <= _MAX_SUMS and n_rows >= _MIN_ROWS_PER_SUM * n_sums


@dataclass(frozen=True)
class BatchSums:
    """A query of rows that a kernel sums by bin, batch by batch.

    Only two batches and the sums are in memory; the rows stay in the database. With few threads this takes half the
    time of group-bys (see `kernel_pays`).

    Over a star, a fact is read with its codes and one key per dimension, instead of the codes of all attributes. Sums
    by key are then added to the bins of the keys' codes, which are in memory. A group-by in the database takes three
    times as long to sum by 20 attributes, and as long to sum by a million keys alone.

    Attributes
    ----------
    session
        Where the rows are.
    layout
        The bins of all features.
    stored
        The features with codes by row.
    dimensions
        The features with codes by key.
    """

    session: DuckDBSession
    layout: SlotLayout
    stored: Sequence[int]
    dimensions: Sequence[KeyCodes] = ()

    def histograms(
        self, rows: str, gh: tuple[str, str], first: int, n_nodes: int, n_rows: float, *, is_root: bool
    ) -> FloatArray:
        """Return the histograms of consecutive nodes from ``first``, (nodes, slots, 2).

        Parameters
        ----------
        rows
            The tables, joined by position: ``bin_0``, ``key_0``, ..., g and h and, unless ``is_root``, ``node``.
        gh
            The columns of g and h.
        first, n_nodes
            The nodes.
        n_rows
            The approximate number of their rows.
        is_root
            Whether all rows are in the only node.
        """
        sums = BinSums(self.layout, self.dimensions, n_nodes, n_rows)
        keys = [each.column for each in self.dimensions]
        for stored, columns in self._passes(keys):
            statement, dtypes = self._statement(rows, gh, first, n_nodes, columns, is_root=is_root)
            # Closed at once if Ctrl-C is pressed, as the connection takes no other statement before.
            with closing(self.session.batches(statement, dtypes)) as batches:
                for indices, g, h, *read in batches:
                    sums.add(stored, read, indices, g, h)
        return sums.result()

    def _passes(self, keys: Sequence[str]) -> Iterator[tuple[Sequence[int], list[tuple[str, str]]]]:
        """Yield the features of each pass over the rows, and the columns to read with their types, keys last."""
        bins = self.layout.bins
        for start in range(0, max(1, len(self.stored)), _MAX_READ):
            stored = self.stored[start : start + _MAX_READ]
            columns = [(f"bin_{i}", "UTINYINT" if bins[i].largest_code < 256 else "UINTEGER") for i in stored]
            is_last = start + _MAX_READ >= len(self.stored)
            yield stored, columns + [(key, "UINTEGER") for key in keys if is_last]

    def _statement(
        self, rows: str, gh: tuple[str, str], first: int, n_nodes: int, columns: Sequence[tuple[str, str]], *,
        is_root: bool,
    ) -> tuple[str, list[npt.DTypeLike]]:  # fmt: skip
        """Return the statement that reads the rows, and the dtypes of the columns."""
        node = "0" if is_root else f"node - {first}"
        columns = [(node, "UINTEGER"), (gh[0], "DOUBLE"), (gh[1], "DOUBLE"), *columns]
        statement = render(
            "read_rows", rows=rows,
            columns=", ".join(f"CAST({column} AS {kind}) AS column_{i}" for i, (column, kind) in enumerate(columns)),
            is_asked="TRUE" if is_root else f"node BETWEEN {first} AND {first + n_nodes - 1}", in_order="",
        )  # fmt: skip
        dtypes = {"UTINYINT": np.uint8, "UINTEGER": np.uint32, "DOUBLE": np.float64}
        return statement, [dtypes[kind] for _, kind in columns]


# --- nodes ------------------------------------------------------------------------------------------------------------


class Nodes(Protocol):
    """The interface to the nodes of rows: in a table, or in memory (`frameboost.engines.duckdb.memory`)."""

    def restart(self) -> None:
        """Put all rows into the root of a new tree."""

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Defer splits: node -> (split, left child, right child)."""

    def table(self) -> tuple[str, Mapping[int, int]]:
        """Return a table with the column ``node``, and the nodes of its numbers."""

    @property
    def sources(self) -> list[str]:
        """The tables that `case` reads."""

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of each row's node after all splits."""

    def leaves(self) -> list[int]:
        """Return the current leaves of the tree."""

    def drop(self) -> None:
        """Drop the tables that statements read."""


class RowNodes:
    """The nodes of all rows while a tree grows, in a table.

    Splits are deferred until the children are read, so a level takes one statement, and the last level none: its splits
    become part of the expression that adds leaf values. The statement also numbers nodes, the requested ones
    consecutively, so that ``node BETWEEN`` selects their rows, and node and bin form one dense key.

    Example: the root 0 was split into 1 and 2, these into 3, 4 and 5, 6, and histograms of 3 and 6 are requested (4 and
    5 follow by subtraction). The rows get the numbers ::

        node     3  6  4  5
        number   0  1  2  3          node BETWEEN 0 AND 1

    At the next level, rows descend from the root again, and all numbers are new: ``CASE WHEN bin_0 < 2 THEN CASE ...``
    reads only the bins. With many old splits per new one, as in best-first growth, rows descend from the nodes in the
    table. Then, if 4 is split into 7 and 8 and 8 is requested, only rows with the number 2 change: 8 gets the number 4,
    and 7 gets 5. Numbers no longer used stay free until the next tree.

    Parameters
    ----------
    session
        Where the rows are.
    bins
        The table with the columns that splits compare.
    goes_left
        A function that returns the condition of a split for a row to go left.
    in_order
        The clause that keeps the order of the bins in a statement over them.
    max_walked_again
        The most old splits for each new one to walk from the root again.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, goes_left: Callable[[Split], str], in_order: str,
        max_walked_again: int = _MAX_WALKED_AGAIN,
    ) -> None:  # fmt: skip
        self._session = session
        self._bins = bins
        self._goes_left = goes_left
        self._in_order = in_order
        self._max_walked_again = max_walked_again
        self._table: str | None = None
        self.restart()

    def restart(self) -> None:
        """Put all rows into the root of a new tree, which outdates the table."""
        self._is_stored = False  # whether there is a table of this tree; without, all rows are in the root
        self._numbers = {0: 0}  # node -> its number in the table
        self._next = 1
        self._splits: dict[int, tuple[Split, int, int]] = {}  # all splits of the tree
        self._n_followed = 0  # the splits that the table has followed

    @property
    def tables(self) -> list[str]:
        """The table with the column ``node``, once rows have left the root."""
        return [self._table] if self._is_stored and self._table is not None else []

    @property
    def is_root(self) -> bool:
        """Whether all rows are still in the root, and there is no table."""
        return not self._is_stored

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Defer splits: node -> (split, left child, right child)."""
        if self._n_new > _MAX_PUT_OFF and not splits.keys() <= self._numbers.keys():
            self.settle()
        self._splits |= splits

    def settle(self, together: Sequence[int] = ()) -> int:
        """Execute the splits, and number the nodes in ``together`` consecutively; return their first number."""
        numbers = [self._numbers.get(node) for node in together]
        first = numbers[0] if numbers and numbers[0] is not None else 0
        if not self._n_new and numbers == list(range(first, first + len(together))):
            return first
        old = {} if self._walks_from_root else self._numbers
        moved = [node for node in old or [0] if node in self._splits or node in together]
        first = self._next if old else 0
        fresh = dict.fromkeys([*together, *(leaf for node in moved for leaf in self._leaves(node))])
        numbered = {node: first + i for i, node in enumerate(fresh)}
        self._next = first + len(fresh)
        kind = narrowest_integer(self._next - 1)
        moves = self._case({node: f"CAST({n} AS {kind})" for node, n in numbered.items()}, moved)
        self._store("apply_splits", rows=" POSITIONAL JOIN ".join(self.sources), moves=moves)
        self._numbers = {node: n for node, n in old.items() if node not in moved} | numbered
        self._n_followed = len(self._splits)
        return first

    def table(self) -> tuple[str, dict[int, int]]:
        """Return a table with the column ``node``, and the nodes of its numbers."""
        self.settle()
        if not self._is_stored:
            self._store("start_tree", bins=self._bins)
        return str(self._table), {number: node for node, number in self._numbers.items()}

    @property
    def sources(self) -> list[str]:
        """The tables that `case` reads."""
        return [self._bins] if self._walks_from_root else [self._bins, *self.tables]

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of each row's node after all splits."""
        return self._case(values, [*self._numbers])

    def leaves(self) -> list[int]:
        """Return the current leaves of the tree."""
        return list(self._leaves(0))

    @property
    def _n_new(self) -> int:
        return len(self._splits) - self._n_followed

    @property
    def _walks_from_root(self) -> bool:
        return self.is_root or self._n_followed <= self._max_walked_again * self._n_new

    def _case(self, values: Mapping[int, str], nodes: Sequence[int]) -> str:
        """Return the expression for some nodes of the table; other nodes keep their number."""
        if self._walks_from_root:
            return self._below(0, values)
        ordered = sorted(nodes, key=self._weight, reverse=True)  # most rows match one of the first
        cases = " ".join(f"WHEN {self._numbers[node]} THEN {self._below(node, values)}" for node in ordered)
        keeps = "" if len(ordered) == len(self._numbers) else " ELSE node"
        return f"CASE node {cases}{keeps} END"

    def _below(self, node: int, values: Mapping[int, str]) -> str:
        if node not in self._splits:
            return values[node]
        split, left, right = self._splits[node]
        then, otherwise = self._below(left, values), self._below(right, values)
        return f"CASE WHEN {self._goes_left(split)} THEN {then} ELSE {otherwise} END"

    def _leaves(self, node: int) -> Iterator[int]:
        if node not in self._splits:
            yield node
            return
        _, *children = self._splits[node]
        for child in children:
            yield from self._leaves(child)

    def _weight(self, node: int) -> float:
        if node not in self._splits:
            return 0.0
        split = self._splits[node][0]
        return split.left.H + split.right.H

    def _store(self, statement: str, **parts: object) -> None:
        if self._table is None:
            self._table = self._session.table("nodes")
        self._session.run(render(statement, nodes=self._table, in_order=self._in_order, **parts))
        self._is_stored = True

    def drop(self) -> None:
        """Drop the table."""
        if self._table is not None:
            self._session.drop(self._table)
            self._table = None


def narrowest_integer(largest: int) -> str:
    """Return the narrowest type for integers from 0 to ``largest``."""
    return "UTINYINT" if largest < 2**8 else "USMALLINT" if largest < 2**16 else "INTEGER"
