"""Histograms of rows that are read in batches, and added up by bin by kernels.

Nothing is held in memory but two batches and the sums; the rows stay in the database. With few threads this takes half
as long as group-bys (see `frameboost.engines.query_costs`).

Over a star, a fact is read with its own codes and one key for each dimension, in place of the codes of all attributes.
Sums by key are then added to the bins of the key's codes, which are in memory. A group-by in the database takes three
times as long to sum by 20 attributes, and as long to sum by a million keys alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import SlotLayout
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.expressions.duckdb_sql import render
from frameboost.splits.split import FloatArray

__all__ = ["LARGE", "BatchSums", "BinSums", "sums_by_key_pay"]

# The sums of more keys than this do not stay in the L2 cache.
LARGE = 1 << 15
# With fewer rows for each sum by node and key, rows are added to the bins of their key's codes directly.
_MIN_ROWS = 2.0
# The most sums by node and key of one dimension, of 16 bytes each.
_MAX_SUMS = 1 << 22
# The most features to read at once: a batch has 122,880 rows.
_MAX_AT_ONCE = 256


def sums_by_key_pay(n_keys: int, n_nodes: int, n_rows: float) -> bool:
    """Whether to add up rows by node and key first, and the sums by bin of the keys' codes.

    >>> sums_by_key_pay(200, 1, 1e6), sums_by_key_pay(200, 16, 5e3), sums_by_key_pay(10**6, 1, 1e9)
    (True, False, False)
    """
    n_sums = n_keys * n_nodes
    return n_keys <= LARGE and n_sums <= _MAX_SUMS and n_rows >= _MIN_ROWS * n_sums


class BinSums:
    """Histograms of some nodes, to which batches of rows are added.

    Parameters
    ----------
    layout
        The bins of all features.
    dimensions
        The dimensions whose keys the rows have.
    n_nodes
        The number of nodes.
    n_rows
        About how many rows are in them, by which the faster way is chosen for each dimension.
    """

    def __init__(self, layout: SlotLayout, dimensions: Sequence[StarDimension], n_nodes: int, n_rows: float) -> None:
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
            The features whose codes come first in the columns; keys of the dimensions may follow.
        columns
            Unsigned codes and keys.
        places, g, h
            The place of each row's node, and its pair.
        """
        from frameboost.engines.batch_kernels import add_codes
        from frameboost.engines.duckdb.star.kernels import add_codes_of_keys

        for feature, codes in zip(stored, columns, strict=False):
            add_codes(indices, codes, self._layout.offsets[feature], g, h, self._out)
        of_dimensions = zip(self._dimensions, self._by_key, self._slots, columns[len(stored) :], strict=False)
        for dimension, by_key, slots, keys in of_dimensions:
            if by_key is not None:
                add_codes(indices, keys, 0, g, h, by_key)
            else:
                add_codes_of_keys(indices, keys, g, h, dimension.codes, slots, self._out)

    @property
    def n_bytes(self) -> int:
        """The memory for the sums."""
        return sum(each.nbytes for each in (self._out, *self._by_key) if each is not None)

    def add_all(self, other: BinSums) -> None:
        """Add all that was added to other sums of the same nodes."""
        self._out += other._out
        for by_key, others in zip(self._by_key, other._by_key, strict=True):
            if by_key is not None and others is not None:
                by_key += others

    def result(self) -> FloatArray:
        """Return the histograms, (nodes, slots, 2)."""
        from frameboost.engines.duckdb.star.kernels import add_sums_of_keys

        for dimension, by_key, slots in zip(self._dimensions, self._by_key, self._slots, strict=True):
            if by_key is not None:
                add_sums_of_keys(by_key, dimension.codes, slots, self._out)
        return self._out


@dataclass(frozen=True)
class BatchSums:
    """How rows are added up.

    Attributes
    ----------
    session
        Where they are.
    layout
        The bins of all features.
    stored
        The features whose codes the rows have, but for those of ``dimensions``.
    dimensions
        The dimensions whose keys the rows have.
    """

    session: DuckDBSession
    layout: SlotLayout
    stored: Sequence[int]
    dimensions: Sequence[StarDimension] = ()

    def histograms(
        self, rows: str, gh: tuple[str, str], first: int, n_nodes: int, n_rows: float, *, everywhere: bool
    ) -> FloatArray:
        """Return the histograms of nodes numbered in a row from ``first``, (nodes, slots, 2).

        Parameters
        ----------
        rows
            The tables, joined by position: ``bin_0``, ``key_0``, ..., g and h and, unless ``everywhere``, ``node``.
        pair
            The columns of g and h.
        first, n_nodes
            The nodes.
        n_rows
            About how many rows are in them.
        everywhere
            Whether all rows are in the only node.
        """
        sums = BinSums(self.layout, self.dimensions, n_nodes, n_rows)
        keys = [each.column for each in self.dimensions]
        for stored, columns in self._passes(keys):
            statement, dtypes = self._statement(rows, gh, first, n_nodes, columns, everywhere=everywhere)
            # Closed at once if Ctrl-C is pressed, as the connection takes no other statement before.
            with closing(self.session.batches(statement, dtypes)) as batches:
                for indices, g, h, *read in batches:
                    sums.add(stored, read, indices, g, h)
        return sums.result()

    def _passes(self, keys: Sequence[str]) -> Iterator[tuple[Sequence[int], list[tuple[str, str]]]]:
        """Yield the features of each pass over the rows, and the columns to read with their types; keys come last."""
        bins = self.layout.bins
        for start in range(0, max(1, len(self.stored)), _MAX_AT_ONCE):
            stored = self.stored[start : start + _MAX_AT_ONCE]
            columns = [(f"bin_{i}", "UTINYINT" if bins[i].largest_code < 256 else "UINTEGER") for i in stored]
            is_last = start + _MAX_AT_ONCE >= len(self.stored)
            yield stored, columns + [(key, "UINTEGER") for key in keys if is_last]

    def _statement(
        self, rows: str, gh: tuple[str, str], first: int, n_nodes: int, columns: Sequence[tuple[str, str]], *,
        everywhere: bool,
    ) -> tuple[str, list[npt.DTypeLike]]:  # fmt: skip
        """Return the statement that reads the rows, and the dtypes of its columns."""
        node = "0" if everywhere else f"node - {first}"
        columns = [(node, "UINTEGER"), (gh[0], "DOUBLE"), (gh[1], "DOUBLE"), *columns]
        statement = render(
            "read_rows", rows=rows,
            columns=", ".join(f"CAST({column} AS {kind}) AS column_{i}" for i, (column, kind) in enumerate(columns)),
            is_asked="TRUE" if everywhere else f"node BETWEEN {first} AND {first + n_nodes - 1}",
        )  # fmt: skip
        dtypes = {"UTINYINT": np.uint8, "UINTEGER": np.uint32, "DOUBLE": np.float64}
        return statement, [dtypes[kind] for _, kind in columns]
