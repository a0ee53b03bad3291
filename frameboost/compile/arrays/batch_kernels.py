"""The kernel that codes the columns of Arrow batches in place (see `frameboost.compile.arrays.batch_scorer`)."""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from frameboost.binning.kernels import bin_values
from frameboost.runtime.intrinsics import as_pointer
from frameboost.runtime.kernel import kernel

__all__ = ["code_buffers"]


# A byte of a validity bitmap whose eight rows are all present.
_ALL_PRESENT = 255


@kernel
def _mark_missing(address, offset, missing, codes):  # type: ignore[no-untyped-def]
    """Write ``missing`` where a validity bitmap has a 0; bit ``row % 8`` of a byte is the row's, lowest bit first."""
    n_rows = len(codes)
    bitmap = carray(as_pointer(address), ((offset + n_rows + 7) >> 3,), np.uint8)
    row = 0
    while row < n_rows:
        bit = offset + row
        if (bit & 7) == 0 and bitmap[bit >> 3] == _ALL_PRESENT:  # as most bytes are
            row += 8
            continue
        if (bitmap[bit >> 3] >> (bit & 7)) & 1 == 0:
            codes[row] = missing
        row += 1


@kernel
def code_buffers(buffers, edges, n_rows, missing, codes):  # type: ignore[no-untyped-def]
    """Write codes of columns of float64 and int64 (see `frameboost.binning.kernels.bin_values`).

    Parameters
    ----------
    buffers
        int64 (columns, 4): the address of the values, the address of the validity bitmap (0 if there is none), the
        offset of the first row in both, and whether the values are integers.
    edges
        int64 (columns, 4): the address of the edges, which have the values' type and are padded; their number with and
        without the padding; the row of ``codes``.
    n_rows
        The number of rows.
    missing
        The code of missing values.
    codes
        uint8 (any, rows or more); one row is written for each column.
    """
    for column in range(len(buffers)):
        values, validity, offset, is_integer = buffers[column]
        own_edges, n_padded, n_edges, index = edges[column]
        out = codes[index, :n_rows]
        if is_integer:
            whole = carray(as_pointer(values), (offset + n_rows,), np.int64)
            cuts = carray(as_pointer(own_edges), (n_padded,), np.int64)
            bin_values(whole, cuts, n_edges, missing, offset, offset + n_rows, out)
        else:
            number = carray(as_pointer(values), (offset + n_rows,), np.float64)
            bounds = carray(as_pointer(own_edges), (n_padded,), np.float64)
            bin_values(number, bounds, n_edges, missing, offset, offset + n_rows, out)
        if validity != 0:
            _mark_missing(validity, offset, missing, out)
