"""The node of every row as a polars column, and splits as expressions that move rows to their children."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce

import numpy as np
import polars as pl

from frameboost.splits.split import Split

__all__ = ["child_of_row", "code_goes_left", "leaf_value", "root_of_rows"]

# Types for numbers of nodes, and the largest of each. Rows move in a fraction of the time where they are narrow.
_LARGEST: dict[pl.DataType, int] = {pl.UInt8(): 2**8 - 1, pl.UInt16(): 2**16 - 1, pl.UInt32(): 2**32 - 1}


def root_of_rows(n_rows: int) -> pl.Series:
    """Return node 0 for every row."""
    return pl.repeat(0, n_rows, dtype=pl.UInt8, eager=True).alias("node")


def child_of_row(
    columns: pl.DataFrame,
    node: pl.Series,
    splits: Mapping[int, tuple[Split, int, int]],
    goes_left: Callable[[Split], pl.Expr],
) -> pl.Series:
    """Return the node of every row after the splits (node -> split, left child, right child).

    ``goes_left`` gives a split's condition over ``columns``.
    """
    largest = max((child for _, *children in splits.values() for child in children), default=0)
    kind = next(kind for kind, most in _LARGEST.items() if max(largest, _LARGEST[node.dtype]) <= most)
    node = node.cast(kind)

    def child(split: Split, left: int, right: int) -> pl.Expr:
        return pl.when(goes_left(split)).then(_number(left, kind)).otherwise(_number(right, kind))

    before = pl.col("node")
    after = reduce(
        lambda other, move: pl.when(before == _number(move[0], kind)).then(child(*move[1])).otherwise(other),
        splits.items(),
        before,
    )
    rows = pl.concat([columns, node.to_frame()], how="horizontal")
    return rows.lazy().select(after.alias("node")).collect().to_series()


@lru_cache(maxsize=1024)
def _number(node: int, kind: pl.DataType) -> pl.Expr:
    """Return the number of a node, memoised: each tree has the same ones."""
    return pl.lit(node, dtype=kind)


def code_goes_left(split: Split, code: pl.Expr, missing: int) -> pl.Expr:
    """Return a split's condition over its feature's codes, of which ``missing`` is the last."""
    if split.categories is not None:
        is_named = code.is_in(list(split.categories))
        return ~is_named if split.missing_left else is_named
    goes_left = code < split.bin
    return goes_left | (code == missing) if split.missing_left else goes_left


def leaf_value(node: pl.Series, values: Mapping[int, float]) -> pl.Expr:
    """Return the value of each row's leaf, looked up by node."""
    table = np.zeros(max(values) + 1)
    table[list(values)] = list(values.values())
    return pl.lit(pl.Series(table)).gather(node.cast(pl.UInt32))
