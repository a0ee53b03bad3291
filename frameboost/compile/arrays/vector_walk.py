"""The walk of `frameboost.compile.arrays.score_kernels` in numpy, if numba is not installed.

All rows of a block descend a tree together, one level at a time; rows in a leaf are removed before the next level.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LEAF", "NO_TABLE", "find_leaves", "sum_leaves"]

Codes = npt.NDArray[np.unsignedinteger]
IntArray = npt.NDArray[np.int64]
# As in the kernels.
LEAF = NO_TABLE = -1
# Rows that pass all trees before the next ones do: their codes stay in the cache.
_BLOCK = 1 << 13


def sum_leaves(codes: Codes, roots: IntArray, *arguments: Any) -> None:
    """See `frameboost.compile.arrays.score_kernels.sum_leaves`."""
    *conditions, value, first, last, margins = arguments
    for rows in _blocks(first, last):
        for root in roots:
            margins[:, rows] += value[:, _leaves_of(codes[rows], root, *conditions)]


def find_leaves(codes: Codes, roots: IntArray, *arguments: Any) -> None:
    """See `frameboost.compile.arrays.score_kernels.find_leaves`."""
    *conditions, first, last, out = arguments
    for rows in _blocks(first, last):
        for tree, root in enumerate(roots):
            out[rows, tree] = _leaves_of(codes[rows], root, *conditions) - root


def _blocks(first: int, last: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, last)) for start in range(first, last, _BLOCK))


def _leaves_of(
    codes: Codes, root: int, feature: npt.NDArray[np.int32], bound: IntArray, missing: IntArray,
    missing_left: npt.NDArray[np.bool_], table_at: IntArray, tables: npt.NDArray[np.uint8], left: IntArray,
    right: IntArray,
) -> IntArray:  # fmt: skip
    """Return the leaf of each row in the tree that starts at ``root``."""
    node = np.full(len(codes), root)
    rows = np.arange(len(codes)) if feature[root] != LEAF else np.empty(0, dtype=np.int64)
    while len(rows):
        at = node[rows]
        features = feature[at]
        code = codes[rows, features].astype(np.int64)
        is_left = np.where(code == missing[features], missing_left[at], code < bound[at])
        named = np.flatnonzero(table_at[at] != NO_TABLE)  # the bit of a code, lowest first, says which way it goes
        named_codes = code[named]
        is_left[named] = tables[table_at[at[named]] + (named_codes >> 3)] >> (named_codes & 7) & 1
        node[rows] = after = np.where(is_left, left[at], right[at])
        rows = rows[feature[after] != LEAF]
    return node
