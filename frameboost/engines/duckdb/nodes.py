"""The node of every row in a database: a table of node numbers, and splits that are carried out on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.expressions.duckdb_sql import render
from frameboost.splits.split import Split

__all__ = ["MAX_WALKED_AGAIN", "Nodes", "RowNodes", "code_goes_left", "narrowest_integer"]

# The most splits to put off: a deeper CASE is too deep for DuckDB.
_MAX_PUT_OFF = 32
# The most old splits for each new one to walk from the root again. That reads the bins alone, on all threads; bins and
# nodes joined by position are read by one thread.
MAX_WALKED_AGAIN = 3
# DuckDB turns a longer IN into a join. A bit string with a bit for every code takes the same time for any set.
_MAX_IN_A_LIST = 4


class Nodes(Protocol):
    """The node of every row while a tree grows."""

    def restart(self) -> None:
        """Put all rows into the root of another tree."""

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Put off splits: node -> (split, left child, right child)."""

    def table(self) -> tuple[str, Mapping[int, int]]:
        """Return a table with the column ``node``, and the node of each of its numbers."""

    @property
    def sources(self) -> list[str]:
        """The tables whose columns `case` reads."""

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of the row's node after all splits."""

    def leaves(self) -> list[int]:
        """Return the leaves of the tree so far."""

    def drop(self) -> None:
        """Drop what statements read."""


class RowNodes:
    """The nodes of all rows while a tree grows.

    Splits are put off until something is asked of the children, so a level takes one statement, and the last level
    none: its splits become part of the expression that adds leaf values. The statement also numbers nodes, those asked
    for in a row, so that ``node BETWEEN`` finds their rows, and node and bin make one dense key.

    Say the root 0 was split into 1 and 2, these into 3, 4 and 5, 6, and histograms of 3 and 6 are asked for (4 and 5
    follow by subtraction). The rows get the numbers ::

        node     3  6  4  5
        number   0  1  2  3          node BETWEEN 0 AND 1

    At the next level, rows walk from the root again, and all numbers are new: ``CASE WHEN bin_0 < 2 THEN CASE ...``
    reads the bins alone. With many old splits for each new one, as in best-first growth, rows go on from the table.
    Then, if 4 is split into 7 and 8 and 8 is asked for, only rows with the number 2 change: 8 gets the number 4, and 7
    gets 5. Numbers that are no longer used stay free until the next tree.

    Parameters
    ----------
    session
        Where the rows are.
    bins
        The table whose columns splits compare.
    goes_left
        Returns a split's condition that a row goes left.
    in_order
        The clause by which a statement over the bins keeps their order.
    most_walked_again
        The most old splits for each new one to walk from the root again.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, goes_left: Callable[[Split], str], in_order: str,
        most_walked_again: int = MAX_WALKED_AGAIN,
    ) -> None:  # fmt: skip
        self._session = session
        self._bins = bins
        self._goes_left = goes_left
        self._in_order = in_order
        self._most_walked_again = most_walked_again
        self._table: str | None = None
        self.restart()

    def restart(self) -> None:
        """Put all rows into the root of another tree; the table is outdated from now on."""
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
        """Put off splits: node -> (split, left child, right child)."""
        if self._n_new > _MAX_PUT_OFF and not splits.keys() <= self._numbers.keys():
            self.settle()
        self._splits |= splits

    def settle(self, together: Sequence[int] = ()) -> int:
        """Carry out the splits, and number the nodes in ``together`` in a row; return the first of their numbers."""
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
        """Return a table with the column ``node``, and the node of each of its numbers."""
        self.settle()
        if not self._is_stored:
            self._store("start_tree", bins=self._bins)
        return str(self._table), {number: node for node, number in self._numbers.items()}

    @property
    def sources(self) -> list[str]:
        """The tables whose columns `case` reads."""
        return [self._bins] if self._walks_from_root else [self._bins, *self.tables]

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of the row's node after all splits."""
        return self._case(values, [*self._numbers])

    def leaves(self) -> list[int]:
        """Return the leaves of the tree so far."""
        return list(self._leaves(0))

    @property
    def _n_new(self) -> int:
        return len(self._splits) - self._n_followed

    @property
    def _walks_from_root(self) -> bool:
        return self.is_root or self._n_followed <= self._most_walked_again * self._n_new

    def _case(self, values: Mapping[int, str], nodes: Sequence[int]) -> str:
        """Return the same for some of the table's nodes; the others keep their number."""
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


def code_goes_left(split: Split, column: str, missing: int) -> str:
    """Return a split's condition over a column of codes, of which ``missing`` is the last."""
    if split.categories is not None and len(split.categories) <= _MAX_IN_A_LIST:
        return f"{column} {'NOT ' if split.missing_left else ''}IN ({', '.join(map(str, split.categories))})"
    if split.categories is not None:
        bits = "".join("1" if is_left else "0" for is_left in split.goes_left(missing + 1))
        return f"get_bit(CAST('{bits}' AS BIT), {column}) = 1"
    return f"{column} < {split.bin}" + (f" OR {column} = {missing}" if split.missing_left else "")


def narrowest_integer(largest: int) -> str:
    """Return the narrowest type for integers from 0 to ``largest``."""
    return "UTINYINT" if largest < 2**8 else "USMALLINT" if largest < 2**16 else "INTEGER"
