"""Kernels that score rows: walks over codes, blocks of bytes, linear leaves, and the codes of columns.

`frameboost.compile.arrays.flat_trees` and `frameboost.compile.arrays.byte_trees` make their arrays.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from frameboost.binning.arrays import bin_values
from frameboost.data.arrow_batches import ADDRESSES, BUFFERS, N_BUFFERS, OFFSET
from frameboost.runtime.intrinsics import BYTES, as_pointer, move_bytes
from frameboost.runtime.kernel import kernel

__all__ = [
    "BOUND", "BYTES", "CHILD", "COLUMN", "LEAF", "LEFT", "MISSING", "NO_TABLE", "NUMBER", "ROTATED", "ROUND",
    "add_deep_leaves", "add_leaves", "add_leaves_of_numbers", "arrow_buffers", "code_buffers", "find_leaves",
    "is_named", "sum_leaves", "sum_linear_leaves",
]  # fmt: skip

# What `TreeArrays.feature` holds for a leaf, and ``table`` and ``table_at`` for a split that is not categorical.
LEAF = NO_TABLE = -1


# --- walks: each row goes down each tree ------------------------------------------------------------------------------

# Rows that pass one tree before the next tree: their codes and the tree stay in the cache.
_WALKED = 256
# From here on float64 does not hold all integers.
_INEXACT = 2.0**53
# Walks of rows of numbers down trees at the same time, and steps after which they end if all are in a leaf.
_WALKS, _STEPS = np.uint64(32), 8
_NONE, ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
# The first field of a node of `NumberTrees`: the left child, whose sibling is next, and from this bit on the number
# that is compared.
NUMBER, LEFT = np.uint64(32), np.uint64(2**32 - 1)


@kernel(inline="always")
def is_named(tables, at, code):  # type: ignore[no-untyped-def]
    """Return the bit of a code in the bytes that start at ``tables[at]``: bit ``code % 8``, lowest bit first."""
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
    codes, roots, feature, bound, missing, missing_left, table_at, tables, left, right, value, first, last, margins
):
    """Add the leaf values of rows ``first`` to ``last - 1`` to ``margins``, float64 (outputs, rows), in tree order.

    The arrays are those of `frameboost.compile.arrays.flat_trees.TreeArrays`.
    """
    for start in range(first, last, _WALKED):
        stop = min(start + _WALKED, last)
        for tree in range(len(roots)):
            for row in range(start, stop):
                leaf = _leaf_of(
                    codes, row, roots[tree], feature, bound, missing, missing_left, table_at, tables, left, right
                )
                for output in range(len(value)):
                    margins[output, row] += value[output, leaf]


@kernel
def find_leaves(  # type: ignore[no-untyped-def]
    codes, roots, feature, bound, missing, missing_left, table_at, tables, left, right, first, last, out
):
    """Write each row's leaf, as a node number within the tree, to ``out``, int32 (rows, trees)."""
    for start in range(first, last, _WALKED):
        stop = min(start + _WALKED, last)
        for tree in range(len(roots)):
            for row in range(start, stop):
                leaf = _leaf_of(
                    codes, row, roots[tree], feature, bound, missing, missing_left, table_at, tables, left, right
                )
                out[row, tree] = leaf - roots[tree]


