"""Gradients in a database: a table of g and h for each output, and the pair that a tree is grown on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from frameboost.engines.contract import Sample
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.expressions.draws import draw_sql
from frameboost.expressions.places import Places
from frameboost.expressions.sql_files import render
from frameboost.losses.exact_sums import Scalar
from frameboost.splits.split import Stats

__all__ = ["GradientTable", "TreePair"]


class TreePair(NamedTuple):
    """The g and h that a tree is grown on: their table, and the names of the two columns."""

    table: str
    g: str
    h: str


class GradientTable:
    """The gradients of a round, row by row in the order of the bins.

    Attributes
    ----------
    table
        Its name, None before the first round and while the next is computed.
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
        """Compute numbers over a query of the rows into a new table."""
        wanted = ", ".join(f"CAST({number.to_sql(names)} AS DOUBLE) AS {name}" for name, number in numbers.items())
        table = self._session.table("gradients")
        self._session.run(render("gradients", gradients=table, rows=rows, numbers=wanted, in_order=in_order, bins=bins))
        self.table, self.names = table, tuple(numbers)

    def of_tree(self, output: int, sample: Sample | None, places: Places, in_order: str) -> TreePair:
        """Return the pair of an output; with a sample, from a table that has zeros in the rows left out.

        Rows are drawn by their position among all rows, in ``places``.
        """
        pair = TreePair(str(self.table), f"g_{output}", f"h_{output}")
        if sample is None:
            return pair
        self._sampled = self._sampled or self._session.table("sampled")
        names = {name: name for name in ("g", "h", "draw")}
        self._session.run(
            render(
                "sample_gradients", sampled=self._sampled, gradients=pair.table, pair=f"{pair.g} AS g, {pair.h} AS h",
                draw=draw_sql(places.sql("rowid"), sample.key), g=sample.g.to_sql(names), h=sample.h.to_sql(names),
                in_order=in_order,
            )
        )  # fmt: skip
        return TreePair(self._sampled, "g", "h")

    def sums(self, pair: TreePair) -> Stats:
        """Return the sums of a pair over all rows."""
        G, H = self._session.rows(render("gradient_sums", gradients=pair.table, g=pair.g, h=pair.h))[0]
        return Stats(G, H)
