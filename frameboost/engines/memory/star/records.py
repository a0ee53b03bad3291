"""Records of facts: all data of a row that a histogram reads, contiguous, in one or two cache lines; g and h too.

Let s and t be the steps of g and h. If h is constant, a row with g = 5 s has the number 5 · 2 + 1: the lowest bit
counts rows, and is 0 for a row outside of the sample. Sums of these numbers contain both sums (see `packed`). If h
varies, a row with g = 5 s and h = 3 t has the numbers 5 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.engines.memory.terms import Scale
from frameboost.engines.programs import Program, compute_to
from frameboost.runtime.intrinsics import read_eight, write_eight
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.runtime.workers import ROWS_PER_TASK, VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["PackedGradients", "Records", "most_in_one"]


_Keys = Sequence[npt.NDArray[Any]]
# Bytes that are read of each key, and of each number, whatever their width.
_READ, _READ_OF_NUMBER = 4, 8
# Records with a number start at a multiple of these bytes: of 16 bytes, they never lie across two cache lines.
_ALIGNED = 4
# Records that stay in the L2 cache.
_IN_CACHE = 1 << 15


class Records:
    """One record per row: its numbers (see `PackedGradients`), its keys, and the codes of the fact's features.

    Example: two dimensions have 200 and 10,000 keys, facts have three codes, and a number takes four bytes. One-byte
    keys come last, so that they and the facts' codes are read uniformly::

        byte   0 1 2 3   4 5           6            7 8 9       10 11
               number    second key    first key    codes       unused

    Attributes
    ----------
    bytes
        uint8 (rows, bytes of a record).
    fields
        int64 (dimensions, 2): the first byte of each key, and a mask of its bits in the four bytes that start there.
    first_code
        The byte of the first code.
    of_bytes
        The dimensions with one-byte keys, in the order of the keys.

    Parameters
    ----------
    n_keys
        The number of keys of each dimension.
    n_codes
        The number of the facts' codes.
    """

    def __init__(self, n_keys: Sequence[int], n_codes: int) -> None:
        self._widths = [-(-(count - 1).bit_length() // 8) for count in n_keys]
        self._n_codes = n_codes
        self.of_bytes = [k for k, width in enumerate(self._widths) if width == 1]
        self._codes: Sequence[Codes] | None = None
        self._lay_out(0)

    def _lay_out(self, n_number: int) -> None:
        self.n_number = n_number
        at, firsts = n_number, [0] * len(self._widths)
        for k in sorted(range(len(self._widths)), key=lambda k: self._widths[k] <= 1):
            firsts[k], at = at, at + self._widths[k]
        self.fields = np.array([(first, (1 << 8 * n) - 1) for first, n in zip(firsts, self._widths, strict=True)])
        self.first_code = at
        n_bytes = max(
            self.first_code + self._n_codes, max(firsts) + _READ, n_number // 2 + _READ_OF_NUMBER if n_number else 0
        )
        aligned = _ALIGNED if n_number else 1
        self.bytes: npt.NDArray[np.uint8] = np.empty((0, -(-n_bytes // aligned) * aligned), np.uint8)
        self._is_written = False

    def forget(self, codes: Sequence[Codes]) -> None:
        """Rewrite the records at the next read, because codes or the row order have changed."""
        self._codes, self._is_written = codes, False

    def write(self, keys: _Keys, n_number: int, workers: Workers) -> None:
        """Write the records unless they exist with room for numbers of at least this many bytes."""
        if n_number > self.n_number:
            self._lay_out(n_number)
        if self._is_written:
            return
        assert self._codes is not None
        n_rows, n_bytes = len(keys[0]), self.bytes.shape[1]
        if len(self.bytes) != n_rows:
            self.bytes = np.zeros((n_rows, n_bytes), np.uint8)
        codes = [(values, self.first_code + i, 1) for i, values in enumerate(self._codes)]
        parts = [*zip(keys, self.fields[:, 0].tolist(), self._widths, strict=True), *codes]

        def write(first: int, last: int) -> None:
            for start in range(first, last, _IN_CACHE):  # each part of a record is written while it is in the cache
                for values, at, width in parts:
                    write_records(values, at, width, self.bytes, start, min(start + _IN_CACHE, last))

        workers.over(n_rows, write, smallest=VALUES_PER_TASK)
        self._is_written = True


@kernel
def write_records(values, at, width, records, first, last):  # type: ignore[no-untyped-def]
    """Write the ``width`` lowest bytes of unsigned values of some rows to their records, starting at byte ``at``."""
    n_bytes, bytes_ = np.uint64(records.shape[1]), records.ravel()
    for row in range(np.uint64(first), np.uint64(last)):
        rest, start = np.uint32(values[row]), row * n_bytes + np.uint64(at)
        for k in range(np.uint64(width)):
            bytes_[start + k] = np.uint8(rest & np.uint32(255))
            rest >>= np.uint32(8)


# --- g and h as whole numbers -----------------------------------------------------------------------------------------


# The step of g, the h of all rows, the number of bits of the count, and the bits that a number is shorter than 64.
Grid = tuple[float, float, int, int]
# The steps of g and h, and the bytes of a number.
Steps = tuple[float, float, int]


class PackedGradients:
    """The pairs of a tree as the numbers of `Records`.

    Attributes
    ----------
    grid
        Set if h is constant; None if the pairs of this tree are not packed, or have two numbers.
    steps
        Set if g and h are two numbers; otherwise None.

    Parameters
    ----------
    n_rows
        The number of facts.
    may_count
        Whether rows may be counted if h is constant: codes are uint8.
    """

    def __init__(self, n_rows: int, *, may_count: bool) -> None:
        self.grid: Grid | None = None
        self.steps: Steps | None = None
        self._n_rows = n_rows
        self._may_count = may_count
        self._most = 2.0 ** _magnitude_bits(n_rows)
        self._n_bytes = -(-(_magnitude_bits(n_rows) + 3) // 8)  # with a sign, for up to ± 2^k, and the count

    def bytes_of(self, scale: Scale | None) -> int:
        """Return the bytes of a record for pairs of this scale."""
        if scale is None:
            return 0
        return self._n_bytes if self._same_h(scale) else 2 * self._n_bytes

    def write(self, gh: FloatArray, scale: Scale | None, records: Records, workers: Workers) -> None:
        """Pack pairs, float64 (rows, 2), if possible."""
        self.grid = self.steps = None
        if scale is None:
            return
        inverses, same_h = 1 / np.array([scale.g, scale.h]), self._same_h(scale)

        def write(rows: tuple[int, int]) -> bool:
            pairs = gh[slice(*rows)]
            return bool(write_numbers(pairs, inverses, same_h, self._most, self._n_bytes, *rows, records.bytes))

        if all(workers.each(workers.slices(self._n_rows, VALUES_PER_TASK), write)):
            self._keep(scale)

    def compute(
        self, program: Program, columns: IntArray, offsets: FloatArray, scale: Scale, records: Records,
        workers: Workers,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Compute pairs as numbers, and return their largest magnitudes and sums.

        See `frameboost.engines.programs.compute_all`; ``columns`` are their addresses.
        """
        self.grid = self.steps = None
        count = workers.count(self._n_rows, ROWS_PER_TASK)
        largest, totals = np.empty((2, count, 2))
        steps = np.array([scale.g, scale.h])
        compute_numbers(
            workers.team(count), program.for_kernels, program.constants, columns, program.results, offsets, 1 / steps,
            self._same_h(scale), self._n_bytes, records.bytes, largest, totals,
        )  # fmt: skip
        most = largest.max(axis=0)
        if (most <= self._most * steps).all():  # not if NaN
            self._keep(scale)
        return most, totals.sum(axis=0)  # exact

    def _same_h(self, scale: Scale) -> float:
        return scale.same_h if self._may_count else 0.0

    def _keep(self, scale: Scale) -> None:
        if same_h := self._same_h(scale):
            self.grid = scale.g, same_h, _bits(self._n_rows), 64 - 8 * self._n_bytes
        else:
            self.steps = scale.g, scale.h, self._n_bytes


