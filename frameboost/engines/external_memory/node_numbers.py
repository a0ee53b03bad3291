"""The node of every row, as its number: rows are moved by splits when they are read next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.engines.external_memory.blocks import ROWS, Block, blocks
from frameboost.engines.external_memory.codes import CodesByRow
from frameboost.engines.external_memory.node_kernels import move_to_children
from frameboost.engines.memory.split_tables import SplitTables
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import Workers
from frameboost.splits.split import IntArray, Split

__all__ = ["NodeNumbers", "Numbers"]

Numbers = npt.NDArray[np.unsignedinteger]


class NodeNumbers:
    """The node of every row.

    Parameters
    ----------
    n_rows
        The number of rows.
    codes
        Their codes.
    workers
        The threads.
    storage
        Where the numbers are kept.
    """

    def __init__(self, n_rows: int, codes: CodesByRow, workers: Workers, storage: Storage) -> None:
        self.n_nodes = 1
        self.slices = workers.slices(n_rows, ROWS)  # the rows of each thread
        self._codes = codes
        self._workers = workers
        self._storage = storage
        self._numbers: Numbers = storage.empty((n_rows,), np.uint8, is_rewritten=True)
        self._waiting: list[SplitTables] = []

    def start_tree(self) -> None:
        """Put all rows into the root, node 0."""
        self._numbers[:] = 0
        self.n_nodes = 1
        self._waiting = []

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Move the rows of each node to its children, in the next sweep: node -> (split, left child, right child)."""
        tables = SplitTables(splits, self._codes.columns)
        self._waiting.append(tables)
        self.n_nodes = max(self.n_nodes, int(tables.children.max()) + 1)
        dtype = np.min_scalar_type(self.n_nodes)
        if dtype.itemsize > self._numbers.itemsize:
            before = self._numbers
            self._numbers = self._storage.empty(before.shape, dtype, is_rewritten=True)
            self._numbers[:] = before

    def sweep(self, visit: Callable[[int, Block, Numbers], Any]) -> None:
        """Call ``visit`` on each block with the number of its slice, the block and the nodes of its rows."""
        dtype = self._numbers.dtype
        splits, self._waiting = [_NodeTables(each, self.n_nodes, dtype) for each in self._waiting], []

        def sweep_slice(number: int) -> None:
            for block in blocks(*self.slices[number]):
                nodes = self._numbers[block.start : block.stop]
                for tables in splits:
                    for (codes, _), features in zip(self._codes.groups, tables.features, strict=True):
                        own = codes[block.start : block.stop]
                        move_to_children(nodes, own, features, tables.starts, tables.children)
                visit(number, block, nodes)
                self._storage.release_pages()

        self._workers.each(range(len(self.slices)), sweep_slice)

    def of_rows(self) -> npt.NDArray[np.int32]:
        """Return the node of every row."""
        if self._waiting:
            self.sweep(lambda *_: None)
        return self._numbers.astype(np.int32)


class _NodeTables:
    """Splits as tables by the number of a node.

    Attributes
    ----------
    features
        For each type of codes, int64 (nodes,): the place of the feature that the node's split compares, or -1.
    starts, children
        Where the codes of each node start in ``children``: the child to which each code goes.
    """

    def __init__(self, splits: SplitTables, n_nodes: int, dtype: npt.DTypeLike) -> None:
        self.features: list[IntArray] = []
        for _, indices in splits.columns():
            of_nodes = np.full(n_nodes, -1)
            of_nodes[splits.nodes] = indices
            self.features.append(of_nodes)
        self.starts = np.zeros(n_nodes, np.int64)
        self.starts[splits.nodes] = splits.starts[:-1]
        left, right = np.repeat(splits.children, np.diff(splits.starts), axis=0).T
        self.children = np.where(splits.goes_left, left, right).astype(dtype)
