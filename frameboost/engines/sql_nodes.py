"""Which node each row is in, inside a database: a table of numbers, and splits that rows have yet to follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from frameboost.engines.contract import Split
from frameboost.engines.session import DuckDBSession
from frameboost.engines.sql_rows import Slices
from frameboost.engines.sql_widths import narrowest_integer
from frameboost.sql_files import render

__all__ = ["RowNodes"]


class RowNodes:
    """The nodes of all rows, as a tree is grown.

    Rows follow splits late: together with whatever is asked of the children, so that a level costs one table, and the
    last level none. Children are numbered anew then, those asked for in a row, so that node and bin make one key.

    Parameters
    ----------
    session
        Where the rows are.
    bins
        The table whose columns decide where a row goes.
    slices
        How its rows are read.
    goes_left
        Returns the condition that a row goes left.
    in_order
        What a statement over the bins ends with, so that its rows come in their order.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, slices: Slices, goes_left: Callable[[Split], str], in_order: str
    ) -> None:
        self._session = session
        self._bins = bins
        self._slices = slices
        self._goes_left = goes_left
        self._in_order = in_order
        self._table: str | None = None  # until rows have moved, all of them are in the root
        self._numbers = {0: 0}  # of each node, in the table
        self._next = 1
        self._moves: dict[int, tuple[Split, int, int]] = {}

    @property
    def tables(self) -> list[str]:
        """The table that has ``node``, once there is more than the root."""
        return [] if self._table is None else [self._table]

    @property
    def is_root(self) -> bool:
        """Whether all rows are still in the root, and there is no table."""
        return self._table is None

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Let rows follow splits (node -> split, left child, right child) by the time that anybody looks."""
        if not splits.keys() <= self._numbers.keys():  # a child is split, to which rows have yet to move
            self.settle()
        self._moves |= splits

    def settle(self, together: Sequence[int] = ()) -> int:
        """Let rows follow the splits, and number some nodes in a row; return the first of their numbers."""
        numbers = [self._numbers.get(node) for node in together]
        first = numbers[0] if numbers and numbers[0] is not None else 0
        if not self._moves and numbers == list(range(first, first + len(together))):
            return first
        children = [child for _, *both in self._moves.values() for child in both]
        first = self._next
        fresh = {node: first + i for i, node in enumerate(dict.fromkeys([*together, *children]))}
        self._next += len(fresh)
        kind = narrowest_integer(self._next - 1)
        nodes = self._case(
            {node: f"CAST({n} AS {kind})" for node, n in (self._numbers | fresh).items()},
            [*self._moves, *(node for node in together if node in self._numbers)],
        )
        self._store(
            "apply_splits", rows=self._slices.join([self._bins, *self.tables]), moves=nodes, in_order=self._in_order
        )
        self._numbers = {node: n for node, n in self._numbers.items() if node not in self._moves} | fresh
        self._moves = {}
        return first

    def table(self) -> tuple[str, dict[int, int]]:
        """Return a table with the column ``node``, and what its numbers stand for."""
        self.settle()
        if self._table is None:
            self._store("start_tree", bins=self._bins)
        assert self._table is not None
        return self._table, {number: node for node, number in self._numbers.items()}

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over bins and nodes: the value of the node that the row is in, splits included."""
        return self._case(values, [*self._numbers])

    def _case(self, values: Mapping[int, str], nodes: Sequence[int]) -> str:
        """Return the same of some of the table's nodes; the others keep their number."""
        found = {}
        for node in sorted(nodes, key=self._weight, reverse=True):  # most rows find theirs among the first
            if node in self._moves:
                split, left, right = self._moves[node]
                found[node] = f"CASE WHEN {self._goes_left(split)} THEN {values[left]} ELSE {values[right]} END"
            elif node in values:
                found[node] = values[node]
        if self._table is None:
            return found[0]
        cases = " ".join(f"WHEN {self._numbers[node]} THEN {value}" for node, value in found.items())
        keeps = "" if len(found) == len(self._numbers) else " ELSE node"
        return f"CASE node {cases}{keeps} END"

    def _weight(self, node: int) -> float:
        if node not in self._moves:
            return 0.0
        split = self._moves[node][0]
        return split.left.H + split.right.H

    def _store(self, statement: str, **parts: object) -> None:
        old, table = self._table, self._session.table("nodes")
        self._session.run(render(statement, nodes=table, **parts))
        self._table = table
        if old is not None:
            self._session.drop(old)

    def drop(self) -> None:
        """Drop the table; the tree is done."""
        if self._table is not None:
            self._session.drop(self._table)
            self._table = None
