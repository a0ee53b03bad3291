"""The engine inside a database: each step of training is a statement from ``sql/``, run on the user's connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.binning import Bins, SlotLayout, sample_condition
from frameboost.engines.contract import Aggregate, FloatArray, Split, Stats
from frameboost.engines.session import DuckDBSession
from frameboost.expressions import Expression, float_literal
from frameboost.gradients import gridded_gradients
from frameboost.schema import Feature
from frameboost.sql_files import render
from frameboost.sql_text import is_missing, is_present, literal, physical_sql, string_literal
from frameboost.types import FeatureType, Physical

__all__ = ["SqlColumn", "SqlEngine"]


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column as the engine reads it: its quoted name, and the type that it has in the database."""

    name: str
    type: FeatureType

    @property
    def sql(self) -> str:
        """The column, as an expression over the source."""
        column = f"source.{self.name}"
        return f"CAST({column} AS VARCHAR)" if self.type.is_categorical else column  # an ENUM has its own order


class SqlEngine:
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
    target, weight
        Quoted column names.
    """

    def __init__(
        self,
        session: DuckDBSession,
        features: Sequence[Feature],
        columns: Sequence[SqlColumn],
        target: str,
        weight: str | None,
    ) -> None:
        self.session = session
        self.features = tuple(features)
        self.columns = tuple(columns)
        self._label = _present_double(target)
        self._weight = "1e0" if weight is None else _present_double(weight)
        self._rows = f"(SELECT {self._label} AS label, {self._weight} AS weight FROM {session.source} AS source)"
        self._counts: list[int] | None = None

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
            self._counts = list(self.session.run(render("count_missing", source=self.session.source, counts=counts))[0])
        return self._counts

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        names = {name: name for name in ("label", "weight", "margin")}
        wanted = ", ".join(
            f"{a.function.upper()}(CAST({a.expression.to_sql(names)} AS DOUBLE))" for a in aggregates.values()
        )
        row = self.session.run(render("aggregate", aggregates=wanted, rows=self._rows))[0]
        sums = {name for name, a in aggregates.items() if a.function == "sum"}
        return {n: 0.0 if v is None and n in sums else v for n, v in zip(aggregates, row, strict=True)}

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `Engine.propose_bins`."""
        n_rows, *n_missing = self._count_rows()
        source, condition = self.session.source, "TRUE"
        sample = sample_condition(n_rows)
        if sample is not None:
            modulus, multiplier, bound = sample
            source = f"(SELECT *, row_number() OVER () - 1 AS frameboost_position FROM {source})"
            condition = f"source.frameboost_position % {modulus} * {multiplier} % {2**32} < {bound}"
        bins = []
        for i, (feature, column) in enumerate(zip(self.features, self.columns, strict=True)):
            missing = n_missing[i] > 0
            if i in given:
                bins.append(given[i])
            elif feature.type.is_categorical:
                bins.append(Bins(self._with_categories(feature, column), has_missing=missing))
            else:
                statement = render(
                    "propose_cuts",
                    source=source,
                    column=column.sql,
                    is_present=is_present(column.type, column.sql),
                    sample=condition,
                    max_bin=max_bin - missing,
                    physical=physical_sql(column.type, "value"),
                )
                cuts = tuple(_from_database(column.type, cut) for (cut,) in self.session.run(statement))
                bins.append(Bins(feature, cuts, has_missing=missing))
        return bins

    def _with_categories(self, feature: Feature, column: SqlColumn) -> Feature:
        rows = self.session.run(render("categories", source=self.session.source, column=column.sql))
        return Feature(feature.name, feature.type, tuple(sorted(category for (category,) in rows)))

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `Engine.bin_columns`."""
        self.layout = SlotLayout(bins)
        keeps_order = self.session.setting("preserve_insertion_order")
        self._bins = self.session.table("bins")
        # By default DuckDB writes rows in the order in which it reads them. Where the user has switched that off, each
        # statement sorts, so that rows still meet by position.
        self._in_order = "" if keeps_order else f"ORDER BY {self._bins}.rowid"
        code_type = "UTINYINT" if max(b.largest_code for b in bins) <= 255 else "INTEGER"
        codes, joins = [], []
        for i, (b, column) in enumerate(zip(bins, self.columns, strict=True)):
            if b.feature.type.is_categorical:
                joins.append(self._category_join(f"category_{i}", b, column))
                code = f"COALESCE(category_{i}.code, {b.missing})"
            else:
                code = (
                    f"CASE WHEN {is_missing(column.type, column.sql)} THEN {b.missing} ELSE {_bin(column, b.cuts)} END"
                )
            codes.append(f"CAST({code} AS {code_type}) AS bin_{i}")
        self.session.run(
            render(
                "bin_columns",
                bins=self._bins,
                codes=", ".join(codes),
                source=self.session.source,
                joins="\n".join(joins),
                label=self._label,
                weight=self._weight,
            )
        )

    def _category_join(self, alias: str, bins: Bins, column: SqlColumn) -> str:
        """Return a join that numbers a string feature's categories, by a table made for it."""
        table = self.session.table(alias)
        values = ", ".join(string_literal(category) for category in bins.feature.categories)
        self.session.run(
            f"CREATE TEMP TABLE {table} AS "
            f"SELECT CAST(unnest([{values}]) AS VARCHAR) AS category, unnest(range({bins.count})) AS code"
        )
        return f"LEFT JOIN {table} AS {alias} ON {alias}.category = {column.sql}"

    def start_margins(self, margin: float) -> None:
        """See `Engine.start_margins`."""
        self._margins = self.session.table("margins")
        self.session.run(render("start_margins", margins=self._margins, margin=float_literal(margin), bins=self._bins))
        self._rows = f"{self._bins} POSITIONAL JOIN {self._margins}"
        self._gradients: str | None = None
        self._nodes: str | None = None

    # --- once a tree --------------------------------------------------------------------------------------------------

    def compute_gradients(self, gradient: Expression, hessian: Expression) -> Stats:
        """See `Engine.compute_gradients`."""
        names = {name: name for name in ("label", "weight", "margin")}
        g, h = gridded_gradients(self, gradient, hessian)
        self._gradients = self._replace(
            self._gradients, "gradients", "gradients", bins=self._bins, margins=self._margins,
            g=g.to_sql(names), h=h.to_sql(names), in_order=self._in_order,
        )  # fmt: skip
        self._nodes = self._replace(self._nodes, "nodes", "start_tree", gradients=self._gradients)
        G, H = self.session.run(render("gradient_sums", gradients=self._gradients))[0]
        return Stats(G, H)

    def histograms(self, nodes: Sequence[int]) -> FloatArray:
        """See `Engine.histograms`."""
        statement = "\nUNION ALL\n".join(
            render(
                "histograms",
                bins=self._bins,
                gradients=self._gradients,
                nodes=self._nodes,
                feature=i,
                bin=f"bin_{i}",
                open_nodes=", ".join(map(str, nodes)),
            )
            for i in range(len(self.features))
        )
        sums = self.session.columns(statement)
        out = np.zeros((len(nodes), self.layout.n_slots, 2))
        place = np.zeros(max(nodes) + 1, dtype=np.int64)
        place[list(nodes)] = np.arange(len(nodes))
        slots = self.layout.offsets[sums["feature"]] + sums["bin"]
        rows = place[sums["node"]]
        out[rows, slots, 0] = sums["g"]
        out[rows, slots, 1] = sums["h"]
        return out

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        moves = " ".join(
            f"WHEN {node} THEN CASE WHEN {self._goes_left(split)} THEN {left} ELSE {right} END"
            for node, (split, left, right) in splits.items()
        )
        self._nodes = self._replace(
            self._nodes, "next_nodes", "apply_splits",
            bins=self._bins, nodes=self._nodes, moves=moves, in_order=self._in_order,
        )  # fmt: skip

    def _goes_left(self, split: Split) -> str:
        column, missing = f"bin_{split.feature}", self.layout.bins[split.feature].missing
        if split.categories is not None:
            return f"{column} {'NOT ' if split.missing_left else ''}IN ({', '.join(map(str, split.categories))})"
        return f"{column} < {split.bin}" + (f" OR {column} = {missing}" if split.missing_left else "")

    def add_leaf_values(self, values: Mapping[int, float]) -> None:
        """See `Engine.add_leaf_values`."""
        leaves = " ".join(f"WHEN {node} THEN {float_literal(value)}" for node, value in values.items())
        margins = self._replace(
            self._margins, "next_margins", "add_leaves",
            bins=self._bins, margins=self._margins, nodes=self._nodes, leaves=leaves, in_order=self._in_order,
        )  # fmt: skip
        self._margins = margins
        self._rows = f"{self._bins} POSITIONAL JOIN {self._margins}"

    def _replace(self, old: str | None, part: str, statement: str, **parts: object) -> str:
        """Run a statement that makes the next version of a table; drop the version before it."""
        new = self.session.table(part)
        self.session.run(render(statement, **{part: new}, **parts))
        if old is not None:
            self.session.drop(old)
        return new

    def close(self) -> None:
        """See `Engine.close`."""
        self.session.close()


def _present_double(column: str) -> str:
    """Return a column as DOUBLE, NaN as NULL: both mean that the value is missing."""
    return f"CASE WHEN isnan(CAST(source.{column} AS DOUBLE)) THEN NULL ELSE CAST(source.{column} AS DOUBLE) END"


def _from_database(kind: FeatureType, value: object) -> Physical:
    """Return a physical value that `physical_sql` has brought over."""
    if kind.is_float:
        return float(value) + 0.0  # type: ignore[arg-type]  # -0.0 and 0.0 are one value; write it as 0.0
    if isinstance(value, str):  # a decimal's point is dropped: its digits are the scaled integer
        return int(value.replace(".", ""))
    return int(value)  # type: ignore[call-overload, no-any-return]


def _bin(column: SqlColumn, cuts: Sequence[Physical], first: int = 0) -> str:
    """Return the number of the bin as a binary search: a balanced CASE over the cuts."""
    if not cuts:
        return str(first)
    middle = len(cuts) // 2
    below = _bin(column, cuts[:middle], first)
    above = _bin(column, cuts[middle + 1 :], first + middle + 1)
    return f"CASE WHEN {column.sql} < {literal(column.type, cuts[middle])} THEN {below} ELSE {above} END"
