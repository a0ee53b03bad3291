"""The engine inside a database: each step of training is a statement from ``sql/``, run on the user's connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frameboost.binning import Bins, SlotLayout
from frameboost.engines.contract import Aggregate, FloatArray, Split, Stats
from frameboost.engines.session import DuckDBSession
from frameboost.engines.sql_binning import SqlColumn, propose_bins, store_bins
from frameboost.expressions import Expression, float_literal
from frameboost.gradients import gridded_gradients
from frameboost.schema import Feature
from frameboost.sql_files import render
from frameboost.sql_text import is_missing

__all__ = ["SqlEngine"]


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
        columns = enumerate(zip(self.features, self.columns, n_missing, strict=True))
        return [
            given[i] if i in given else propose_bins(self.session, feature, column, max_bin, n_rows, missing=n > 0)
            for i, (feature, column, n) in columns
        ]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `Engine.bin_columns`."""
        self.layout = SlotLayout(bins)
        self._bins = store_bins(self.session, bins, self.columns, self._label, self._weight)
        # By default DuckDB writes rows in the order in which it reads them. Where the user has switched that off, each
        # statement sorts, so that rows still meet by position.
        keeps_order = self.session.setting("preserve_insertion_order")
        self._in_order = "" if keeps_order else f"ORDER BY {self._bins}.rowid ASC"

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
        stride = max(b.count for b in self.layout.bins) + 1
        open_nodes = self.session.table("open_nodes")
        first_keys = " ".join(f"WHEN {node} THEN {place * stride}" for place, node in enumerate(nodes))
        self.session.run(
            render(
                "open_nodes",
                bins=self._bins,
                nodes=self._nodes,
                first_keys=first_keys,
                key_type=_key_type(len(nodes) * stride),
                open_nodes=open_nodes,
                in_order=self._in_order,
            )
        )
        one_by_one = (
            render("histograms", bins=self._bins, gradients=self._gradients, open_nodes=open_nodes, feature=i, bin=name)
            for i, name in enumerate(f"bin_{i}" for i in range(len(self.features)))
        )
        sums = self.session.columns("\nUNION ALL\n".join(one_by_one))
        self.session.drop(open_nodes)
        place, code = np.divmod(sums["key"].astype(np.int64), stride)
        out = np.zeros((len(nodes), self.layout.n_slots, 2))
        slots = self.layout.offsets[sums["feature"]] + code
        out[place, slots, 0] = sums["g"]
        out[place, slots, 1] = sums["h"]
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


def _key_type(n_keys: int) -> str:
    """Return the smallest type for that many keys; narrow ones are grouped faster."""
    return "USMALLINT" if n_keys <= 2**16 else "UINTEGER" if n_keys <= 2**32 else "BIGINT"
