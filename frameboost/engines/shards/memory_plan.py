"""The storage of the arrays of shards over files, from estimated sizes and the available memory."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeGuard

import polars as pl

from frameboost.binning.bins import SAMPLE_LIMIT
from frameboost.checks.messages import shown
from frameboost.data.database_table import DatabaseTable
from frameboost.data.sources import FrameSource
from frameboost.engines.contract import EngineRequest
from frameboost.errors import DataError
from frameboost.runtime.storage import IN_MEMORY, FileStorage, Storage
from frameboost.schema.types import Feature

__all__ = [
    "MAX_SHARDS", "Need", "RowSize", "check_folder", "fewest_shards", "need_of", "reads_columns", "row_size",
    "storage_of", "storage_within",
]  # fmt: skip

# The share of the memory that estimates may reach. The rest is for columns as they are read, for answers, and for what
# an estimate leaves out.
_USED = 0.75
# Bytes for pages of files and for work, where some arrays are in memory and others in files.
_BESIDE_ARRAYS = 1 << 29
# What `need_of` reckons with, in bytes: for messages and freed memory that is not given back; and of each row of a
# shard for work in files, for the column that a thread reads, and for its sorted values. Measured (docs/scale.md).
_FIXED, _FILE_WORK, _COLUMN, _SORTED = 1 << 25, 60, 16, 40
# Sorted values of the features that are cut at a time, of each row that cuts come from.
_COUNTS = 100
MAX_SHARDS = 64  # of a worker, where their number is chosen here


class RowSize(NamedTuple):
    """The estimated bytes of one row in an engine: its values as read, and its arrays.

    ``rewritten`` are those written for each tree if arrays are in files.
    """

    columns: int
    arrays: int
    rewritten: int


def storage_of(request: EngineRequest) -> Storage:
    """Return the storage of arrays of shards over the rows of a request.

    If memory suffices, columns and arrays are in memory. If only the arrays fit, columns are read one at a time;
    otherwise arrays are in temporary files, too. Both require Parquet or Arrow files, or a database table: other files
    do not allow reading single columns, and frames are already in memory.
    """
    left, source = request.budget.left(), request.source
    if left is None or not reads_columns(source):
        return IN_MEMORY
    n_rows = source.count_rows()
    columns, arrays, rewritten = (n_rows * size for size in row_size(request))
    if arrays <= left * _USED:
        request.budget.reserve(arrays)
        return IN_MEMORY if columns + arrays <= left * _USED else Storage(holds_columns=False)
    check_folder()
    memory = min(rewritten, max(0, int(left * _USED) - _BESIDE_ARRAYS))
    request.budget.reserve(memory)
    return FileStorage(memory)


def reads_columns(source: object) -> TypeGuard[FrameSource | DatabaseTable]:
    """Whether single columns can be read, so that rows may exceed memory."""
    return isinstance(source, DatabaseTable) or (isinstance(source, FrameSource) and source.are_columnar)


class Need(NamedTuple):
    """The additional bytes that a process needs, by the storage of its shards' arrays.

    ``by_column`` reads one column at a time, with arrays in memory.
    """

    in_memory: int
    by_column: int
    in_files: int


def need_of(request: EngineRequest, counts: Sequence[int], n_all: int, n_threads: int) -> Need:
    """Return the need of one process's shards, which take turns.

    Parameters
    ----------
    request
        Whose rows are divided.
    counts
        The number of rows of each shard.
    n_all
        The number of rows of all processes; cuts come from a sample of them.
    n_threads
        The threads of the process.
    """
    columns, arrays, _ = row_size(request)
    parameters, n_rows, largest = request.parameters, sum(counts), max(counts, default=0)
    share = min(1.0, SAMPLE_LIMIT / max(1, n_all))
    depth = parameters.max_depth or 8
    nodes = min(
        2 ** max(0, min(depth, 20) - 2), max(1, parameters.max_leaves // 2) if parameters.max_leaves else 1 << 20
    )
    histograms = 16 * len(request.features) * (parameters.max_bin + 1) * max(1, min(nodes, largest))
    work = n_threads * int(largest * (_COLUMN + _SORTED * share))
    beside = _FIXED + 2 * histograms
    held = max(arrays * n_rows, int(_COUNTS * n_rows * share))
    in_files = beside + work + n_threads * histograms + (_FILE_WORK + 1) * largest
    return Need(columns * n_rows + held + work + beside, held + work + beside, in_files)


def fewest_shards(
    request: EngineRequest, n_rows: int, rooms: Sequence[tuple[int, int]], *, fits_files: bool
) -> int | None:
    """Return the number of shards for which each process has room for its share; None if there is none.

    Parameters
    ----------
    request
        Whose rows are divided.
    n_rows
        Their number.
    rooms
        The available bytes and the number of threads of each process.
    fits_files
        Whether arrays may be in files.
    """
    n, n_rows_each = len(rooms), -(-n_rows // len(rooms))
    for way in Need._fields if fits_files else Need._fields[:1]:
        each = 1
        while each <= MAX_SHARDS:
            counts = [-(-n_rows_each // each)] * each
            if all(getattr(need_of(request, counts, n_rows, n_threads), way) <= room for room, n_threads in rooms):
                return n * each
            each *= 2
    return None


def storage_within(
    request: EngineRequest, counts: Sequence[int], n_all: int, n_threads: int, *, in_files: bool = False
) -> Storage:
    """Return the storage of the arrays of shards in a process with limited memory.

    Parameters
    ----------
    request, counts, n_all, n_threads
        See `need_of`; the request's budget is the remaining memory.
    in_files
        Whether to use files in any case.
    """
    left = request.budget.left()
    if left is None and not in_files:
        return IN_MEMORY
    left, need = left or 0, need_of(request, counts, n_all, n_threads)
    arrays, rewritten = (sum(counts) * size for size in row_size(request)[1:])
    if need.by_column <= left and not in_files:
        request.budget.reserve(arrays)
        return IN_MEMORY if need.in_memory <= left else Storage(holds_columns=False)
    check_folder()
    free = max(0, left - need.in_files)
    memory = min(rewritten, free // 2)
    request.budget.reserve(memory)
    return FileStorage(memory, min(Storage.room, max(1 << 22, (free - memory) // 2)), releases=True)


def row_size(request: EngineRequest) -> RowSize:
    """Return the size of one row of a request.

    Arrays in memory are codes by column and by row, roles, row numbers twice (see `RowPartition`), and a margin, g and
    h for each output. Rewritten arrays in files are margins, node indices and, unless recomputed on use (see
    `RecomputedGradients`), g and h.
    """
    parameters, features = request.parameters, request.features
    outputs = max(parameters.num_class or 1, sum(role.startswith("label") for role in request.roles))
    narrow = [parameters.max_bin <= 256 and not feature.type.is_categorical for feature in features]
    codes = 2 * sum(1 if is_narrow else 2 for is_narrow in narrow)
    is_sampled = parameters.subsample < 1
    arrays = codes + 8 * len(request.roles) + 4 * 2 + (8 + 16) * outputs + (16 + 4) * is_sampled
    # Codes of a database are read packed, about six in a number (see `frameboost.engines.memory.database`).
    columns = 2 * len(features) if isinstance(request.source, DatabaseTable) else sum(map(_width, features))
    return RowSize(columns, arrays, 1 + (8 + 16) * outputs + 16 * is_sampled)


def _width(feature: Feature) -> int:
    """Return the bytes of one value; a guess for strings, which polars stores in 16 bytes and more."""
    if feature.type.is_categorical:
        return 24
    return int(pl.Series([0], dtype=feature.type.physical_dtype).estimated_size())


def check_folder(mounts: Path = Path("/proc/self/mounts")) -> None:
    """Raise `DataError` if temporary files would be in memory."""
    if not mounts.is_file():  # macOS and Windows
        return
    folder = Path(tempfile.gettempdir()).resolve()
    kinds = {}
    for line in mounts.read_text().splitlines():
        _, index, kind, *_ = line.split(" ")
        kinds[index.replace("\\040", " ")] = kind
    kind = next((kinds[str(each)] for each in [folder, *folder.parents] if str(each) in kinds), "")
    if kind in ("tmpfs", "ramfs"):
        raise DataError(
            f"the rows do not fit in memory, and temporary files in {shown(str(folder))} would be in memory, too, as "
            f"that is a {kind}; set the environment variable TMPDIR to a folder on a disk"
        )
