"""Gradients in a database: a table of g and h for each output, and the pair that a tree is grown on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.contract import Sample
from frameboost.expressions.draws import RowPositions, draw_sql
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.grid import Scalar
from frameboost.splits.split import Stats

__all__ = ["GradientTable", "TreeGradients"]


class TreeGradients(NamedTuple):
    """The g and h that a tree is grown on: their table, and the names of the two columns."""

    table: str
    g: str
    h: str

    @property
    def numbers(self) -> dict[str, str]:
        """The two columns as ``g`` and ``h``."""
        return {"g": self.g, "h": self.h}


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

    def of_tree(self, output: int, sample: Sample | None, positions: RowPositions, in_order: str) -> TreeGradients:
        """Return g and h of an output; with a sample, from a table that has zeros in the rows left out.

        Rows are drawn by their position among all rows (``positions``).
        """
        return self.of_outputs([output], sample, positions, in_order)[0]

    def of_outputs(
        self, outputs: Iterable[int], sample: Sample | None, positions: RowPositions, in_order: str
    ) -> list[TreeGradients]:  # fmt: skip
        """Return g and h of several outputs, all in one table; a row of a sample is drawn once."""
        stored = [TreeGradients(str(self.table), f"g_{output}", f"h_{output}") for output in outputs]
        if sample is None:
            return stored
        self._sampled = self._sampled or self._session.table("sampled")
        drawn = [TreeGradients(self._sampled, f"drawn_{gh.g}", f"drawn_{gh.h}") for gh in stored]
        numbers = []
        for gh, own in zip(stored, drawn, strict=True):
            names = {"g": gh.g, "h": gh.h, "draw": "draw"}
            numbers += [f"{sample.g.to_sql(names)} AS {own.g}", f"{sample.h.to_sql(names)} AS {own.h}"]
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
