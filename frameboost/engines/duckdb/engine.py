"""The engine inside a database: each step of training is a statement from ``sql/``, run on the user's connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.contract import Cumulative, QueryWindow, Sample
from frameboost.engines.duckdb.binning import SqlColumn, propose_bins, store_bins
from frameboost.engines.duckdb.histograms import HistogramQuery
from frameboost.engines.duckdb.nodes import RowNodes
from frameboost.engines.duckdb.ranking import pair_parts, window_sql
from frameboost.engines.duckdb.rows import Slices
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.engines.duckdb.widths import narrow_number, narrow_roles, read_role
from frameboost.expressions.draws import draw_sql
from frameboost.expressions.duckdb_sql import is_missing
from frameboost.expressions.expression import Expression, float_literal
from frameboost.expressions.ranking_terms import Pairs
from frameboost.expressions.sql_files import render
from frameboost.losses.exact_sums import Aggregate, Scalar, rounded
from frameboost.schema.feature import Feature
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

__all__ = ["FEWEST_SORTED", "DuckDBEngine"]

# DuckDB makes a join of every longer IN. A bit for each code takes the same time however many are set.
_MOST_IN_A_LIST = 4
# Rows are sorted by leaf where there are enough for a second thread, and not where they might not fit the memory.
FEWEST_SORTED, _MOST_SORTED = 1 << 17, 1 << 22


class DuckDBEngine:
    """`Engine` over a DuckDB relation.

    The row state is temporary tables of the caller's connection, which DuckDB spills to disk: the binned columns, and
    beside them margins, gradients and nodes. They are joined by position: all are made from the first by statements
    that keep its order.

    Parameters
    ----------
    session
        Where the relation lives.
    features
        The features, as the model knows them.
    columns
        The same, as the database has them. Physical values are the same in both.
    roles
        What else a column is: role -> quoted column name. There is a ``label``; without ``weight`` every weight is 1.
    queries
        The column that tells the queries apart (role ``qid``), if there is one.
    in_order
        Whether rows must keep the order of the relation, as where they are drawn by their position.
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
        self._role_columns = dict(roles)
        self._roles = {role: _present_double(column) for role, column in roles.items()}
        if queries is not None:
            self._roles["qid"] = f"CASE WHEN {is_missing(queries.type, queries.sql)} THEN NULL ELSE {queries.sql} END"
        self._in_source_order = in_order or queries is not None
        self._bins: str | None = None
        self._codes: str | None = None  # what histograms are made of, if not the bins stored once
        self._margins: dict[str, str] = {}  # a table each, with a column of the margin's name
        self._pairs: str | None = None
        self._gradients: str | None = None
        self._gradient_columns: dict[str, str] = {}  # how each is read from its table
        self._sampled: str | None = None
        self._nodes: RowNodes | None = None
        self._stats: dict[int, Stats] = {}  # of each node
        self._may_sort = False
        self._terms: dict[str, Scalar | Cumulative | QueryWindow] = {}
        self._counts: list[int] | None = None
        self._distinct: list[int] = []  # about how many values each feature has

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
            counts = ", ".join(
                f'COUNT(*) FILTER (WHERE {is_missing(c.type, c.sql)}) AS "{i}"' for i, c in enumerate(self.columns)
            )
            distinct = ", ".join(
                "0" if c.type.is_categorical else f"approx_count_distinct({c.sql})" for c in self.columns
            )
            statement = render("count_missing", source=self.session.source, counts=counts, distinct=distinct)
            counted = list(self.session.run(statement)[0])
            split = 1 + len(self.columns)
            self._counts, self._distinct = counted[:split], counted[split:]
        return self._counts

    # --- rows and what is computed from them --------------------------------------------------------------------------

    def _rows(self, **more: str) -> tuple[str, dict[str, str]]:
        """Return a query of the rows with all that expressions may use, and the names of its columns.

        ``more`` is further columns, each with the table that has it.
        """
        if self._bins is None:
            roles = [f"{sql} AS {role}" for role, sql in self._roles.items()] + self._unit_weight
            names = list(dict.fromkeys([*self._roles, "weight"]))
            return self._with_terms(f"SELECT {', '.join(roles)} FROM {self.session.source} AS source", names)
        columns = dict.fromkeys(self._roles, self._role_table) | self._margins | more
        if self._gradients is not None:
            columns |= dict.fromkeys(self._gradient_columns, self._gradients)
        if self._pairs is not None:
            columns |= dict.fromkeys(("pair_g", "pair_h", "pair_size"), self._pairs)
        read = {role: read_role(role) for role in self._roles} | self._gradient_columns
        tables = [*dict.fromkeys(columns.values())]
        wanted = [f"{tables[0]}.rowid AS position", *(f"{read.get(c, c)} AS {c}" for c in columns), *self._unit_weight]
        slices = self._slices.queries(", ".join(wanted), tables)
        return self._with_terms(" UNION ALL ".join(slices), list(dict.fromkeys([*columns, "weight"])))

    @property
    def _role_table(self) -> str:
        """The table of labels, weights, ...; with the only margins, so that all threads read both."""
        return next(iter(self._margins.values())) if len(self._margins) == 1 else str(self._bins)

    @property
    def _unit_weight(self) -> list[str]:
        """The column of weights where the rows bring none; it is not stored."""
        return [] if "weight" in self._roles else ["1e0 AS weight"]

    def _with_terms(self, query: str, columns: Sequence[str]) -> tuple[str, dict[str, str]]:
        names = {name: name for name in columns}
        for name, term in self._terms.items():
            query = f"SELECT *, {_term_sql(term, names)} AS {name} FROM ({query})"
            names[name] = name
        return query, names

    @property
    def _in_order(self) -> str:
        """What a statement over `_rows` ends with, so that its rows come in the order of the bins."""
        windows = any(isinstance(term, Cumulative | QueryWindow) for term in self._terms.values())
        return "ORDER BY position ASC" if windows or not self._keeps_order else ""

    @property
    def _in_bin_order(self) -> str:
        """The same for a statement over the bins themselves."""
        # By default DuckDB writes rows in the order in which it reads them. Where the user has switched that off, each
        # statement sorts, so that rows still meet by position.
        return "" if self._keeps_order else f"ORDER BY {self._bins}.rowid ASC"

    def define(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.define`."""
        self._terms.update(terms)

    def sum_pairs(self, pairs: Pairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        rows, names = self._rows()
        self._pairs = self._replace(
            self._pairs, "pairs", "rank_pairs", rows=rows, bins=self._bins, **pair_parts(pairs, offset, names)
        )

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        rows, names = self._rows()
        return self._aggregated(aggregates, names, "aggregate", rows=rows)

    def aggregate_scores(
        self, score: Scalar, positive: Scalar, negative: Scalar, aggregates: Mapping[str, Aggregate]
    ) -> dict[str, float | None]:
        """See `Engine.aggregate_scores`."""
        rows, names = self._rows()
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
        row = self.session.run(render(statement, aggregates=wanted, **parts))[0]
        sums = {name for name, a in aggregates.items() if a.function == "sum"}
        return {n: 0.0 if v is None and n in sums else v for n, v in zip(aggregates, row, strict=True)}

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `Engine.propose_bins`."""
        n_rows, *n_missing = self._count_rows()
        columns = enumerate(zip(self.features, self.columns, n_missing, self._distinct, strict=True))
        return [
            given[i]
            if i in given
            else propose_bins(self.session, feature, column, max_bin, n_rows, missing=n > 0, distinct=distinct)
            for i, (feature, column, n, distinct) in columns
        ]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `Engine.bin_columns`."""
        self.layout = SlotLayout(bins)
        self._read_settings()
        roles = narrow_roles(self.session, self._roles, self._role_columns)
        self._bins = store_bins(self.session, bins, self.columns, roles, in_order=self._in_source_order)
        self._may_sort = not self._in_source_order and FEWEST_SORTED <= self.n_rows <= _MOST_SORTED

    def _read_settings(self) -> None:
        self._keeps_order = self.session.setting("preserve_insertion_order")
        self._slices = Slices.of(self.session, self.n_rows) if self._keeps_order else Slices()

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        names = {role: read_role(role) for role in self._roles}
        for name, expression in margins.items():
            start = f"CAST({expression.to_sql(names)} AS DOUBLE) AS {name}"
            columns = ", ".join([*(self._roles if len(margins) == 1 else ()), start])
            self._margins[name] = self._replace(
                None, "margins", "start_margins", columns=columns, bins=self._bins, in_order=self._in_bin_order
            )

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        if self._gradients is not None:  # it goes first, as it is the largest of the tables that are made anew
            self.session.drop(self._gradients)
        self._gradients, self._gradient_columns = None, {}
        if self._may_sort and self._nodes is not None:
            self._sort_rows()
        stored = {**rounded(self, gradients), **others}
        rows, names = self._rows()
        columns = {name: narrow_number(e, name, names) for name, e in stored.items()}
        numbers = ", ".join(f"{column.stored} AS {name}" for name, column in columns.items())
        self._gradients = self._replace(
            None, "gradients", "gradients", rows=rows, numbers=numbers, in_order=self._in_order, bins=self._bins
        )
        self._gradient_columns = {name: column.read for name, column in columns.items()}

    def _sort_rows(self) -> None:
        """Put the rows in the order of the leaves that the last tree has put them in, once."""
        assert self._bins is not None
        self._may_sort = False
        nodes, _ = self._row_nodes.table()
        self._margins = {name: self._sorted(table, nodes) for name, table in self._margins.items()}
        self._bins = self._sorted(self._bins, nodes)
        self._row_nodes.drop()
        self._nodes = None

    def _sorted(self, table: str, nodes: str) -> str:
        in_order = self.session.table("sorted")
        self.session.run(render("sort_rows", table=table, nodes=nodes, in_order=in_order))
        self.session.drop(table)
        return in_order

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        g, h = (self._gradient_columns[f"{x}_{output}"] for x in "gh")
        self._pair, self._h = (str(self._gradients), g, h), f"h_{output}"
        if sample is not None:
            names = {name: name for name in ("g", "h", "draw")}
            self._sampled = self._replace(
                self._sampled, "sampled", "sample_gradients", gradients=self._gradients,
                pair=f"{g} AS g, {h} AS h", draw=draw_sql("rowid", sample.key),
                g=sample.g.to_sql(names), h=sample.h.to_sql(names),
                in_order="" if self._keeps_order else "ORDER BY position ASC",
            )  # fmt: skip
            self._pair, self._h = (self._sampled, "g", "h"), "h"
        self.follow_tree()
        table, g, h = self._pair
        G, H = self.session.run(render("gradient_sums", gradients=table, g=g, h=h))[0]
        self._stats = {0: Stats(G, H)}
        return self._stats[0]

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        if self._nodes is None:
            self._nodes = RowNodes(self.session, str(self._bins), self.goes_left, self._in_bin_order)
        self._nodes.restart()

    def histograms(self, nodes: Sequence[int], out: FloatArray, places: IntArray) -> None:
        """See `Engine.histograms`."""
        first = self._row_nodes.settle(nodes)
        table, g, h = self._pair
        tables = [str(self._codes or self._bins), table, *self._row_nodes.tables]
        query = HistogramQuery(self.session, self.layout, " POSITIONAL JOIN ".join(tables), g, h)
        totals = np.array([(self._stats[node].G, self._stats[node].H) for node in nodes])
        out[places] = query.run(totals, first, everywhere=self._row_nodes.is_root)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self._row_nodes.move(splits)
        for split, left, right in splits.values():
            self._stats |= {left: split.left, right: split.right}

    @property
    def _row_nodes(self) -> RowNodes:
        assert self._nodes is not None
        return self._nodes

    def goes_left(self, split: Split) -> str:
        """Return the condition, over the columns of the bins, that a row goes left."""
        column, missing = f"bin_{split.feature}", self.layout.bins[split.feature].missing
        if split.categories is not None and len(split.categories) <= _MOST_IN_A_LIST:
            return f"{column} {'NOT ' if split.missing_left else ''}IN ({', '.join(map(str, split.categories))})"
        if split.categories is not None:
            bits = "".join("1" if is_left else "0" for is_left in split.goes_left(missing + 1))
            return f"get_bit(CAST('{bits}' AS BIT), {column}) = 1"
        return f"{column} < {split.bin}" + (f" OR {column} = {missing}" if split.missing_left else "")

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        old, nodes = self._margins[margin], self._row_nodes
        self._margins[margin] = self._replace(
            old, "margins", "add_leaves", rows=" POSITIONAL JOIN ".join([*nodes.sources, old]),
            table=old, margin=margin,
            leaves=nodes.case({node: float_literal(value) for node, value in values.items()}),
            in_order=self._in_bin_order,
        )  # fmt: skip

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        nodes, node_of = self._row_nodes.table()
        rows, names = self._rows(node=nodes, **({"h": self._pair[0]} if self._h == "h" else {}))
        if self._h != "h":
            rows = f"SELECT *, {self._h} AS h FROM ({rows})"
        parts = {"rows": rows, "value": value.to_sql(names), "alpha": float_literal(alpha)}
        if weight is None:
            statement = render("node_quantiles", **parts)
        else:
            statement = render("node_weighted_quantiles", weight=weight.to_sql(names), **parts)
        return {node_of[number]: quantile for number, quantile in self.session.run(statement)}

    def _replace(self, old: str | None, part: str, statement: str, **parts: object) -> str:
        """Run a statement that makes a table, or its next version in place of the old one; return its name."""
        table = old or self.session.table(part)
        self.session.run(render(statement, **{part: table}, **parts))
        return table

    def close(self) -> None:
        """See `Engine.close`."""
        self.session.close()


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
