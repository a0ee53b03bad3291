"""Histograms: lazy group-bys, one per feature over a key of node and bin, all in one ``collect_all``.

With few threads, rows are filtered by a query as well, and added up by a kernel (see `frameboost.engines.batches`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from frameboost.binning.bins import SlotLayout
from frameboost.engines.batches import kernel_pays
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["sum_by_bin"]


# Rows of the wanted nodes are copied, so many rows at a time.
_ROWS_AT_ONCE = 1 << 22
# The streaming engine sums some 4,096 groups of rows as they come, and sets rows of others aside. Not each key finds a
# place, so with more than half as many keys it takes longer than for the nodes in two parts.
_MAX_KEYS, _MAX_PARTS = 1 << 11, 8


def sum_by_bin(
    rows: pl.DataFrame, layout: SlotLayout, nodes: Sequence[int], out: FloatArray, indices: IntArray, *,
    everywhere: bool,
) -> None:  # fmt: skip
    """Write the histograms of some nodes to their ``indices`` in ``out``.

    ``rows`` has the codes of feature i as the column "i", ``node``, and ``g`` and ``h``, or ``g_0``, ``h_0``, ... of
    each output: see `HistogramEngine.histograms` and `VectorEngine.vector_histograms`. With ``everywhere``, all rows
    are in the only node.
    """
    out[indices] = 0.0
    by_kernel = out.ndim == 3 and kernel_pays(pl.thread_pool_size())
    for some in rows.iter_slices(_ROWS_AT_ONCE):
        if by_kernel:
            _add_rows(some if everywhere else some.filter(_is_in(nodes)), layout, nodes, out, indices)
            continue
        for part in [slice(None)] if everywhere else _parts(len(nodes), min(layout.strides())):
            # As a frame: group-bys of one lazy frame would each filter the rows.
            asked = some if everywhere else some.filter(_is_in(nodes[part]))
            _sum_by_feature(asked, layout, nodes[part], out, indices[part])


def _is_in(nodes: Sequence[int]) -> pl.Expr:
    return pl.col("node").is_in(list(nodes))


def _add_rows(rows: pl.DataFrame, layout: SlotLayout, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
    """Add the rows, all of which are in the nodes, by the kernel."""
    from frameboost.engines.batch_kernels import add_codes

    index_of = np.zeros(max(nodes) + 1, np.uint32)
    index_of[list(nodes)] = indices
    index = index_of[rows["node"].to_numpy()]
    g, h = rows["g"].to_numpy(), rows["h"].to_numpy()
    for feature, offset in enumerate(layout.offsets[:-1]):
        add_codes(index, rows[str(feature)].to_numpy(), offset, g, h, out)


def _parts(n_nodes: int, stride: int) -> Iterator[slice]:
    """Yield the places of nodes to sum at a time."""
    size = max(1, _MAX_KEYS // stride, -(-n_nodes // _MAX_PARTS))
    return (slice(start, start + size) for start in range(0, n_nodes, size))


def _sum_by_feature(
    rows: pl.DataFrame, layout: SlotLayout, nodes: Sequence[int], out: FloatArray, indices: IntArray
) -> None:
    # One small integer as key, place * stride + code: grouping by it is much faster than by two columns. Features with
    # few bins share a stride, so a feature with many categories widens no other's keys.
    strides = layout.strides()
    keys = [pl.col(str(i)) for i in range(len(strides))]
    if len(nodes) > 1:
        rows = rows.with_columns(_first_key(nodes, stride).alias(f"place_{stride}") for stride in set(strides))
        keys = [pl.col(f"place_{stride}") + key for stride, key in zip(strides, keys, strict=True)]
    names = ["g", "h"] if out.ndim == 3 else [f"{x}_{k}" for k in range(out.shape[1]) for x in "gh"]
    sums = pl.collect_all(
        [rows.lazy().group_by(key.alias("key")).agg(pl.col(names).sum()) for key in keys], engine="streaming"
    )
    for offset, stride, sum_ in zip(layout.offsets[:-1], strides, sums, strict=True):
        key = sum_["key"].to_numpy().astype(np.int64)
        found = sum_.select(names).to_numpy()
        if out.ndim == 3:
            out[indices[key // stride], offset + key % stride] += found
        else:
            out[indices[key // stride], :, offset + key % stride] += found.reshape(len(key), -1, 2)


def _first_key(nodes: Sequence[int], stride: int) -> pl.Expr:
    """Return the first key of each row's node: the node's place in ``nodes`` times ``stride``."""
    keys = [0] * (max(nodes) + 1)
    for index, node in enumerate(nodes):
        keys[node] = index * stride
    dtype = pl.UInt16 if len(nodes) * stride <= 2**16 else pl.UInt32 if len(nodes) * stride <= 2**32 else pl.UInt64
    return pl.lit(pl.Series(keys, dtype=dtype)).gather(pl.col("node").cast(pl.UInt32))
