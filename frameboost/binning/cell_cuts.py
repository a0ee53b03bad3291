"""Cuts of many numbers without sorting them all: by counts in cells of equal width."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import gaps_at
from frameboost.binning.codes import read_only, with_one_zero
from frameboost.binning.value_counts import count_distinct, cut_targets

__all__ = ["MIN_IN_CELLS", "gaps_by_cells"]

MIN_IN_CELLS = 1 << 15  # with fewer values, to sort takes no longer
_CELLS = 1 << 16
# The values that tell the range, evenly spaced; a few at each end are left out, as they may be far from the others.
_LOOKED_AT, _OUTLYING = 1 << 12, 4
# The largest share of the values that may have to be sorted.
_MAX_SORTED = 0.5


def gaps_by_cells(
    values: npt.NDArray[Any],
    counts: npt.NDArray[np.int64] | None,
    max_bin: int,
    room: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any] | None:
    """Return the gaps at the cuts of numbers of which none is missing, as `frameboost.binning.bins` has both.

    A cut is the lowest value with so many rows below it. So only the values of the cells that a cut may be in are
    sorted. Say the cells [.., 3), [3, 7), [7, 9) and [9, ..] have 4, 5, 0 and 6 rows, and below a cut are 6: it is in
    [3, 7), or if less than 6 are below the highest value there, it is the lowest from 9 on. In either case the value
    before it was sorted, too: below the lowest value of [3, 7) are no more than 4 rows.

    Parameters
    ----------
    values
        The numbers.
    counts
        How often each one counts; None where each counts once.
    max_bin
        The largest number of bins.
    room
        Scratch space of 4 bytes or more for each value.

    Returns
    -------
    array or None
        None where all are to be sorted: they are few, or of few values, or most are in a few cells.
    """
    if len(values) < MIN_IN_CELLS or values.dtype.kind not in "fiu":
        return None
    looked_at = np.sort(values[:: max(1, len(values) // _LOOKED_AT)])
    low = float(looked_at[_OUTLYING])
    width = (float(looked_at[-_OUTLYING - 1]) - low) / _CELLS
    if len(np.unique(looked_at)) <= max_bin or not 0.0 < width < np.inf or 1.0 / width == np.inf:
        return None
    from frameboost.binning.cell_kernels import count_cells, rows_of_cells, write_cells

    fixed, per_width, totals = read_only(values), 1.0 / width, np.zeros(_CELLS, np.int64)
    count_cells(fixed, counts, low, per_width, totals)
    ends = np.cumsum(totals)
    targets = cut_targets(int(ends[-1]), max_bin)
    is_wanted = _may_have_cuts(totals, ends, targets)
    if totals[is_wanted].sum() > _MAX_SORTED * ends[-1]:
        return None
    rows = np.empty(len(values), np.uint32) if room is None else room.view(np.uint32)[: len(values)]
    wanted = rows[: rows_of_cells(fixed, low, per_width, is_wanted, rows)]
    distinct, counted = count_distinct(values[wanted], None if counts is None else counts[wanted])
    cells = np.empty(len(distinct), np.uint32)
    write_cells(read_only(distinct), low, per_width, _CELLS, cells)
    # The rows below a value: those of the cells below it that were not sorted, and the others.
    below = np.cumsum(np.where(is_wanted, 0, totals))[cells] + np.cumsum(counted) - counted
    found = np.unique(np.searchsorted(below, targets))
    return with_one_zero(gaps_at(distinct, found[found < len(distinct)]))


def _may_have_cuts(
    totals: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which cells a cut may be in: for each target the cell that holds that row, and the next with rows."""
    holding, filled = np.searchsorted(ends, targets), np.flatnonzero(totals)
    behind = filled[np.minimum(np.searchsorted(filled, holding, side="right"), len(filled) - 1)]
    is_wanted = np.zeros(len(totals), np.bool_)
    is_wanted[holding] = is_wanted[behind] = True
    return is_wanted