@kernel
def add_leaves_of_numbers(values, roots, outputs, heights, nodes, more, margins):  # type: ignore[no-untyped-def]
    """Add the leaf values of all trees to the margins of a few rows, in tree order.

    Several rows go down several trees at the same time, a step each in turn, so that the processor need not wait for
    the end of one step before it begins another, nor guess how many steps a row takes.

    Returns False, without adding any, if a value is so large that float64 may not hold the integer it stands for.

    Parameters
    ----------
    values
        float64 (rows, features or more): NaN for missing values.
    roots, outputs, heights, nodes, more
        The arrays of `frameboost.compile.arrays.flat_trees.NumberTrees`.
    margins
        float64 (outputs, rows), added to.
    """
    # With unsigned indices there are no negative ones to consider, and with integers as truth values no jumps.
    n_rows, n_features, n_trees = np.uint64(len(values)), np.uint64(values.shape[1]), np.uint64(len(roots))
    stride = ONE + _TWO * n_features
    numbers = np.empty(n_rows * stride)
    for row in range(n_rows):
        start = row * stride
        numbers[start] = np.nan
        for i in range(n_features):
            value = values[row, i]
            if abs(value) >= _INEXACT:
                return False
            at_value = start + ONE + _TWO * i
            numbers[at_value] = value
            numbers[at_value + ONE] = np.inf if value != value else value
    n_at_once = max(_WALKS // max(n_rows, ONE), ONE)
    at = np.empty(n_at_once * n_rows, np.uint64)  # the node of each walk
    starts = np.empty(n_at_once * n_rows, np.uint64)  # and its row's numbers
    for walk in range(np.uint64(len(starts))):
        starts[walk] = walk % n_rows * stride
    words = nodes.reshape(-1)
    thresholds = words.view(np.float64)
    for first in range(_NONE, n_trees, n_at_once):
        last, n_walks, n_steps = min(first + n_at_once, n_trees), _NONE, 0
        for tree in range(first, last):
            n_steps = max(n_steps, heights[tree])
            for _ in range(n_rows):
                at[n_walks] = roots[tree]
                n_walks += ONE
        while n_steps > 0:
            for _ in range(min(n_steps, _STEPS)):
                for walk in range(n_walks):
                    node = at[walk] * _TWO
                    word = np.uint64(words[node])
                    is_right = numbers[starts[walk] + (word >> NUMBER)] >= thresholds[node + ONE]
                    at[walk] = (word & LEFT) + np.uint64(is_right)
            n_steps -= _STEPS
            if n_steps > 0:
                are_open = False
                for walk in range(n_walks):
                    are_open |= np.uint64(words[at[walk] * _TWO]) & LEFT != at[walk]
                if not are_open:
                    break
        for tree in range(first, last):
            for row in range(n_rows):
                leaf = at[(tree - first) * n_rows + row]
                margins[outputs[tree], row] += thresholds[leaf * _TWO + ONE]
                if more is not None:
                    for k in range(np.uint64(len(more))):
                        margins[k + ONE, row] += more[k, leaf]
    return True


# --- blocks: every node of a tree is compared with a block of rows ----------------------------------------------------

# Rows that pass a tree together: their nodes and one column of their codes stay in the first cache.
_BLOCK = 1024
_BYTES = np.uint64(BYTES)
MISSING = 255  # the code of missing values
# The fields of a node's word begin at these bits: the left child, whose sibling is next; the bound; whether codes are
# rotated, so that the missing one, 255, comes first; the row of ``codes``.
CHILD, BOUND, ROTATED, COLUMN = np.uint64(2**24 - 1), np.uint64(24), np.uint64(33), np.uint64(34)
# Steps after which rows that are in a leaf are left out.
ROUND = 5
BOUNDS, BYTE = np.uint64(511), np.uint64(255)


@kernel
def add_leaves(  # type: ignore[no-untyped-def]
    codes, starts, number, column, bound, also, right, table, tables, value, margins, first_row, n_rows
):
    """Add the leaf values of all trees to the margins, in tree order.

    Parameters
    ----------
    codes
        uint8 (columns, rows), padded to a multiple of 64 rows; codes beyond ``n_rows`` are ignored.
    starts
        int64 (trees + 1,): the first inner node of each tree in the next arrays, and their number.
    number, right
        uint8 (inner nodes,): the number of the node, and of its right child; its left child has the next number
        (preorder). Nodes come before their children.
    column
        int64 (inner nodes,): the row of ``codes`` that the node compares.
    bound, also
        uint8 (inner nodes,): a code below ``bound``, or equal to ``also``, goes left.
    table
        int64 (inner nodes,): `NO_TABLE`, or the row of ``tables`` with the codes that go left instead.
    tables
        bool (tables, 256).
    value
        float64 (trees, 256, outputs): the leaf value for each node number, in each output of trees for several.
    first_row, margins
        Rows are added to float64 (outputs, any rows) from this row on.
    n_rows
        The number of rows.
    """
    n_rows, n_outputs = np.uint64(n_rows), np.uint64(len(margins))
    node, sums = np.empty(_BLOCK, dtype=np.uint8), np.empty(_BLOCK * len(margins))
    for start in range(np.uint64(0), n_rows, np.uint64(_BLOCK)):
        size, here = min(np.uint64(_BLOCK), n_rows - start), np.uint64(first_row) + start
        _read_block(margins, here, size, sums)
        for tree in range(len(starts) - 1):
            first, last = starts[tree], starts[tree + 1]
            _ask(codes, start, size, first, last, number, column, bound, also, right, table, tables, node)
            leaf_values = value[tree].reshape(-1)
            for i in range(size):
                _add_outputs(sums, i, leaf_values, np.uint64(node[i]), n_outputs)
        _write_block(margins, here, size, sums)


# The sums of a block are those of its first row in each output, then of the next row: an addition of all outputs of a
# row compiles to SIMD instructions.


@kernel(inline="always")
def _add_outputs(sums, row, values, node, n_outputs):  # type: ignore[no-untyped-def]
    """Add the values of a node in each output to the sums of a row."""
    if n_outputs == ONE:  # the loop would take longer than the addition
        sums[row] += values[node]
    else:
        for k in range(n_outputs):
            sums[row * n_outputs + k] += values[node * n_outputs + k]


@kernel(no_cpython_wrapper=True)
def _read_block(margins, first, size, sums):  # type: ignore[no-untyped-def]
    """Write the margins, (outputs, rows), of ``size`` rows from ``first`` on to the sums of a block."""
    n_outputs = np.uint64(len(margins))
    for k in range(n_outputs):
        for i in range(np.uint64(size)):
            sums[i * n_outputs + k] = margins[k, np.uint64(first) + i]


@kernel(no_cpython_wrapper=True)
def _write_block(margins, first, size, sums):  # type: ignore[no-untyped-def]
    """Write the sums of a block to the margins."""
    n_outputs = np.uint64(len(margins))
    for k in range(n_outputs):
        for i in range(np.uint64(size)):
            margins[k, np.uint64(first) + i] = sums[i * n_outputs + k]


@kernel
def _ask(codes, start, size, first, last, number, column, bound, also, right, table, tables, node):  # type: ignore[no-untyped-def]
    """Write the nodes that rows from ``start`` reach by the inner nodes ``first`` to ``last - 1`` of a tree."""
    node[:] = 0
    flat, stride = codes.reshape(-1), np.uint64(codes.shape[1])
    blocks = (size + _BYTES - ONE) // _BYTES
    for inner in range(np.uint64(first), np.uint64(last)):
        at = np.uint64(column[inner]) * stride + start
        here, left, other = number[inner], np.uint8(number[inner] + 1), right[inner]
        if table[inner] == NO_TABLE:
            move_bytes(flat, at, node, blocks, here, bound[inner], also[inner], left, other)
        else:
            goes_left = tables[table[inner]]
            for i in range(size):  # without branches and wider types the compiler vectorises the loop
                child = left if goes_left[flat[at + i]] else other
                node[i] = child if node[i] == here else node[i]


@kernel
def add_deep_leaves(  # type: ignore[no-untyped-def]
    codes, starts, number, column, bound, also, right, table, tables,
    entry, roots, height, words, table_of, value, margins, first_row, n_rows,
):  # fmt: skip
    """Add the leaf values of all trees to the margins, in tree order; rows walk below the top of each tree.

    The first arguments are those of `add_leaves`, for the tops of the trees only.

    Parameters
    ----------
    entry
        uint32 (trees, 256): the first node of the walk, for each node number of the top.
    roots
        int64 (trees,): the start of each tree's nodes in the arrays below.
    height
        int64 (trees,): the maximum number of steps from the end of the top to a leaf, or any number above `ROUND`.
    words
        uint64 (nodes,): a node, see `frameboost.compile.arrays.byte_trees.PackedTrees`.
    table_of
        int64 (nodes,): the row of ``tables`` of a categorical split; None if no node has one.
    value
        float64 (nodes, outputs): the leaf values, and -0 in the inner nodes.
    margins, first_row, n_rows
        As there.
    """
    top, node, row = np.empty(_BLOCK, dtype=np.uint8), np.empty(_BLOCK, dtype=np.uint32), np.empty(_BLOCK, np.uint32)
    n_outputs, sums = np.uint64(len(margins)), np.empty(_BLOCK * len(margins))
    for start in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - start)
        _read_block(margins, first_row + start, size, sums)
        for tree in range(len(starts) - 1):
            first, last = starts[tree], starts[tree + 1]
            here, n_here = np.uint64(start), np.uint64(size)
            _ask(codes, here, n_here, first, last, number, column, bound, also, right, table, tables, top)
            begin, nodes, leaf_values = entry[tree], words[roots[tree] :], value[roots[tree] :].reshape(-1)
            for i in range(size):
                node[i], row[i] = begin[top[i]], i
            open_ = size
            while open_ > 0:
                _step(codes, start, roots[tree], nodes, table_of, tables, min(height[tree], ROUND), row[:open_], node)
                if height[tree] <= ROUND:
                    for i in range(np.uint64(size)):
                        _add_outputs(sums, i, leaf_values, np.uint64(node[i]), n_outputs)
                    break
                n_rows_left = 0
                for i in range(open_):  # without branches: rows that are in a leaf have arrived, others add -0
                    _add_outputs(sums, np.uint64(row[i]), leaf_values, np.uint64(node[i]), n_outputs)
                    is_open = nodes[node[i]] & CHILD != node[i]
                    row[n_rows_left], node[n_rows_left] = row[i], node[i]
                    n_rows_left += is_open
                open_ = n_rows_left
        _write_block(margins, first_row + start, size, sums)


