"""Cuts of a column with many values: rows are counted by cells of equal width, then values are read near the cuts.

Say the eight values 1, 2, 4, 5, 6, 7, 8, 9 are to have two bins, so the cut is the lowest of the upper four. Three
cells, of values from 1, 4 and 7, hold 2, 3 and 3 rows. The first cell holds rows 0 and 1, which are of the lower half,
the last rows 5 to 7, of the upper half. Only the second, of rows 2 to 4, has rows of both, so its values 4, 5 and 6 are
read: row 4 is the cut, 6. Sorting the whole column takes five times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import cut_positions
from frameboost.binning.value_counts import count_distinct
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.cells import NUMBERS
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.expression import float_literal
from frameboost.schema.types import FeatureType

__all__ = ["MIN_ROWS", "cell_cuts"]

# Of fewer rows, sorting them is faster than two statements.
MIN_ROWS = 1 << 16
# The keys that a perfect hash table has room for (see `frameboost.engines.duckdb.histograms`).
_CELLS = 4000
# With fewer cells for each bin, most of them would have to be read.
_MIN_CELLS_PER_BIN = 4
# The cells lie between these quantiles of the sample, so that a few large values leave no wide cells. What is beyond
# belongs to the first and the last cell.
_TAILS = (0.01, 0.99)
# Beyond this share of the rows to read, or as many as have 128 MB, the database ranks the rows instead.
_LARGEST_SHARE, _MAX_VALUES = 0.5, 1 << 24


def cell_cuts(
    session: DuckDBSession,
    kind: FeatureType,
    sample: npt.NDArray[Any],
    max_bin: int,
    parts: Mapping[str, object],
) -> npt.NDArray[np.generic] | None:
    """Return the gaps at the cuts of a column (see `gaps_at`), or None if another way is needed, or faster.

    ``sample`` has some of its values, ascending; ``parts`` are the parts of a statement over the column.
    """
    cell = _cell(kind, sample)
    if cell is None or max_bin * _MIN_CELLS_PER_BIN > _CELLS:
        return None
    cells = session.columns(render("count_cells", cell=cell, **parts))
    order = np.argsort(cells["cell"])
    number, n, lowest, highest = (np.asarray(cells[name])[order] for name in ("cell", "n", "lowest", "highest"))
    ends = np.cumsum(n, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    is_one = lowest == highest
    is_asked = ~is_one & ((ends - n) * max_bin // max(total, 1) < (ends - 1) * max_bin // max(total, 1))
    if n[is_asked].sum() > min(_LARGEST_SHARE * total, _MAX_VALUES):
        return None
    asked = np.zeros(_CELLS + 1, dtype=np.uint8)
    asked[number[is_asked]] = 1
    bits = (asked + ord("0")).tobytes().decode()
    read = session.columns(render("values_of_cells", cell=cell, cells=bits, **parts)) if asked.any() else {"value": []}
    values, counts = count_distinct(np.asarray(read["value"], dtype=lowest.dtype), read.get("n"))
    # Rows of the other cells count as rows of its lowest value, which changes no part; below the next is the highest.
    upper = np.append(values, highest[~is_asked])
    values, counts = np.append(values, lowest[~is_asked]), np.append(counts, n[~is_asked])
    if len(values) <= max_bin:  # too few to tell whether each value may have a bin of its own
        return None
    order = np.argsort(values)
    counts = counts[order].astype(np.int64)
    at = cut_positions(np.cumsum(counts) - counts, total, max_bin)
    return np.stack([upper[order][at - 1], values[order][at]])


def _cell(kind: FeatureType, sample: npt.NDArray[Any]) -> str | None:
    """Return the SQL of the number of ``value``'s cell, or None if there are no such cells.

    It is a monotone function of the value, also as floating point arithmetic rounds it.
    """
    if kind.name not in NUMBERS or not len(sample):
        return None
    low, high = (float(sample[int(len(sample) * tail)]) for tail in _TAILS)
    with np.errstate(all="ignore"):
        scale = float(np.float64(_CELLS) / (np.float64(high) - np.float64(low)))
    if not 0.0 < scale < np.inf or not np.isfinite([low, high]).all():
        return None
    within = f"least(greatest(CAST(value AS DOUBLE), {float_literal(low)}), {float_literal(high)})"
    return f"CAST(({within} - {float_literal(low)}) * {float_literal(scale)} AS USMALLINT)"
