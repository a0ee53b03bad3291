"""Splits of several nodes as tables, by which rows are moved to the children of their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import SlotLayout
from frameboost.data.arrow_batches import Batch
from frameboost.engines.duckdb.records.layout import Records
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.splits.split import Split

__all__ = ["CodesOfKeys", "Moves"]

# Where `CodesOfKeys` has the code that a column of the rows has itself: its first key, how many codes each has, which.
_ITSELF = (0, 1, 0)


class CodesOfKeys:
    """The codes of the keys of all dimensions in one array.

    In front of them are the numbers from 0 on: a code of the rows' own columns is a key, whose only code is itself. So
    a kernel looks up both in the same way.

    Parameters
    ----------
    layout
        The bins of all features.
    records
        The layout of the rows' words.
    dimensions
        The dimensions whose keys the rows have.
    """

    def __init__(self, layout: SlotLayout, records: Records, dimensions: Sequence[StarDimension]) -> None:
        self.layout = layout
        self._fields = records.fields
        self._of_feature: dict[int, tuple[str, tuple[int, int, int]]] = {}
        by_key = {feature for each in dimensions for feature in each.features}
        largest = max((bins.largest_code for f, bins in enumerate(layout.bins) if f not in by_key), default=0)
        found = [np.arange(largest + 1, dtype=np.min_scalar_type(largest))]
        start = len(found[0])
        for each in dimensions:
            assert each.codes is not None
            n_features = len(each.features)
            self._of_feature |= {f: (each.column, (start, n_features, i)) for i, f in enumerate(each.features)}
            found.append(each.codes.ravel())
            start += each.codes.size
        self.codes = np.concatenate(found)

    def field(self, feature: int) -> tuple[int, int, int, int, int, int]:
        """Return the word, the shift and the mask of what a split on a feature looks up, and where in ``codes``.

        That is the place of the first key, the number of a key's codes, and which of them is the feature's.
        """
        column, index = self._of_feature.get(feature, (f"bin_{feature}", _ITSELF))
        field = self._fields[column]
        return field.word, field.shift, int(np.iinfo(field.dtype).max), *index


class Moves:
    """Splits as `frameboost.engines.duckdb.records.kernels.move_records` takes them.

    Parameters
    ----------
    splits
        Node -> (split, left child, right child).
    n_nodes
        The number of nodes of the tree, which are numbered from 0 on.
    codes
        What the splits look up.
    """

    def __init__(self, splits: Mapping[int, tuple[Split, int, int]], n_nodes: int, codes: CodesOfKeys) -> None:
        self._splits = np.full(n_nodes, -1, np.int32)
        self._splits[list(splits)] = range(len(splits))
        self._codes = codes.codes
        fields, children, start = [], [], 0
        for split, left, right in splits.values():
            goes_left = split.goes_left(codes.layout.bins[split.feature].missing + 1)
            fields.append([*codes.field(split.feature), start])
            children.append(np.where(goes_left, left, right))
            start += len(goes_left)
        self._fields = np.array(fields, np.uint64)
        self._children = np.concatenate(children).astype(np.uint32)

    def carry_out(self, numbers: npt.NDArray[np.unsignedinteger], words: Batch) -> None:
        """Move the rows that have these words, (words, rows), from the nodes with these numbers, in place."""
        from frameboost.engines.duckdb.records.kernels import move_records

        addresses = np.array([each.ctypes.data for each in words], np.uint64)
        move_records(numbers, self._splits, addresses, self._fields, self._codes, self._children)
