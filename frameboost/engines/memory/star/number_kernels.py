"""Kernels that write g and h of facts to their records, as whole numbers of steps (see `PackedGradients`)."""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.programs.kernels import compute_to
from frameboost.runtime.intrinsics import read_eight, write_eight
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["compute_numbers", "write_numbers"]

# Rows whose pairs stay in the L2 cache.
_ROWS = 1 << 13


@kernel
def _have_numbers(gh, inverses, same_h, most, count):  # type: ignore[no-untyped-def]
    """Return whether some pairs can be written, see `write_numbers`."""
    n_others = 0
    for row in range(np.uint64(count)):
        g, h = gh[row, 0] * inverses[0], gh[row, 1] * inverses[1]
        n_others += (np.float64(np.int64(g)) != g) | (abs(g) > most)
        if same_h > 0:
            own = gh[row, 1]
            n_others += (own != same_h) & ((own != 0.0) | (g != 0.0))
        else:
            n_others += (np.float64(np.int64(h)) != h) | (abs(h) > most)
    return n_others == 0


@kernel
def _write(gh, inverses, same_h, n_bytes, first, last, records):  # type: ignore[no-untyped-def]
    """Write pairs that can be written, see `write_numbers`."""
    width, bytes_ = np.uint64(records.shape[1]), records.ravel()
    others = ~np.int64(0) << np.int64(8 * n_bytes) if n_bytes < 8 else np.int64(0)  # bits that are not written
    start = np.uint64(first)
    for row in range(start, np.uint64(last)):
        g, h, at = gh[row - start, 0], gh[row - start, 1], row * width
        number = np.int64(g * inverses[0])
        if same_h > 0:
            number = (number << np.int64(1)) + np.int64(h != 0.0)
            write_eight(bytes_, at, (read_eight(bytes_, at) & others) | (number & ~others))
        else:
            at_h = at + np.uint64(n_bytes)
            kept, of_h = read_eight(bytes_, at_h) & others, np.int64(h * inverses[1])
            write_eight(bytes_, at, number)  # what is beyond its bytes is written next
            write_eight(bytes_, at_h, kept | (of_h & ~others))


@kernel
def write_numbers(gh, inverses, same_h, most, n_bytes, first, last, records):  # type: ignore[no-untyped-def]
    """Write g and h of some rows to their records, and return whether this can be done.

    It can if both are multiples of their steps, of magnitude at most ``most`` steps, and every row has the h
    ``same_h`` unless that is 0. A row with neither g nor h, as those that are not in a sample, is 0.

    Parameters
    ----------
    gh
        float64 (last - first or more, 2): g and h of these rows.
    inverses
        float64 (2,): the number of steps of g in 1, and of h.
    same_h
        The h of all rows, whose numbers are then g and a count of 1 in the lowest bit; 0 if g and h are written.
    most
        float64.
    n_bytes
        The bytes of a number, 4 to 8.
    first, last
        The rows.
    records
        uint8 (rows, bytes): the first bytes of each are written.
    """
    for start in range(first, last, _ROWS):
        stop, own = min(start + _ROWS, last), gh[start - first :]
        if not _have_numbers(own, inverses, same_h, most, stop - start):
            return False
        _write(own, inverses, same_h, n_bytes, start, stop, records)
    return True


@kernel
def _compute_share(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, offsets, inverses, same_h, n_bytes, records, largest, totals, share
):
    n_rows, count, gh = len(records), len(largest), np.empty((1, _ROWS, 2))
    for k in range(2):
        largest[share, k] = totals[share, k] = 0.0
    first, last = n_rows * share // count, n_rows * (share + 1) // count
    for start in range(first, last, _ROWS):
        stop = min(start + _ROWS, last)
        found = compute_to(instructions, constants, addresses, results, start, stop, offsets, gh, 0)
        for k in range(2):
            # NaN is larger than any number, as it is among the bits of magnitudes.
            is_larger = found[0][k] > largest[share, k] or found[0][k] != found[0][k]
            largest[share, k] = found[0][k] if is_larger else largest[share, k]
            totals[share, k] += found[1][k]
        _write(gh[0], inverses, same_h, n_bytes, start, stop, records)


_computing = outlined(_compute_share)


@kernel
def compute_numbers(  # type: ignore[no-untyped-def]
    team, instructions, constants, addresses, results, offsets, inverses, same_h, n_bytes, records, largest, totals
):
    """Do what `compute_shares` and `write_numbers` do, for one output, without pairs in memory.

    Numbers of magnitudes that do not fit are written wrong: the largest tell.

    Parameters
    ----------
    team, instructions, constants, addresses, results, offsets
        See `frameboost.engines.memory.programs.kernels.compute_shares`.
    inverses, same_h, n_bytes, records
        See `write_numbers`.
    largest, totals
        float64 (shares, 2), written: the largest magnitudes, and the sums of g and h on their grids.
    """
    values = (
        instructions, constants, addresses, results, offsets, inverses, same_h, n_bytes, records, largest, totals
    )  # fmt: skip
    share_out(team, _computing(values), len(largest))
