"""Kernels that walk rows of codes down the trees."""

from __future__ import annotations

from frameboost.runtime.kernel import kernel

__all__ = ["LEAF", "NO_TABLE", "find_leaves", "is_named", "sum_leaves"]

# Rows that pass one tree before the next tree: their codes and the tree stay in the cache.
_BLOCK = 256
# What `TreeArrays.feature` holds for a leaf, and `table_at` for a split that is not categorical.
LEAF = NO_TABLE = -1


@kernel(inline="always")
def is_named(tables, at, code):  # type: ignore[no-untyped-def]
    """Return the bit of a code in the bytes from ``tables[at]`` on, lowest bit first: bit ``code % 8`` of a byte."""
    return bool(tables[at + (code >> 3)] >> (code & 7) & 1)


@kernel(inline="always")
def _leaf_of(codes, row, node, feature, bound, missing, missing_left, table_at, tables, left, right):  # type: ignore[no-untyped-def]
    while feature[node] != LEAF:
        code = codes[row, feature[node]]
        if table_at[node] != NO_TABLE:
            is_left = is_named(tables, table_at[node], code)
        elif code == missing[feature[node]]:
            is_left = missing_left[node]
        else:
            is_left = code < bound[node]
        node = left[node] if is_left else right[node]
    return node


@kernel
def sum_leaves(  # type: ignore[no-untyped-def]
    codes,
    roots,
    feature,
    bound,
    missing,
    missing_left,
    table_at,
    tables,
    left,
    right,
    value,
    first,
    last,
    margins,
):
    """Add the leaf values of rows ``first`` to ``last - 1`` to ``margins`` (float64), in tree order.

    The arrays are those of `frameboost.compile.arrays.flat_trees.TreeArrays`.
    """
    for start in range(first, last, _BLOCK):
        stop = min(start + _BLOCK, last)
        for tree in range(len(roots)):
            for row in range(start, stop):
                leaf = _leaf_of(
                    codes,
                    row,
                    roots[tree],
                    feature,
                    bound,
                    missing,
                    missing_left,
                    table_at,
                    tables,
                    left,
                    right,
                )
                margins[row] += value[leaf]


@kernel
def find_leaves(  # type: ignore[no-untyped-def]
    codes, roots, feature, bound, missing, missing_left, table_at, tables, left, right, first, last, out
):
    """Write each row's leaf, by its number within the tree, to ``out``, int32 (rows, trees)."""
    for start in range(first, last, _BLOCK):
        stop = min(start + _BLOCK, last)
        for tree in range(len(roots)):
            for row in range(start, stop):
                leaf = _leaf_of(
                    codes,
                    row,
                    roots[tree],
                    feature,
                    bound,
                    missing,
                    missing_left,
                    table_at,
                    tables,
                    left,
                    right,
                )
                out[row, tree] = leaf - roots[tree]