@kernel
def _step(codes, start, root, nodes, table_of, tables, n_steps, row, node):  # type: ignore[no-untyped-def]
    """Move each of the rows ``start + row`` down from its node by this many steps."""
    stride = np.uint64(codes.shape[1])
    flat = codes.reshape(-1)[start:]
    for _ in range(n_steps):
        if table_of is None:  # which leaves the other loop out of the compilation
            # Without branches all rows take a step in the same instructions.
            for i in range(len(row)):
                word = nodes[node[i]]
                code = flat[(word >> COLUMN) * stride + np.uint64(row[i])] + (word >> ROTATED & ONE)
                node[i] = (word & CHILD) + np.uint64((code & BYTE) >= (word >> BOUND & BOUNDS))
        else:
            for i in range(len(row)):
                word, table = nodes[node[i]], table_of[root + node[i]]
                code = flat[(word >> COLUMN) * stride + np.uint64(row[i])]
                if table == NO_TABLE:
                    is_right = (code + (word >> ROTATED & ONE) & BYTE) >= (word >> BOUND & BOUNDS)
                else:
                    is_right = not tables[table, code]
                node[i] = (word & CHILD) + np.uint64(is_right)


# --- codes of columns, which are read where they are ------------------------------------------------------------------

# Values that are coded together, and edges up to which there is no search.
_TOGETHER, _FEW = 256, 31
# A byte of a validity bitmap whose eight rows are all present.
_ALL_PRESENT = 255


