"""Batches of a query's result as numpy arrays: one is at hand while a thread reads the next (double buffer).

The result comes through Arrow's C stream interface, whose structures are declared here as that specification has them
(arrow.apache.org/docs/format/CStreamInterface.html). So neither pyarrow is needed, nor memory for the whole result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from frameboost.runtime.duckdb_errors import when_free

__all__ = ["Batch", "read_batches"]

Batch = Sequence[npt.NDArray[Any]]


class _Array(ctypes.Structure):
    """``struct ArrowArray``."""


_Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))), ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))), ("private_data", ctypes.c_void_p),
]  # fmt: skip


class _Stream(ctypes.Structure):
    """``struct ArrowArrayStream``."""


_Stream._fields_ = [
    ("get_schema", ctypes.c_void_p),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def read_batches(result: Any, dtypes: Sequence[npt.DTypeLike]) -> Generator[Batch, None, None]:
    """Yield the columns of each batch; the arrays are valid until the next batch is asked for.

    Parameters
    ----------
    result
        A result with ``__arrow_c_stream__``.
    dtypes
        The dtypes of its columns, which are numbers and have no NULL.

    Raises
    ------
    duckdb.Error
        If the database cannot compute a batch.
    """
    kinds = [np.dtype(dtype) for dtype in dtypes]
    source = _Source()
    try:
        source.capsule = when_free(result.__arrow_c_stream__)
        with ThreadPoolExecutor(1, "frameboost-batches") as reader:
            ahead = reader.submit(source.read)
            try:
                while (batch := ahead.result()).release:
                    ahead = reader.submit(source.read)
                    try:
                        yield [_column(batch.children[i].contents, kind) for i, kind in enumerate(kinds)]
                    finally:
                        batch.release(ctypes.byref(batch))
            finally:
                if not ahead.exception() and (rest := ahead.result()).release:
                    rest.release(ctypes.byref(rest))
    finally:
        source.close()


class _Source:
    """A stream that one thread reads and another one closes, also where Ctrl-C has lost the thread as it started.

    Attributes
    ----------
    capsule
        The stream, which is released as the capsule is dropped; None once it is closed.
    """

    def __init__(self) -> None:
        self.capsule: Any = None
        self._lock = Lock()

    def read(self) -> Any:
        """Return the next batch, which is released already where there is none.

        While ctypes calls the database, other threads run.
        """
        batch = _Array()
        with self._lock:
            if self.capsule is None:
                return batch
            stream = _Stream.from_address(_pointer_of(self.capsule, b"arrow_array_stream"))

            def read() -> None:
                if stream.get_next(ctypes.byref(stream), ctypes.byref(batch)):
                    raise _error_of((stream.get_last_error(ctypes.byref(stream)) or b"").decode())

            when_free(read)
        return batch

    def close(self) -> None:
        """Release the stream, after a read that is under way."""
        with self._lock:
            self.capsule = None


def _error_of(message: str) -> duckdb.Error:
    """Return the exception that a connection raises with this message, which starts with the exception's kind.

    "Out of Range Error: ..." is a `duckdb.OutOfRangeException`.
    """
    name = message.partition(" Error:")[0].replace(" ", "").lower() + "exception"
    for kind in vars(duckdb).values():
        if isinstance(kind, type) and issubclass(kind, duckdb.Error) and kind.__name__.lower() == name:
            return kind(message)
    return duckdb.Error(message)


class _Memory:
    """Memory of the database, as numpy reads it (the array interface protocol, version 3)."""

    def __init__(self, address: int, length: int, dtype: np.dtype[Any]) -> None:
        self.__array_interface__ = {"version": 3, "shape": (length,), "typestr": dtype.str, "data": (address, True)}


def _column(column: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not column.length:
        return np.empty(0, dtype)
    return np.asarray(_Memory(column.buffers[1] + column.offset * dtype.itemsize, column.length, dtype))
