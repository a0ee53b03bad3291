"""Trees over bytes for the Arrow batches of a DuckDB UDF, a few thousand rows each.

A kernel reads the buffers of the batches in place. Making a frame of each batch would take longer than scoring it. Only
columns that are no plain arrays of numbers, such as strings and dates, go through a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from frameboost.binning.arrays import padded
from frameboost.compile.arrays.batch_kernels import code_buffers
from frameboost.compile.arrays.byte_scorer import ByteScorer
from frameboost.compile.arrays.byte_trees import MAX_EDGES, MISSING, ByteTrees
from frameboost.compile.arrays.flat_trees import FloatArray
from frameboost.schema.types import FeatureType

__all__ = ["BatchScorer"]

# Types whose Arrow buffers the kernel reads in place.
_READ = {"float64": np.dtype(np.float64), "int64": np.dtype(np.int64)}


class BatchScorer:
    """An ensemble over Arrow columns of given types; several threads may use it at once.

    Parameters
    ----------
    trees
        The ensemble.
    types
        The types of the columns, by name, in the order in which they will come.
    base_margins
        A number an output.
    """

    def __init__(self, trees: ByteTrees, types: Mapping[str, FeatureType], base_margins: Sequence[float]) -> None:
        self._trees = trees
        self._base_margins = base_margins
        order = list(types)
        features = trees.arrays.features
        self._indices = [order.index(feature.name) for feature in features]
        self._is_read = [types[f.name].name in _READ and not f.zero_is_missing and not f.type.is_categorical
                         for f in features]  # fmt: skip
        self._scorer = ByteScorer(trees, types, [i for i, is_read in enumerate(self._is_read) if not is_read])
        self._in_frames = [(f.name, self._indices[i]) for i, f in enumerate(features) if not self._is_read[i]]
        self._edges_kept, edges, self._read = [], [], []
        for row, (i, first) in enumerate(trees.columns):
            if self._is_read[i]:
                dtype = _READ[types[features[i].name].name]
                own = trees.arrays.edges_in(i, types[features[i].name])[first : first + MAX_EDGES]
                with_padding = padded(own, dtype)
                self._edges_kept.append(with_padding)  # the kernel knows but its address
                edges.append((with_padding.ctypes.data, len(with_padding), len(own), row))
                self._read.append((self._indices[i], dtype.kind == "i"))
        self._edges = np.array(edges, dtype=np.int64).reshape(-1, 4)

    def margins(self, batches: Sequence[Any]) -> list[FloatArray]:
        """Return float64 (rows,) for each output: its base plus each row's leaf values, added in tree order.

        Parameters
        ----------
        batches
            A pyarrow.ChunkedArray a column.
        """
        n_rows = len(batches[0])
        codes = self._trees.empty_codes(n_rows)
        arrays = {index: _in_one(batches[index]) for index, _ in self._read}  # kept until the kernel is done
        buffers = [(*_addresses(arrays[index]), is_integer) for index, is_integer in self._read]
        code_buffers(np.array(buffers, dtype=np.int64).reshape(-1, 4), self._edges, n_rows, MISSING, codes)
        if self._in_frames:
            frame = pl.DataFrame([pl.Series(name, pl.from_arrow(batches[index])) for name, index in self._in_frames])
            self._scorer.write_codes(frame, codes)
        margins = [np.full(n_rows, base) for base in self._base_margins]
        self._trees.add_leaves(codes, margins)
        return margins


def _in_one(batch: Any) -> Any:
    return batch.chunk(0) if batch.num_chunks == 1 else batch.combine_chunks()


def _addresses(array: Any) -> tuple[int, int, int]:
    """Return where the values are, where the validity bitmap is (0 if there is none), and where the rows start."""
    validity, values = array.buffers()
    # No rows may mean no buffer.
    return 0 if values is None else values.address, 0 if validity is None else validity.address, array.offset
