"""Storage of arrays as long as the rows: memory, or memory-mapped files; and the available memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import shown
from frameboost.errors import DataError
from frameboost.runtime.control_groups import memory_groups

__all__ = ["IN_MEMORY", "FileStorage", "MemoryBudget", "Storage", "available_memory", "returned"]


# Columns of these types, without NULL, are arrays to numpy and to polars alike.
_IN_ARRAYS = (
    pl.Float64, pl.Float32, pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.UInt64, pl.UInt32, pl.UInt16, pl.UInt8
)  # fmt: skip


class Storage:
    """Keeps arrays in memory.

    Parameters
    ----------
    holds_columns
        Whether an engine should hold feature columns until they are binned. Otherwise it reads one at a time, each time
        it needs it.
    """

    in_files = False  # whether arrays are in files
    room = 3 << 27  # bytes for columns that are binned before their codes are written by row

    def __init__(self, *, holds_columns: bool = True) -> None:
        self.holds_columns = holds_columns

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike, *, is_rewritten: bool = False) -> npt.NDArray[Any]:
        """Return a new array, like `numpy.empty`; ``is_rewritten`` means that it is overwritten for each tree."""
        return np.empty(shape, dtype)

    def kept(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return an array to keep, possibly a copy in this storage."""
        return array

    def kept_frame(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame to keep, possibly with copies of its columns in this storage."""
        return frame

    def release_pages(self) -> None:
        """Release file pages from the memory of the process until they are used again, if that is limited."""


IN_MEMORY = Storage()


def returned(count: int) -> npt.NDArray[np.float64]:
    """Return a temporary array, with memory that goes back to the system when freed.

    The C library would keep a few megabytes of freed memory for arrays of that size, and a fit has no others.
    """
    return np.frombuffer(mmap.mmap(-1, max(1, 8 * count)), np.float64, count)


class FileStorage(Storage):
    """Keeps arrays in memory-mapped temporary files, paged by the system.

    The files are unnamed, so that nothing remains once the arrays are freed or the process ends. They are in the folder
    of `tempfile.gettempdir` (environment variable TMPDIR). Their space is reserved at once, because a full disk later
    would kill the process (SIGBUS).

    Parameters
    ----------
    memory
        Bytes of memory for rewritten arrays. Clean file pages are dropped when memory is short; dirty ones are written
        to disk each time.
    room
        Bytes for columns that are binned before their codes are written; None for the default.
    releases
        Whether `release_pages` has an effect, as file pages count as memory of the process.
    """

    in_files = True

    def __init__(self, memory: int = 0, room: int | None = None, *, releases: bool = False) -> None:
        super().__init__(holds_columns=False)
        self._memory = memory
        self.room = self.room if room is None else room
        self._releases = releases
        self._lock = Lock()  # of memory and mappings: shards ask in several threads
        self._mappings: weakref.WeakSet[_Mapping] = weakref.WeakSet()

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike, *, is_rewritten: bool = False) -> npt.NDArray[Any]:
        """See `Storage.empty`."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size == 0 or (is_rewritten and self._takes(size)):
            return np.empty(shape, dtype)
        try:
            with tempfile.TemporaryFile(prefix="frameboost-") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:  # macOS and Windows
                    file.truncate(size)
                mapped = self._map(file.fileno(), size)
        except OSError as error:
            raise DataError(
                f"the rows do not fit in memory, and a temporary file of {size:,} bytes can't be made in "
                f"{shown(tempfile.gettempdir())}: {error.strerror}; set the environment variable TMPDIR to a folder "
                "with more space"
            ) from error
        return mapped.view(dtype).reshape(shape)

    def _map(self, descriptor: int, size: int) -> npt.NDArray[np.uint8]:
        if os.name != "posix":
            return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        mapping = _Mapping(descriptor, size)
        with self._lock:
            self._mappings.add(mapping)
        return np.asarray(mapping)

    def release_pages(self) -> None:
        """See `Storage.release_pages`."""
        if not self._releases:
            return
        with self._lock:
            mappings = list(self._mappings)
        for mapping in mappings:
            mapping.release_pages()

    def _takes(self, size: int) -> bool:
        with self._lock:
            fits = size <= self._memory
            self._memory -= size * fits
        return fits

    def kept(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """See `Storage.kept`; Python objects stay in memory."""
        if array.dtype.hasobject:
            return array
        copy = self.empty(array.shape, array.dtype)
        copy[...] = array
        return copy

    def kept_frame(self, frame: pl.DataFrame) -> pl.DataFrame:
        """See `Storage.kept_frame`; columns with NULL, and of types that numpy lacks, stay in memory."""
        return pl.DataFrame([
            pl.Series(values.name, self.kept(values.to_numpy()))  # without another copy
            if values.dtype in _IN_ARRAYS and not values.null_count()
            else values
            for values in frame
        ])  # fmt: skip


class _Mapping:
    """A memory-mapped file that needs no descriptor, unlike `mmap.mmap` before Python 3.13.

    A process may have 1,024 descriptors by default, but some hundred shards have thousands of arrays. A numpy array
    over it keeps it alive.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
        library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        address = library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False)}
        weakref.finalize(self, library.munmap, address, size).atexit = False  # when threads may still use it
        self._release = partial(library.madvise, address, size, mmap.MADV_DONTNEED)

    def release_pages(self) -> None:
        """See `Storage.release_pages`: as the mapping is shared, what was written stays, in the page cache."""
        self._release()


# --- how much memory a fit may use ------------------------------------------------------------------------------------


class MemoryBudget:
    """The memory shared by the engines of a fit: what is available at the first reservation, minus reservations.

    Parameters
    ----------
    at_most
        A limit of the process in bytes, if below that of the system.
    n_processes
        The number of processes that share the system's memory.
    """

    def __init__(self, at_most: int | None = None, n_processes: int = 1) -> None:
        self._at_most = at_most
        self._n_processes = n_processes
        self._available: int | None = None
        self._reserved = 0

    def left(self) -> int | None:
        """Return the remaining bytes, None if the system does not report them."""
        if self._available is None:
            machine = available_memory()
            known = [self._at_most, None if machine is None else machine // self._n_processes]
            self._available = min((size for size in known if size is not None), default=None)
        return None if self._available is None else max(0, self._available - self._reserved)

    def reserve(self, size: int) -> None:
        """Take bytes for an engine."""
        self._reserved += size


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the available memory in bytes; None if the system does not report it (not Linux).

    The page cache counts as free, as the kernel drops it when memory is short. ``root`` is the root of the system's
    files.

    The minimum over /proc/meminfo and the limits of control groups (cgroup v1 or v2) and their ancestors.
    """
    try:
        machine = _field((root / "proc/meminfo").read_text(), "MemAvailable:") * 1024
        groups = list(memory_groups(root))
    except (OSError, ValueError):
        return None
    return max(0, min([machine, *(limit - used for limit, used in groups)]))


def _field(text: str, name: str) -> int:
    """Return the number after a name at the start of a line."""
    return next(int(line.removeprefix(name).split()[0]) for line in text.splitlines() if line.startswith(name))
