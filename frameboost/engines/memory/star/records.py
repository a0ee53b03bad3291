"""Records of facts: all that a histogram reads of a row side by side, in one cache line or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.engines.memory.star.kernels import write_records
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers

__all__ = ["Records"]

_Keys = Sequence[npt.NDArray[Any]]
# Bytes that are read of each key, and of each number, whatever their own width.
_READ, _READ_OF_NUMBER = 4, 8
# Records with a number start at a multiple of these bytes: of 16 bytes, they never lie across two cache lines.
_ALIGNED = 4
# Records that stay in the L2 cache.
_IN_CACHE = 1 << 15


class Records:
    """A record a row: its numbers (see `frameboost.engines.memory.star.packed`), its keys, its own codes.

    Say the first of two dimensions has 200 keys and the second 10,000, there are three own codes, and a number takes
    four bytes. Keys of one byte come last, so that they and the own codes are read as codes of one kind::

        byte   0 1 2 3   4 5           6            7 8 9       10 11
               number    second key    first key    own codes   unused

    Attributes
    ----------
    bytes
        uint8 (rows, bytes of a record).
    fields
        int64 (dimensions, 2): the first byte of each key, and a mask of its bits in the four bytes from there on.
    first_code
        The byte of the first own code.
    of_bytes
        The dimensions with keys of one byte, in the order of these.

    Parameters
    ----------
    n_keys
        The number of keys of each dimension.
    n_own
        The number of own codes.
    """

    def __init__(self, n_keys: Sequence[int], n_own: int) -> None:
        self._widths = [-(-(count - 1).bit_length() // 8) for count in n_keys]
        self._n_own = n_own
        self.of_bytes = [k for k, width in enumerate(self._widths) if width == 1]
        self._own: Sequence[Codes] | None = None
        self._lay_out(0)

    def _lay_out(self, n_number: int) -> None:
        self.n_number = n_number
        at, firsts = n_number, [0] * len(self._widths)
        for k in sorted(range(len(self._widths)), key=lambda k: self._widths[k] <= 1):
            firsts[k], at = at, at + self._widths[k]
        self.fields = np.array([(first, (1 << 8 * n) - 1) for first, n in zip(firsts, self._widths, strict=True)])
        self.first_code = at
        n_bytes = max(
            self.first_code + self._n_own, max(firsts) + _READ, n_number // 2 + _READ_OF_NUMBER if n_number else 0
        )
        aligned = _ALIGNED if n_number else 1
        self.bytes: npt.NDArray[np.uint8] = np.empty((0, -(-n_bytes // aligned) * aligned), np.uint8)
        self._is_written = False

    def forget(self, own: Sequence[Codes]) -> None:
        """Write the records anew when they are next asked for, as rows have their ``own`` codes, or another order."""
        self._own, self._is_written = own, False

    def write(self, keys: _Keys, n_number: int, workers: Workers) -> None:
        """Write the records if they are not written, with room for numbers of so many bytes or more."""
        if n_number > self.n_number:
            self._lay_out(n_number)
        if self._is_written:
            return
        assert self._own is not None
        n_rows, n_bytes = len(keys[0]), self.bytes.shape[1]
        if len(self.bytes) != n_rows:
            self.bytes = np.zeros((n_rows, n_bytes), np.uint8)
        codes = [(values, self.first_code + i, 1) for i, values in enumerate(self._own)]
        parts = [*zip(keys, self.fields[:, 0].tolist(), self._widths, strict=True), *codes]

        def write(first: int, last: int) -> None:
            for start in range(first, last, _IN_CACHE):  # each part of a record is written while it is in the cache
                for values, at, width in parts:
                    write_records(values, at, width, self.bytes, start, min(start + _IN_CACHE, last))

        workers.over(n_rows, write, smallest=VALUES_PER_TASK)
        self._is_written = True