def most_in_one(n_rows: int) -> int:
    """Return the maximum number of rows in the sum of one int64, of ``n_rows`` in all."""
    return (1 << _bits(n_rows)) - 1


def _magnitude_bits(n_rows: int) -> int:
    """Return k such that g is at most 2^k steps (see `frameboost.expressions.grid`)."""
    return 52 - (max(n_rows, 4) - 1).bit_length()


def _bits(n_rows: int) -> int:
    """Return the number of bits that count rows: n rows have sums of g up to n · 2^k, and n fits the bits below."""
    return (63 - _magnitude_bits(n_rows)) // 2


# Rows whose pairs stay in the L2 cache.
_ROWS = 1 << 13


@kernel
def _have_numbers(gh, inverses, same_h, most, count):  # type: ignore[no-untyped-def]
    """Whether some pairs can be written, see `write_numbers`."""
    n_others = 0
    for row in range(np.uint64(count)):
        g, h = gh[row, 0] * inverses[0], gh[row, 1] * inverses[1]
        n_others += (np.float64(np.int64(g)) != g) | (abs(g) > most)
        if same_h > 0:
            row_h = gh[row, 1]
            n_others += (row_h != same_h) & ((row_h != 0.0) | (g != 0.0))
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
            other_bits, of_h = read_eight(bytes_, at_h) & others, np.int64(h * inverses[1])
            write_eight(bytes_, at, number)  # what is beyond its bytes is written next
            write_eight(bytes_, at_h, other_bits | (of_h & ~others))