@kernel
def _mark_missing(address, offset, missing, codes):  # type: ignore[no-untyped-def]
    """Write ``missing`` where a validity bitmap has a 0; bit ``row % 8`` of a byte is the row's, lowest bit first."""
    n_rows = len(codes)
    bitmap = carray(as_pointer(address), ((offset + n_rows + 7) >> 3,), np.uint8)
    row = 0
    while row < n_rows:
        bit = offset + row
        if (bit & 7) == 0 and bitmap[bit >> 3] == _ALL_PRESENT:  # as most bytes are
            row += 8
            continue
        if (bitmap[bit >> 3] >> (bit & 7)) & 1 == 0:
            codes[row] = missing
        row += 1


@kernel
def arrow_buffers(children, buffers):  # type: ignore[no-untyped-def]
    """Write ``buffers`` of `code_buffers` of the first columns, by the address of an ArrowArray's children."""
    columns = carray(as_pointer(children), (len(buffers),), np.int64)
    for i in range(len(buffers)):
        fields = carray(as_pointer(columns[i]), (ADDRESSES,), np.int64)
        if fields[N_BUFFERS] >= 2:  # else it is no column of numbers
            validity, values = carray(as_pointer(fields[BUFFERS]), (2,), np.int64)
            buffers[i, 0], buffers[i, 1], buffers[i, 2] = values, validity, fields[OFFSET]


