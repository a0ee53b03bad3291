"""Which node each row is in, inside a database: a table of numbers, and splits that rows have yet to follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.engines.duckdb.widths import narrowest_integer
from frameboost.expressions.sql_files import render
from frameboost.splits.split import Split

__all__ = ["RowNodes"]

# A walk from the root reads the bins alone, which all threads do at once. To go on from the table is one thread's work,
# as bins and nodes are joined by position; it is faster where there are more old splits than so many for each new one.
_MOST_WALKED_AGAIN = 3
# Rows that nobody asks for may leave many splits for later, though not so many that a CASE gets too deep for DuckDB.
_MOST_FOR_LATER = 32


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
    goes_left
        Returns the condition that a row goes left.
    in_order
        What a statement over the bins ends with, so that its rows come in their order.
    """

    def __init__(self, session: DuckDBSession, bins: str, goes_left: Callable[[Split], str], in_order: str) -> None:
        self._session = session
        self._bins = bins
        self._goes_left = goes_left
        self._in_order = in_order
        self._table: str | None = None
        self.restart()

    def restart(self) -> None:
        """Put all rows into the root of another tree; what the table says is of no more use."""
        self._is_stored = False  # until rows have moved, all of them are in the root
        self._numbers = {0: 0}  # of each node, in the table
        self._next = 1
        self._splits: dict[int, tuple[Split, int, int]] = {}  # all of the tree
        self._n_followed = 0  # how many of them are in the table

    @property
    def tables(self) -> list[str]:
        """The table that has ``node``, once there is more than the root."""
        return [self._table] if self._is_stored and self._table is not None else []

    @property
    def is_root(self) -> bool:
        """Whether all rows are still in the root, and there is no table."""
        return not self._is_stored

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Let rows follow splits (node -> split, left child, right child) by the time that anybody looks."""
        if self._n_new > _MOST_FOR_LATER and not splits.keys() <= self._numbers.keys():
            self.settle()
        self._splits |= splits

    def settle(self, together: Sequence[int] = ()) -> int:
        """Let rows follow the splits, and number some nodes in a row; return the first of their numbers."""
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
        """Return a table with the column ``node``, and what its numbers stand for."""
        self.settle()
        if not self._is_stored:
            self._store("start_tree", bins=self._bins)
        return str(self._table), {number: node for node, number in self._numbers.items()}

    @property
    def sources(self) -> list[str]:
        """The tables that `case` is over."""
        return [self._bins] if self._walks_from_root else [self._bins, *self.tables]

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of the node that the row is in, splits included."""
        return self._case(values, [*self._numbers])

    @property
    def _n_new(self) -> int:
        return len(self._splits) - self._n_followed

    @property
    def _walks_from_root(self) -> bool:
        return not self._is_stored or self._n_followed <= _MOST_WALKED_AGAIN * self._n_new

    def _case(self, values: Mapping[int, str], nodes: Sequence[int]) -> str:
        """Return the same of some of the table's nodes; the others keep their number."""
        if self._walks_from_root:
            return self._below(0, values)
        ordered = sorted(nodes, key=self._weight, reverse=True)  # most rows find theirs among the first
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
