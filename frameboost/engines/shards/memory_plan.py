"""Where the arrays of shards over files are kept, by an estimate of their size and the memory that is left."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.sources import FrameSource
from frameboost.engines.description import EngineRequest
from frameboost.errors import DataError
from frameboost.runtime.storage import IN_MEMORY, FileStorage, Storage
from frameboost.schema.feature import Feature

__all__ = ["RowSize", "check_folder", "row_size", "storage_of"]

# The share of the memory that estimates may reach. The rest is for columns as they are read, for answers, and for what
# an estimate leaves out.
_USED = 0.75
# Bytes for pages of files and for work, where some arrays are in memory and others in files.
_BESIDE_ARRAYS = 1 << 29


class RowSize(NamedTuple):
    """An estimate of the bytes of one row in an engine: its values as they are read, and those of arrays.

    ``rewritten`` is of those that are written for each tree if arrays are in files.
    """

    columns: int
    arrays: int
    rewritten: int


def storage_of(request: EngineRequest, parts: Sequence[pl.LazyFrame]) -> Storage:
    """Return where to keep the arrays of shards over ``parts``.

    As long as memory suffices, columns and arrays are in memory. If only the arrays fit, columns are read one at a
    time. Otherwise arrays are in temporary files, too. Both need Parquet or Arrow files: of other files a column can't
    be read by itself, and frames are in memory already.
    """
    source = request.source
    left = request.budget.left()
    if left is None or not (isinstance(source, FrameSource) and source.are_columnar):
        return IN_MEMORY
    n_rows = sum(int(part.select(pl.len()).collect().item()) for part in parts)
    columns, arrays, rewritten = (n_rows * size for size in row_size(request))
    if arrays <= left * _USED:
        request.budget.reserve(arrays)
        return IN_MEMORY if columns + arrays <= left * _USED else Storage(holds_columns=False)
    check_folder()
    memory = min(rewritten, max(0, int(left * _USED) - _BESIDE_ARRAYS))
    request.budget.reserve(memory)
    return FileStorage(memory)


def row_size(request: EngineRequest) -> RowSize:
    """Return the size of one row of a request.

    Arrays in memory are codes by column and by row, roles, row numbers twice (see `RowPartition`), and a margin, g and
    h for each output. Those that are rewritten in files are the margins, the number of the node and, unless they are
    computed again wherever they are used (see `RecomputedPairs`), g and h.
    """
    parameters, features = request.parameters, request.features
    outputs = max(parameters.num_class or 1, sum(role.startswith("label") for role in request.roles))
    narrow = [parameters.max_bin <= 256 and not feature.type.is_categorical for feature in features]
    codes = 2 * sum(1 if is_narrow else 2 for is_narrow in narrow)
    is_sampled = parameters.subsample < 1
    arrays = codes + 8 * len(request.roles) + 4 * 2 + (8 + 16) * outputs + (16 + 4) * is_sampled
    return RowSize(sum(map(_width, features)), arrays, 1 + (8 + 16) * outputs + 16 * is_sampled)


def _width(feature: Feature) -> int:
    """Return the bytes of one value; of a string, which polars stores in 16 bytes and more, a guess."""
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
        _, place, kind, *_ = line.split(" ")
        kinds[place.replace("\\040", " ")] = kind
    kind = next((kinds[str(each)] for each in [folder, *folder.parents] if str(each) in kinds), "")
    if kind in ("tmpfs", "ramfs"):
        raise DataError(
            f"the rows do not fit in memory, and temporary files in {shown(str(folder))} would be in memory, too, as "
            f"that is a {kind}; set the environment variable TMPDIR to a folder on a disk"
        )
