"""Kernels that walk rows of codes down the trees."""

from __future__ import annotations

from frameboost.runtime.kernel import kernel

__all__ = ["find_leaves", "sum_leaves"]

# Rows that are taken through one tree before the next: their codes and the tree stay in the cache.
_BLOCK = 256


@kernel(inline="always")
def _leaf_of(codes, row, node, feature, bound, missing, missing_left, table_at, tables, left, right):  # type: ignore[no-untyped-def]
    while feature[node] >= 0:
        code = codes[row, feature[node]]
        if table_at[node] >= 0:
            is_left = bool(tables[table_at[node] + (code >> 3)] >> (code & 7) & 1)
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
    """Add to ``margins`` (float64) the leaf values of rows ``first`` to ``last - 1``, in tree order.

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
    """Write to ``out``, int32 (rows, trees), the number within its tree of the leaf that each row ends in."""
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
