"""The memory of a frame's columns, by the C interface of Arrow (https://arrow.apache.org/docs/format/CStreamInterface)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["ADDRESSES", "BUFFERS", "CHILDREN", "LENGTH", "N_BUFFERS", "OFFSET", "arrow_batches"]

# Fields of the struct ArrowArray, 8 bytes each.
LENGTH, OFFSET, N_BUFFERS, BUFFERS, CHILDREN, _RELEASE, ADDRESSES = 0, 2, 3, 5, 6, 8, 10
_GET_NEXT = 8  # of the struct ArrowArrayStream, in bytes
_Next: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


@contextmanager
def arrow_batches(frame: pl.DataFrame) -> Iterator[list[npt.NDArray[np.int64]]]:
    """Return the batches of rows of a frame, each as the fields of its ArrowArray; they are there until the end.

    Nothing is copied. A frame has a batch for each of its chunks.
    """
    capsule = frame.__arrow_c_stream__()
    stream = _pointer_of(capsule, b"arrow_array_stream")
    get_next = _Next(ctypes.c_void_p.from_address(stream + _GET_NEXT).value)
    batches: list[npt.NDArray[np.int64]] = []
    try:
        while True:
            batch = np.zeros(ADDRESSES, np.int64)
            if get_next(stream, batch.ctypes.data):
                raise MemoryError("polars can't export a frame")
            if not batch[_RELEASE]:  # the end
                break
            batches.append(batch)
        yield batches
    finally:
        for batch in batches:
            _Release(int(batch[_RELEASE]))(batch.ctypes.data)
