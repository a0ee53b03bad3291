"""The memory of a frame's columns, by the C interface of Arrow (https://arrow.apache.org/docs/format/CStreamInterface)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import polars as pl

__all__ = ["ADDRESSES", "BUFFERS", "CHILDREN", "LENGTH", "N_BUFFERS", "OFFSET", "arrow_batches"]

# Fields of the struct ArrowArray, 8 bytes each.
LENGTH, OFFSET, N_BUFFERS, BUFFERS, CHILDREN, _RELEASE, ADDRESSES = 0, 2, 3, 5, 6, 8, 10
_GET_NEXT = 8  # of the struct ArrowArrayStream, in bytes
_Batch = ctypes.c_int64 * ADDRESSES
_Next: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


# Minimum rows of a chunk to be a batch: exporting it takes as long as copying this many rows.
_LARGE = 1_000


@contextmanager
def arrow_batches(frame: pl.DataFrame) -> Iterator[list[ctypes.Array[ctypes.c_int64]]]:
    """Return the batches of rows of a frame, each as the fields of its ArrowArray; they are there until the end.

    There is one for each chunk of the first column: to export several chunks at once, polars makes one of them, a copy.
    That is what happens to small ones here, and to columns with other chunks.
    """
    parts = [frame]
    if 1 < frame.n_chunks() <= len(frame) // _LARGE:
        parts = [frame[a:b] for a, b in pairwise([0, *accumulate(frame.to_series(0).chunk_lengths())])]
    batches: list[ctypes.Array[ctypes.c_int64]] = []
    try:
        for part in parts:
            capsule = part.__arrow_c_stream__()
            stream = _pointer_of(capsule, b"arrow_array_stream")
            get_next = _Next(ctypes.c_void_p.from_address(stream + _GET_NEXT).value)
            batch = _Batch()
            while not get_next(stream, ctypes.addressof(batch)) and batch[_RELEASE]:  # which the end has not
                batches.append(batch)
                batch = _Batch()
        if sum(batch[LENGTH] for batch in batches) != len(frame):
            raise MemoryError("polars can't export a frame")
        yield batches
    finally:
        for batch in batches:
            _Release(batch[_RELEASE])(ctypes.addressof(batch))