@kernel
def write_numbers(gh, inverses, same_h, most, n_bytes, first, last, records):  # type: ignore[no-untyped-def]
    """Write g and h of some rows to their records; return whether this is possible.

    It is if both are multiples of their steps, with a magnitude of at most ``most`` steps, and every row has the h
    ``same_h`` unless that is 0. Rows with zero g and h, such as those outside of a sample, are 0.

    Parameters
    ----------
    gh
        float64 (last - first or more, 2): g and h of these rows.
    inverses
        float64 (2,): the number of steps of g in 1, and of h.
    same_h
        The h of all rows, for numbers of g and a count of 1 in the lowest bit; 0 if g and h are written.
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
        stop, block = min(start + _ROWS, last), gh[start - first :]
        if not _have_numbers(block, inverses, same_h, most, stop - start):
            return False
        _write(block, inverses, same_h, n_bytes, start, stop, records)
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
        of_block = compute_to(instructions, constants, addresses, results, start, stop, offsets, gh, 0)
        for k in range(2):
            # NaN is larger than any number, as in the bits of magnitudes.
            is_larger = of_block[0][k] > largest[share, k] or of_block[0][k] != of_block[0][k]
            largest[share, k] = of_block[0][k] if is_larger else largest[share, k]
            totals[share, k] += of_block[1][k]
        _write(gh[0], inverses, same_h, n_bytes, start, stop, records)


_computing = outlined(_compute_share)


@kernel
def compute_numbers(  # type: ignore[no-untyped-def]
    team, instructions, constants, addresses, results, offsets, inverses, same_h, n_bytes, records, largest, totals
):
    """Do the work of `compute_shares` and `write_numbers`, for one output, without pairs in memory.

    Numbers that do not fit are stored incorrectly; the largest magnitudes reveal it.

    Parameters
    ----------
    team, instructions, constants, addresses, results, offsets
        See `frameboost.engines.programs.compute_shares`.
    inverses, same_h, n_bytes, records
        See `write_numbers`.
    largest, totals
        float64 (shares, 2), written: the largest magnitudes, and the sums of g and h on their grids.
    """
    values = (
        instructions, constants, addresses, results, offsets, inverses, same_h, n_bytes, records, largest, totals
    )  # fmt: skip
    share_out(team, _computing(values), len(largest))
