"""Some rows of a part, in the order of their nodes: what histograms are summed from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frameboost.data.arrow_batches import Batch
from frameboost.engines.duckdb.records.layout import Field
from frameboost.splits.split import FloatArray

__all__ = ["ChosenRows"]


class ChosenRows:
    """The rows of a part whose nodes have a place but the last, one place after the other.

    So the sums of one place at a time are in the cache, and rows of one key lie side by side.

    Parameters
    ----------
    numbers
        The node of each row of the part.
    indices
        uint32 (nodes,): the place of each node; those not asked for have the last.
    n_places
        How many places are asked for.
    """

    def __init__(self, numbers: npt.NDArray[np.unsignedinteger], indices: npt.NDArray[np.uint32], n_nodes: int) -> None:
        from frameboost.engines.external_memory.node_kernels import group_rows

        rows, self._ends = np.empty(len(numbers), np.uint32), np.empty(n_nodes + 1, np.uint32)
        group_rows(numbers, indices, rows, self._ends)
        self._rows = rows[: self._ends[-2]]

    def indices(self) -> npt.NDArray[np.uint32]:
        """Return the place of each."""
        counts = np.diff(self._ends[:-1], prepend=0)
        return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)

    def taken(self, values: FloatArray) -> FloatArray:
        """Return their values, of those of the part."""
        from frameboost.engines.duckdb.records.kernels import take

        out = np.empty(len(self._rows))
        take(values, self._rows, out)
        return out

    def unpacked(self, words: Batch, fields: Sequence[Field]) -> list[npt.NDArray[np.unsignedinteger]]:
        """Return their codes and keys, of the words of the part."""
        from frameboost.engines.duckdb.records.kernels import take, unpack

        own, found = np.empty(len(self._rows), np.uint64), list[npt.NDArray[np.unsignedinteger]]()
        read = -1
        for field in fields:
            if field.word != read:
                take(words[field.word], self._rows, own)
                read = field.word
            found.append(np.empty(len(own), field.dtype))
            unpack(own, field.shift, found[-1])
        return found
