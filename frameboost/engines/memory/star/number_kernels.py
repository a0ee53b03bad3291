"""Kernels that write g and h of facts to their records, as whole numbers of steps (see `PackedPairs`)."""

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
def _write_counted(pairs, inverse, h, most, n_bytes, first, last, records):  # type: ignore[no-untyped-def]
    """Write g and a count of 1, or 0 for a row of neither g nor h; return of how many rows this can't be done."""
    width, bytes_ = np.uint64(records.shape[1]), records.ravel()
    others = ~np.int64(0) << np.int64(8 * n_bytes) if n_bytes < 8 else np.int64(0)  # bits that are not written
    n_others = 0
    for row in range(np.uint64(first), np.uint64(last)):
        i = row - np.uint64(first)
        own, steps = pairs[i, 1], pairs[i, 0] * inverse
        whole, at = np.int64(steps), row * width
        number = (whole << np.int64(1)) + np.int64(own != 0.0)
        write_eight(bytes_, at, (read_eight(bytes_, at) & others) | (number & ~others))
        n_others += (np.float64(whole) != steps) | (abs(steps) > most) | ((own != h) & ((own != 0.0) | (whole != 0)))
    return n_others


@kernel
def _write_both(pairs, inverse_g, inverse_h, most, n_bytes, first, last, records):  # type: ignore[no-untyped-def]
    """Write g and h; return of how many rows this can't be done."""
    width, bytes_ = np.uint64(records.shape[1]), records.ravel()
    others = ~np.int64(0) << np.int64(8 * n_bytes) if n_bytes < 8 else np.int64(0)
    n_others = 0
    for row in range(np.uint64(first), np.uint64(last)):
        i = row - np.uint64(first)
        g, h = pairs[i, 0] * inverse_g, pairs[i, 1] * inverse_h
        whole_g, whole_h, at = np.int64(g), np.int64(h), row * width
        write_eight(bytes_, at, (read_eight(bytes_, at) & others) | (whole_g & ~others))
        at += np.uint64(n_bytes)
        write_eight(bytes_, at, (read_eight(bytes_, at) & others) | (whole_h & ~others))
        n_others += (np.float64(whole_g) != g) | (np.float64(whole_h) != h) | (abs(g) > most) | (abs(h) > most)
    return n_others


@kernel
def write_numbers(pairs, inverses, same_h, most, n_bytes, first, last, records):  # type: ignore[no-untyped-def]
    """Write g and h of some rows to their records, and return whether this can be done.

    It can if both are multiples of their steps, of magnitude at most ``most`` steps, and every row has the h
    ``same_h`` unless that is 0. A row with neither g nor h, as those that are not in a sample, is 0.

    Parameters
    ----------
    pairs
        float64 (last - first or more, 2): g and h of these rows.
    inverses
        float64 (2,): the number of steps of g in 1, and of h.
    same_h
        The h of all rows, whose numbers are then g and a count of 1 in the lowest bit; 0 if g and h are written.
    most
        float64.
    n_bytes
        The bytes of a number.
    first, last
        The rows.
    records
        uint8 (rows, bytes): the first bytes of each are written.
    """
    for start in range(first, last, _ROWS):
        stop, own = min(start + _ROWS, last), pairs[start - first :]
        if same_h > 0:
            n_others = _write_counted(own, inverses[0], same_h, most, n_bytes, start, stop, records)
        else:
            n_others = _write_both(own, inverses[0], inverses[1], most, n_bytes, start, stop, records)
        if n_others:
            return False
    return True


@kernel
def _compute_share(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, offsets, inverses, same_h, most, n_bytes, records, largest, totals,
    fits, share,
):  # fmt: skip
    n_rows, count, pairs = len(records), len(largest), np.empty((1, _ROWS, 2))
    for k in range(2):
        largest[share, k] = totals[share, k] = 0.0
    fits[share] = True
    first, last = n_rows * share // count, n_rows * (share + 1) // count
    for start in range(first, last, _ROWS):
        stop = min(start + _ROWS, last)
        found = compute_to(instructions, constants, addresses, results, start, stop, offsets, pairs, 0)
        for k in range(2):
            # NaN is larger than any number, as it is among the bits of magnitudes.
            is_larger = found[0][k] > largest[share, k] or found[0][k] != found[0][k]
            largest[share, k] = found[0][k] if is_larger else largest[share, k]
            totals[share, k] += found[1][k]
        fits[share] &= write_numbers(pairs[0], inverses, same_h, most, n_bytes, start, stop, records)


_computing = outlined(_compute_share)


@kernel
def compute_numbers(  # type: ignore[no-untyped-def]
    team, instructions, constants, addresses, results, offsets, inverses, same_h, most, n_bytes, records, largest,
    totals, fits,
):  # fmt: skip
    """Do what `compute_shares` and `write_numbers` do, for one output, without pairs in memory.

    Parameters
    ----------
    team, instructions, constants, addresses, results, offsets
        See `frameboost.engines.memory.programs.kernels.compute_shares`.
    inverses, same_h, most, n_bytes, records
        See `write_numbers`.
    largest, totals
        float64 (shares, 2), written: the largest magnitudes, and the sums of g and h on their grids.
    fits
        bool (shares,), written: whether the numbers can be written.
    """
    values = (
        instructions, constants, addresses, results, offsets, inverses, same_h, most, n_bytes, records, largest, totals,
        fits,
    )  # fmt: skip
    share_out(team, _computing(values), len(largest))
