"""Histograms in a database: the rows of the wanted nodes are read once per group of features and summed by bin."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.binning.bins import SlotLayout
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.expressions.duckdb_sql import render
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["HistogramQuery", "node_key"]

# Features summed in one pass over the rows: fewer would leave threads idle, more would take memory for all sums.
_MIN_AT_ONCE, _MAX_AT_ONCE = 4, 32

# DuckDB's perfect hash aggregate indexes an array by the key, as long as keys have no more bits than this setting. That
# is five times as fast as hashing. So many nodes are asked for in parts, each of which reads all rows, up to a limit.
_MAX_KEY_BITS = "perfect_ht_threshold"
_MAX_PARTS = 5


@dataclass(frozen=True, slots=True)
class HistogramQuery:
    """A query of histograms.

    Attributes
    ----------
    session
        Runs it.
    layout
        The bins of all features.
    rows
        The tables to select from, joined by position: bin_0, ..., the numbers and, unless all rows are in one node,
        ``node``.
    numbers
        The columns to sum, by the names of their sums: ``g`` and ``h``, or these of each of several outputs in turn.
    columns
        The columns of the features' codes; by default bin_0, bin_1, ...
    """

    session: DuckDBSession
    layout: SlotLayout
    rows: str
    numbers: Mapping[str, str]
    columns: Sequence[str] = ()

    def run(self, n_nodes: int, totals: FloatArray | None, first: int, *, everywhere: bool) -> FloatArray:
        """Return the histograms of nodes numbered in a row from ``first``, float64 (nodes, slots, numbers).

        ``totals`` are the sums of each node, (nodes, numbers), if these are known, which makes the query faster. With
        ``everywhere``, all rows are in the only node, and there is no table of nodes.
        """
        strides = np.array(self.layout.strides())
        if totals is not None and n_nodes > 1:
            strides = self._shared(strides)
        found = []
        for part in self._parts(n_nodes, int(strides.min())):
            groups = list(self._groups(len(strides)))
            sums = self.session.columns(
                self.statement(groups, first, n_nodes, strides, everywhere=everywhere, part=part)
            )
            index, code = np.divmod(sums["key"].astype(np.int64), strides[sums["feature"]])
            slots = self.layout.offsets[sums["feature"]] + code
            by_key = np.zeros((len(part) + 1, self.layout.n_slots, len(self.numbers)))
            for i, name in enumerate(self.numbers):
                by_key[index - part[0], slots, i] = sums[name]
            known = None if totals is None else totals[part.start : part.stop]
            found.append(by_key[:-1] if known is None else self._separated(by_key, known, strides))
        return np.concatenate(found)

    @staticmethod
    def _shared(strides: IntArray) -> IntArray:
        """Return distances between the keys of adjacent nodes at which the nodes share a key.

        They are one less than the number of codes: the last code of a node shares its key with the first code of the
        next node. So the keys of 16 nodes of 256 codes, 0 to 4080, fit a perfect hash table of 12 bits.
        """
        return np.maximum(strides - 1, 1)

    def _separated(self, sums: FloatArray, totals: FloatArray, strides: IntArray) -> FloatArray:
        """Return the histograms, given the sums by key, where a node's last code is in the next node's first.

        A node's last code is its total minus its other codes, which is exact as all sums are on a grid. Say three codes
        of two nodes have the sums 1, 2, 3 and 4, 5, 6. By key that is 1, 2, 3 + 4, 5, 6. With the first total, 6, the
        last code of the first node is 6 - (1 + 2) = 3, and the first code of the second is 7 - 3 = 4.
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
        """Yield the places of the nodes to ask for at a time."""
        at_once = max(1, (2 ** int(self.session.setting(_MAX_KEY_BITS)) - 3) // stride)
        n_parts = -(-n_nodes // at_once)
        if n_parts > _MAX_PARTS:
            n_parts = 1
        bounds = [n_nodes * i // n_parts for i in range(n_parts + 1)]
        return (range(start, end) for start, end in itertools.pairwise(bounds))

    def _groups(self, n_features: int) -> Iterator[range]:
        """Yield the features to sum in one pass over the rows; passes run in parallel."""
        size = -(-n_features // int(self.session.setting("threads")))
        size = min(max(size, _MIN_AT_ONCE), _MAX_AT_ONCE)
        return (range(start, min(start + size, n_features)) for start in range(0, n_features, size))

    def statement(
        self, groups: Sequence[Sequence[int]], first: int, n_nodes: int, strides: IntArray, *, everywhere: bool,
        part: range | None = None,
    ) -> str:  # fmt: skip
        """Return the statement of the sums by feature and key, the place of the node * stride + code.

        ``groups`` are features that are summed in one pass over the rows, and ``part`` the places of the nodes to ask
        for; by default all ``n_nodes``.
        """
        indices = part or range(n_nodes)
        asked = "TRUE" if everywhere else f"node BETWEEN {first + indices[0]} AND {first + indices[-1]}"
        return "\nUNION ALL\n".join(self._statement(group, first, n_nodes, strides, asked) for group in groups)

    def _statement(self, features: Sequence[int], first: int, n_nodes: int, strides: IntArray, asked: str) -> str:
        added = ", ".join(f"SUM({name}) AS {name}" for name in self.numbers)
        keys = ", ".join(f"key_{i} := {self._key(i, strides[i], first, n_nodes)}" for i in features)
        return render(
            "histograms",
            rows=self.rows,
            keys=keys,
            numbers=", ".join(f"{column} AS {name}" for name, column in self.numbers.items()),
            is_asked=asked,
            sums="\nUNION ALL\n".join(render("sum_by_bin", feature=i, numbers=added) for i in features),
        )

    def _key(self, feature: int, stride: int, first: int, n_nodes: int) -> str:
        column = self.columns[feature] if self.columns else f"bin_{feature}"
        return column if n_nodes == 1 else node_key(column, stride, first, n_nodes)


def node_key(column: str, stride: int, first: int, n_nodes: int) -> str:
    """Return place of the node * stride + code, in the narrowest type: narrow keys are grouped faster."""
    n_keys = n_nodes * stride + 1
    kind = "USMALLINT" if n_keys <= 2**16 else "UINTEGER" if n_keys <= 2**32 else "BIGINT"
    return f"CAST(node - {first} AS {kind}) * {stride} + {column}"