@kernel
def code_buffers(  # type: ignore[no-untyped-def]
    buffers, step, first, last, edges, starts, n_cuts, target, missing, at, codes
):
    """Write codes of numbers of one type, that of their edges (see `frameboost.binning.arrays.bin_values`).

    With a large stride between rows, a few rows are coded at a time: values of adjacent columns share cache lines.

    Parameters
    ----------
    buffers
        int64 (coded columns, 3): the address of the values, the address of the validity bitmap (0 if there is none),
        and the offset of row 0 in both.
    step
        The stride between rows, in values.
    first, last
        The first row, and the one after the last.
    edges, starts
        The padded edges of all coded columns; int64 (coded columns + 1,): the start of each column's edges.
    n_cuts, target
        int64 (coded columns,): the number of edges without padding; the row of ``codes`` to write.
    missing
        The code of missing values.
    at, codes
        The index in ``codes``, uint8 (any, rows or more), of the first row.
    """
    at_once = last - first if step == 1 else _TOGETHER
    gathered = np.empty(_TOGETHER, edges.dtype)
    for start in range(first, last, max(at_once, 1)):
        size, written = min(at_once, last - start), at + start - first
        for i in range(len(buffers)):
            address = buffers[i, 0] + (buffers[i, 2] + start * step) * edges.itemsize
            block = carray(as_pointer(address), (size * step,), edges.dtype)
            if step != 1:
                for row in range(np.uint64(size)):
                    gathered[row] = block[row * np.uint64(step)]
                block = gathered[:size]
            cuts, out = edges[starts[i] : starts[i + 1]], codes[target[i], written : written + size]
            if len(cuts) > _FEW:
                # A literal 0 would have another type, and so be compiled again.
                bin_values(block, cuts, n_cuts[i], missing, np.int64(0), size, out)
            else:
                _count_cuts(block, cuts, n_cuts[i], missing, out)
            if buffers[i, 1] != 0:
                _mark_missing(buffers[i, 1], buffers[i, 2] + start, missing, out)


@kernel
def _count_cuts(values, edges, n_cuts, missing, codes):  # type: ignore[no-untyped-def]
    """Write the codes of a column with few cuts: comparing with each cut is faster than a binary search."""
    for first in range(0, len(values), _TOGETHER):
        block, out = values[first : first + _TOGETHER], codes[first : first + _TOGETHER]
        for i in range(len(block)):
            out[i] = 0
        for cut in range(n_cuts):
            edge = edges[cut]
            for i in range(len(block)):
                out[i] += np.uint8(edge <= block[i])
        for i in range(len(block)):
            if block[i] != block[i]:
                out[i] = missing


# --- linear leaves ----------------------------------------------------------------------------------------------------


@kernel
def sum_linear_leaves(  # type: ignore[no-untyped-def]
    codes, roots, feature, bound, missing, missing_left, table_at, tables, left, right, value, linear_at, constant,
    starts, indices, terms, numbers, first, last, margins,
):  # fmt: skip
    """Do what `sum_leaves` does where leaves may be linear; values are on a grid, so that no sum rounds.

    Parameters
    ----------
    linear_at
        int64 (outputs, nodes): the index of a linear leaf or -1.
    constant, starts
        float64 (linear leaves), int64 (linear leaves + 1): the constants, and the start of each leaf's terms.
    indices, terms
        int64 (terms), float64 (terms, 5): the row of ``numbers``; slope, offset, shift, low and high.
    numbers
        float64 (features, rows): NaN for missing values.
    """
    node_of = np.empty(_WALKED, np.int64)
    for start in range(first, last, _WALKED):
        stop = min(start + _WALKED, last)
        for tree in range(len(roots)):
            for row in range(start, stop):
                node_of[row - start] = _leaf_of(
                    codes, row, roots[tree], feature, bound, missing, missing_left, table_at, tables, left, right
                )
            for output in range(len(value)):
                for row in range(start, stop):
                    node = node_of[row - start]
                    added, leaf = value[output, node], linear_at[output, node]
                    if leaf >= 0:
                        linear = constant[leaf]
                        for k in range(starts[leaf], starts[leaf + 1]):
                            u = (numbers[indices[k], row] + terms[k, 1]) - terms[k, 2]
                            u = terms[k, 3] if u < terms[k, 3] else terms[k, 4] if u > terms[k, 4] else u
                            linear += terms[k, 0] * u
                        if linear == linear:  # no number is missing
                            added = linear
                    margins[output, row] += added
