"""Histograms inside a database: the rows of the wanted nodes are read once and summed up by bin of many features."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import SlotLayout
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.expressions.sql_files import render
from frameboost.splits.split import FloatArray

__all__ = ["HistogramQuery"]

# Each row goes to the sums of so many features in one pass. Fewer leave threads idle, more cost memory for all sums.
_FEWEST_AT_ONCE, _MOST_AT_ONCE = 4, 32

# DuckDB adds up at places, not by hashing, while keys need no more bits than this setting says. That is five times as
# fast; but each part of the nodes is a pass over all rows.
_MOST_KEY_BITS = "perfect_ht_threshold"
_MOST_PARTS = 5

_Steps = npt.NDArray[np.int64]


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

    def run(self, totals: FloatArray, first: int, *, everywhere: bool) -> FloatArray:
        """Return the sums by bin, as `HistogramEngine.histograms`, of nodes numbered in a row from ``first``.

        Parameters
        ----------
        totals
            float64 array (nodes, 2): G and H of each node.
        first
            The number of the first.
        everywhere
            Whether all rows are in the only node, and none has a number.
        """
        steps, found = self._steps(len(totals)), []
        for part in self._parts(len(totals), int(steps.min())):
            asked = "TRUE" if everywhere else f"node BETWEEN {first + part[0]} AND {first + part[-1]}"
            statement = "\nUNION ALL\n".join(
                self._statement(features, first, len(totals), steps, asked) for features in self._groups(len(steps))
            )
            sums = self.session.columns(statement)
            place, code = np.divmod(sums["key"].astype(np.int64), steps[sums["feature"]])
            slots = self.layout.offsets[sums["feature"]] + code
            own = np.zeros((len(part) + 1, self.layout.n_slots, 2))
            own[place - part[0], slots, 0] = sums["g"]
            own[place - part[0], slots, 1] = sums["h"]
            found.append(self._told_apart(own, totals[part.start : part.stop], steps))
        return np.concatenate(found)

    def _steps(self, n_nodes: int) -> _Steps:
        """Return by how much the keys of neighbouring nodes differ, for each feature.

        A node's last code has the key of the next node's first, as the sums of the nodes tell what is in either. With
        256 codes that is what lets DuckDB add up 16 nodes at places.
        """
        strides = np.array(self.layout.strides())
        return strides if n_nodes == 1 else np.maximum(strides - 1, 1)

    def _told_apart(self, sums: FloatArray, totals: FloatArray, steps: _Steps) -> FloatArray:
        """Return the sums of nodes by bin, out of sums by key, whose last codes have gone to the next node."""
        offsets = self.layout.offsets
        last_codes = np.array([b.largest_code for b in self.layout.bins])
        (shared,) = np.nonzero(last_codes >= steps)
        firsts = offsets[shared]
        lasts = firsts + last_codes[shared]
        for place, total in enumerate(totals):
            last = total - np.add.reduceat(sums[place], offsets[:-1])[shared]  # exact, as all sums of gradients are
            sums[place, lasts] = last
            sums[place + 1, firsts] -= last
        return sums[:-1]

    def _parts(self, n_nodes: int, step: int) -> Iterator[range]:
        """Yield the places of nodes to ask for at a time."""
        at_once = max(1, (2 ** int(self.session.setting(_MOST_KEY_BITS)) - 3) // step)
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

    def _statement(self, features: Sequence[int], first: int, n_nodes: int, steps: _Steps, asked: str) -> str:
        keys = ", ".join(f"key_{i} := {_key(f'bin_{i}', steps[i], first, n_nodes)}" for i in features)
        return render(
            "histograms",
            rows=self.rows,
            keys=keys,
            g=self.g,
            h=self.h,
            is_asked=asked,
            sums="\nUNION ALL\n".join(render("sum_by_bin", feature=i) for i in features),
        )


def _key(column: str, step: int, first: int, n_nodes: int) -> str:
    """Return place of the node · step + bin, in the smallest type; narrow keys are grouped faster."""
    if n_nodes == 1:
        return column
    n_keys = n_nodes * step + 1
    kind = "USMALLINT" if n_keys <= 2**16 else "UINTEGER" if n_keys <= 2**32 else "BIGINT"
    return f"CAST(node - {first} AS {kind}) * {step} + {column}"
