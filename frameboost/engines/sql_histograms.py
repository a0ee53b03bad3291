"""Histograms inside a database: the rows of the wanted nodes are read once and summed up by bin of many features."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.binning import SlotLayout
from frameboost.engines.contract import FloatArray
from frameboost.engines.session import DuckDBSession
from frameboost.sql_files import render

__all__ = ["HistogramQuery"]

# Each row goes to the sums of so many features in one pass. Fewer leave threads idle, more cost memory for all sums.
_FEWEST_AT_ONCE, _MOST_AT_ONCE = 4, 32

# DuckDB adds up at places, not by hashing, while keys need no more bits than this setting says. That is five times as
# fast; but each part of the nodes is a pass over all rows.
_MOST_KEY_BITS = "perfect_ht_threshold"
_MOST_PARTS = 5


@dataclass(frozen=True, slots=True)
class HistogramQuery:
    """What histograms are made of.

    Attributes
    ----------
    session
        Where the rows are.
    layout
        The bins of all features.
    rows
        What to select from: bin_0, ..., g, h, and, unless all rows are in one node, ``node``.
    g, h
        Columns to sum.
    """

    session: DuckDBSession
    layout: SlotLayout
    rows: str
    g: str
    h: str

    def run(self, n_nodes: int, first: int, *, everywhere: bool) -> FloatArray:
        """Return the sums by bin, as `HistogramEngine.histograms`, of nodes numbered in a row from ``first``.

        ``everywhere`` says that all rows are in the only node, and that none has a number.
        """
        strides = self.layout.strides()
        out = np.zeros((n_nodes, self.layout.n_slots, 2))
        for part in self._parts(n_nodes, min(strides)):
            asked = "TRUE" if everywhere else f"node BETWEEN {first + part[0]} AND {first + part[-1]}"
            statement = "\nUNION ALL\n".join(
                self._statement(features, first, n_nodes, asked) for features in self._groups(len(strides))
            )
            sums = self.session.columns(statement)
            place, code = np.divmod(sums["key"].astype(np.int64), np.array(strides)[sums["feature"]])
            slots = self.layout.offsets[sums["feature"]] + code
            out[place, slots, 0] = sums["g"]
            out[place, slots, 1] = sums["h"]
        return out

    def _parts(self, n_nodes: int, stride: int) -> Iterator[range]:
        """Yield the places of nodes to ask for at a time."""
        at_once = max(1, (2 ** int(self.session.setting(_MOST_KEY_BITS)) - 2) // stride)
        n_parts = -(-n_nodes // at_once)
        if n_parts > _MOST_PARTS:
            n_parts = 1
        bounds = [n_nodes * i // n_parts for i in range(n_parts + 1)]
        return (range(start, end) for start, end in itertools.pairwise(bounds))

    def _groups(self, n_features: int) -> Iterator[range]:
        """Yield the features to sum in one pass over the rows; several passes run at once."""
        size = -(-n_features // int(self.session.setting("threads")))
        size = min(max(size, _FEWEST_AT_ONCE), _MOST_AT_ONCE)
        return (range(start, min(start + size, n_features)) for start in range(0, n_features, size))

    def _statement(self, features: Sequence[int], first: int, n_nodes: int, asked: str) -> str:
        strides = self.layout.strides()
        keys = ", ".join(f"key_{i} := {_key(f'bin_{i}', strides[i], first, n_nodes)}" for i in features)
        return render(
            "histograms",
            rows=self.rows,
            keys=keys,
            g=self.g,
            h=self.h,
            is_asked=asked,
            sums="\nUNION ALL\n".join(render("sum_by_bin", feature=i) for i in features),
        )


def _key(column: str, stride: int, first: int, n_nodes: int) -> str:
    """Return place of the node · stride + bin, in the smallest type; narrow keys are grouped faster."""
    if n_nodes == 1:
        return column
    n_keys = n_nodes * stride
    kind = "USMALLINT" if n_keys <= 2**16 else "UINTEGER" if n_keys <= 2**32 else "BIGINT"
    return f"CAST(node - {first} AS {kind}) * {stride} + {column}"
