"""Trees as flat arrays over codes, the input of the prediction kernels.

Every threshold of the trees becomes an edge, and the code of a value is the number of edges that are not above it. So
``value < threshold`` compares small integers for any type of column. With edges 2 and 5 the values 1, 3 and 7 have the
codes 0, 1 and 2; ``x < 5`` is ``code < 2``. Edges are converted to the column's type at prediction without changing any
decision (`FeatureType.at_least`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from operator import call, itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.codes import code_expr
from frameboost.runtime.workers import has_numba, kept_workers
from frameboost.schema.types import Feature, FeatureType, Physical, column, not_zero, physical_expr
from frameboost.trees.linear_leaves import refuse_linear
from frameboost.trees.tree import Tree, TreeColumns

if has_numba():
    from frameboost.compile.arrays.score_kernels import (
        LEAF,
        LEFT,
        NO_TABLE,
        NUMBER,
        add_leaves_of_numbers,
        find_leaves,
        sum_leaves,
    )
else:
    from frameboost.compile.arrays.vector_walk import (  # type: ignore[assignment]
        LEAF,
        NO_TABLE,
        find_leaves,
        sum_leaves,
    )

__all__ = ["FewRows", "FloatArray", "Getter", "IntArray", "NumberTrees", "TreeArrays", "first_margins", "getter"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_SMALLEST_BLOCK = 1024
# Bytes of packed tables that are worked on together: eight times as many unpacked.
_BYTES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class TreeArrays:
    """An ensemble over rows of codes.

    Attributes
    ----------
    features
        The features that splits read, in the order of the columns of the codes.
    edges
        Per feature: its ascending thresholds, or the categories that splits name.
    missing
        int64 (features,): the code of a missing value; a category that no split names has the next one.
    roots
        int64 (trees,): the start of each tree's nodes in the arrays below, which have one entry per node.
    outputs
        int64 (trees,): the output of each tree; the first one of trees for all outputs, which share their splits.
    feature, bound, missing_left, table_at, left, right
        The split: a code of ``feature`` (`LEAF` in a leaf) below ``bound`` goes left, a missing one according to
        ``missing_left``. A categorical split is decided by the bit of the code in the bytes that start at
        ``tables[table_at]`` (`NO_TABLE` for other splits).
    value
        float64 (1 or outputs, nodes): the value of each leaf, in each output of trees for all.
    number_of
        int64: the number here of each tree of the ensemble; None if they are the same.
    is_linear
        Whether a leaf has slopes: then only `linear_trees.LinearScorer` computes margins.
    """

    features: tuple[Feature, ...]
    edges: tuple[tuple[Physical, ...], ...]
    missing: npt.NDArray[np.int64]
    roots: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int32]
    bound: npt.NDArray[np.int64]
    missing_left: npt.NDArray[np.bool_]
    table_at: npt.NDArray[np.int64]
    tables: npt.NDArray[np.uint8]
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    number_of: npt.NDArray[np.int64] | None = None
    is_linear: bool = False

    @classmethod
    def compile(cls, trees: Sequence[Tree], features: Sequence[Feature]) -> TreeArrays:
        """Flatten trees; those of all outputs that share their splits once."""
        columns = TreeColumns.of(trees)
        is_linear = bool(columns.linear)
        columns, value, number_of = columns.with_vector_leaves() or (columns, columns.nodes["value"][np.newaxis], None)
        feature = columns.nodes["feature"].astype(np.int64)
        used = np.unique(feature[feature != LEAF])
        index_of = np.full(len(features) + 1, LEAF)  # the last one is that of `LEAF`
        index_of[used] = np.arange(len(used))
        index = index_of[feature]
        used_features = tuple(features[number] for number in used.tolist())
        codes_of = _grouped(np.repeat(index[columns.categories_at], columns.categories_size), len(used_features))
        conditions = _Conditions.of(columns, used_features, index, codes_of)
        shift = np.repeat(columns.roots, columns.sizes)
        table_at, tables = _tables(columns, index, conditions, codes_of)
        return cls(
            features=used_features,
            edges=conditions.edges,
            missing=conditions.missing,
            roots=columns.roots,
            outputs=columns.output,
            feature=index.astype(np.int32),
            bound=conditions.bound,
            missing_left=columns.nodes["missing_left"].astype(np.bool_),
            table_at=table_at,
            tables=tables,
            left=columns.nodes["left"] + shift,
            right=columns.nodes["right"] + shift,
            value=value,
            number_of=number_of,
            is_linear=is_linear,
        )

    def codes(self, frame: pl.LazyFrame, types: Mapping[str, FeatureType]) -> npt.NDArray[np.unsignedinteger]:
        """Return the codes of the rows of ``frame``, with columns of these types: (rows, features)."""
        if not self.features:  # every tree is a single leaf
            return np.empty((frame.select(pl.len()).collect().item(), 0), dtype=np.uint16)
        return np.ascontiguousarray(frame.select(self.code_exprs(types)).collect().to_numpy())

    def code_exprs(self, types: Mapping[str, FeatureType]) -> list[pl.Expr]:
        """Return the codes of columns of these types, one column for each of ``features``."""
        dtype = pl.UInt16 if self.code_dtype == np.uint16 else pl.UInt32
        return [self._code(i, types[f.name]).cast(dtype).alias(str(i)) for i, f in enumerate(self.features)]

    @property
    def code_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The dtype of the codes."""
        return np.dtype(np.uint16 if max(self.missing, default=0) < 2**16 - 1 else np.uint32)

    def _code(self, i: int, scored: FeatureType) -> pl.Expr:
        feature, missing = self.features[i], int(self.missing[i])
        kind = feature.type if feature.type.is_categorical else scored
        other = missing + 1 if kind.is_categorical else None
        return code_expr(_values(feature, scored), kind, self.edges_in(i, scored), missing, other, scored)

    def value_expr(self, i: int, scored: FeatureType) -> pl.Expr:
        """Return the physical values of a feature's column of the type ``scored``; for categories the codes.

        NaN stays NaN, as in the conversion to an array.
        """
        feature = self.features[i]
        if feature.type.is_categorical:
            return self._code(i, scored).alias(str(i))
        if scored.is_float and not feature.zero_is_missing:
            return column(feature.name).cast(scored.physical_dtype).alias(str(i))
        return _values(feature, scored).alias(str(i))

    def edges_in(self, i: int, scored: FeatureType) -> Sequence[Physical]:
        """Return a feature's edges in a column of the type ``scored``, without edges above the range of the type."""
        return _carried(self.edges[i], self.features[i].type, scored)

    def margins(
        self,
        codes: npt.NDArray[np.unsignedinteger],
        base_margins: Sequence[float | FloatArray],
        *,
        in_parallel: bool = True,
    ) -> list[FloatArray]:
        """Return float64 (rows,) for each output: its base plus each row's leaf values, added in tree order.

        A base is one number, or one per row. ``in_parallel``: whether threads share the rows.
        """
        refuse_linear("this way of scoring", is_linear=self.is_linear)
        sums = first_margins(base_margins, len(codes))
        for outputs, conditions in self.conditions_of_outputs:
            if in_parallel:
                add = partial(sum_leaves, codes, *conditions, self.value)  # type: ignore[call-arg]
                self.over_rows(len(codes), add, sums[outputs])
            else:
                sum_leaves(codes, *conditions, self.value, 0, len(codes), sums[outputs])  # type: ignore[call-arg]
        return list(sums)

    def trees_of_outputs(self) -> Iterator[tuple[slice, npt.NDArray[np.int64]]]:
        """Yield outputs, and the numbers here of the trees that add to these."""
        for k in np.unique(self.outputs).tolist():
            yield slice(k, k + len(self.value)), np.flatnonzero(self.outputs == k)

    @cached_property
    def conditions_of_outputs(self) -> list[tuple[slice, tuple[npt.NDArray[np.generic], ...]]]:
        """Outputs, and the trees that add to these, as the kernels of `score_kernels` read them."""
        return [(outputs, self._conditions_of(self.roots[trees])) for outputs, trees in self.trees_of_outputs()]

    def leaves(self, codes: npt.NDArray[np.unsignedinteger], *, in_parallel: bool = True) -> npt.NDArray[np.int32]:
        """Return int32 (rows, trees of the ensemble): each row's leaf, as a node number within the tree."""
        out = np.empty((len(codes), len(self.roots)), dtype=np.int32)
        find = partial(find_leaves, codes, *self._conditions_of(self.roots))
        if in_parallel:
            self.over_rows(len(codes), find, out)
        else:
            find(0, len(codes), out)  # type: ignore[call-arg]
        return out if self.number_of is None else out[:, self.number_of]

    def in_pairs(self) -> tuple[IntArray, IntArray]:
        """Return numbers of nodes by which siblings are adjacent: the k-th inner node has the children 2k + 1, 2k + 2.

        Returns
        -------
        number, first_child
            int64 (nodes,): the number of each node in its tree, and that of its left child, in a leaf of itself.
        """
        inner = np.flatnonzero(self.feature != LEAF)
        number = np.zeros(len(self.feature), np.int64)
        before = np.searchsorted(inner, np.repeat(self.roots, self.sizes)[inner])  # inner nodes of earlier trees
        first = 2 * (np.arange(len(inner)) - before) + 1
        number[self.left[inner]], number[self.right[inner]] = first, first + 1
        first_child = number.copy()
        first_child[inner] = first
        return number, first_child

    @property
    def sizes(self) -> IntArray:
        """The number of nodes of each tree, int64 (trees,)."""
        return np.diff(self.roots, append=len(self.feature))

    def heights(self) -> IntArray:
        """Return int64 (trees,): the maximum number of steps from the root to a leaf."""
        heights, nodes, trees = np.zeros(len(self.roots), np.int64), self.roots, np.arange(len(self.roots))
        while (is_inner := self.feature[nodes] != LEAF).any():
            nodes, trees = nodes[is_inner], trees[is_inner]
            heights[trees] += 1
            nodes, trees = np.concatenate([self.left[nodes], self.right[nodes]]), np.tile(trees, 2)
        return heights

    def _conditions_of(self, roots: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.generic], ...]:
        return (
            roots, self.feature, self.bound, self.missing, self.missing_left,
            self.table_at, self.tables, self.left, self.right,
        )  # fmt: skip

    @staticmethod
    def over_rows(n_rows: int, run: Callable[..., object], out: npt.NDArray[np.generic]) -> None:
        """Call ``run`` with the first and the last row of each part of the rows, and ``out``, in threads."""
        kept_workers().over(n_rows, lambda first, last: run(first, last, out), smallest=_SMALLEST_BLOCK)


def first_margins(base_margins: Sequence[float | FloatArray], n_rows: int) -> FloatArray:
    """Return what leaf values are added to, float64 (outputs, rows), from one number or one per row for each output."""
    margins = np.empty((len(base_margins), n_rows))
    for of_output, base in zip(margins, base_margins, strict=True):
        of_output[:] = base
    return margins


def _values(feature: Feature, scored: FeatureType) -> pl.Expr:
    values = physical_expr(feature.name, scored)
    return pl.when(not_zero(values)).then(values) if feature.zero_is_missing else values


class _Conditions(NamedTuple):
    """The nodes' conditions: the edges of each feature, and ``missing`` and ``bound`` of `TreeArrays`."""

    edges: tuple[tuple[Physical, ...], ...]
    missing: IntArray
    bound: IntArray

    @classmethod
    def of(
        cls, columns: TreeColumns, features: Sequence[Feature], index: IntArray, codes_of: Sequence[IntArray]
    ) -> _Conditions:
        """Return the conditions; ``index``, int64 (nodes,), is that of the node's feature, `LEAF` in a leaf.

        ``codes_of`` has for each feature the positions of its categories in `TreeColumns.categories`.

        A value is below the edge of rank r if at most r edges are not above it. A split without a threshold is on
        whether the value is present: every code but the missing one is below, also that of a category which no split
        names.
        """
        nodes_of = _grouped(index, len(features))
        integer = dict(zip(columns.integer_at.tolist(), columns.integers, strict=True))
        has_integer = np.isin(np.arange(len(features)), index[columns.integer_at]).tolist()
        edges: list[tuple[Physical, ...]] = []
        missing, bound = np.zeros(len(features), np.int64), np.zeros(len(index), np.int64)
        for i, feature in enumerate(features):
            nodes, thresholds = nodes_of[i], columns.nodes["threshold"][nodes_of[i]]
            compared, ranks = nodes[~np.isnan(thresholds)], np.empty(0, np.int64)
            if feature.type.is_categorical:
                # A category that no split names goes where missing goes, so it needs no separate code.
                named = np.flatnonzero(np.bincount(columns.categories[codes_of[i]]))
                edges.append(tuple(feature.categories[code] for code in named.tolist()))
            elif has_integer[i]:  # of more than 64 bits, perhaps
                values = [integer.get(*pair) for pair in zip(nodes.tolist(), thresholds.tolist(), strict=True)]
                is_compared = np.array([value == value for value in values])
                used = sorted({value for value in values if value == value})
                rank = {value: k for k, value in enumerate(used)}
                compared, ranks = nodes[is_compared], np.array([rank[value] for value in values if value == value])
                edges.append(tuple(used))
            else:
                finite = thresholds[~np.isnan(thresholds)]
                unique = np.unique(finite)
                ranks = np.searchsorted(unique, finite)  # faster than `return_inverse`, which sorts them by index
                edges.append(tuple(unique.tolist()))
            missing[i] = len(edges[-1]) + (not feature.type.is_categorical)
            bound[nodes] = missing[i] + 2
            bound[compared] = ranks + 1
        return cls(tuple(edges), missing, bound)


def _grouped(groups: IntArray, n_groups: int) -> list[IntArray]:
    """Return the indices of each group's members, in ascending order; others belong to none."""
    is_short = n_groups <= np.iinfo(np.int16).max  # numbers of 16 bits are sorted by radix
    groups = groups.astype(np.int16) if is_short else groups
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(n_groups + 1, dtype=groups.dtype)).tolist()
    return [order[start:end] for start, end in pairwise(ends)]


def _tables(
    columns: TreeColumns, index: IntArray, conditions: _Conditions, codes_of: Sequence[IntArray]
) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Return ``table_at`` and ``tables`` of `TreeArrays`."""
    table_at, nodes = np.full(len(index), NO_TABLE, dtype=np.int64), columns.categories_at
    widths = conditions.missing[index[nodes]] + 2
    n_bytes = -(-widths // 8)
    ends = np.cumsum(n_bytes)
    table_at[nodes] = ends - n_bytes
    missing_left = columns.nodes["missing_left"].astype(np.bool_)[nodes]
    named_left = missing_left == columns.nodes.get("with_missing", np.zeros(len(index), np.uint8))[nodes]
    named = _named_codes(columns, codes_of)
    tables, codes_end = [np.empty(0, dtype=np.uint8)], np.cumsum(columns.categories_size)
    for first, last in _in_parts(ends):
        part, tables_of_part = slice(first, last), np.arange(first, last)
        starts = 8 * (table_at[nodes[part]] - table_at[nodes[first]])
        spare = 8 * n_bytes[part] - widths[part]
        sides = np.stack([~named_left[part], np.zeros(len(tables_of_part), np.bool_)], axis=1).ravel()
        table = np.repeat(sides, np.stack([widths[part], spare], axis=1).ravel())
        codes = slice(codes_end[first] - columns.categories_size[first], codes_end[last - 1])
        sizes = columns.categories_size[part]
        table[np.repeat(starts, sizes) + named[codes]] = np.repeat(named_left[part], sizes)
        table[starts + widths[part] - 2] = missing_left[part]
        tables.append(np.packbits(table, bitorder="little"))
    return table_at, np.concatenate(tables)


def _named_codes(columns: TreeColumns, codes_of: Sequence[IntArray]) -> IntArray:
    """Return the codes of the categories that nodes name: ranks among all categories that nodes of the feature name.

    They have the order of `TreeColumns.categories`.
    """
    ranks = np.empty(len(columns.categories), np.int64)
    for positions in codes_of:
        codes = columns.categories[positions]
        ranks[positions] = (np.cumsum(np.bincount(codes) > 0) - 1)[codes]
    return ranks


def _in_parts(ends: IntArray) -> Iterator[tuple[int, int]]:
    """Yield parts of the tables, so that their bits, unpacked to bytes, take limited memory."""
    first = 0
    while first < len(ends):
        start = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, start + _BYTES_AT_ONCE, side="right")), first + 1)
        yield first, last
        first = last


def _carried(edges: Sequence[Physical], trained: FeatureType, scored: FeatureType) -> Sequence[Physical]:
    """Return edges that separate values of the type ``scored`` as ``edges`` separate those of the type ``trained``.

    Edges above the type's largest value are dropped: no value reaches them, so no code does.
    """
    if trained.is_categorical:
        return edges
    if scored == trained or (scored.is_float and trained.is_float):
        return scored.edges(edges)
    carried = []
    for edge in edges:
        if isinstance(edge, float) and math.isinf(edge):
            value = edge if scored.is_float else None if edge > 0 else scored.at_least(_below_everything(scored))
        else:
            value = scored.at_least(trained.as_fraction(edge))
        if value is not None:
            carried.append(value)
    return carried


def _below_everything(kind: FeatureType) -> Fraction:
    assert kind.bounds is not None
    return kind.as_fraction(kind.bounds[0]) - 1


# --- a few rows of numbers --------------------------------------------------------------------------------------------

# What byte trees take for a call and for each inner node, by the time of one row's step down a tree (1 ns).
_OF_CODES, _OF_NODE = 50_000, 7
# Beyond it threads share the work of byte trees.
_MAX_WALKED = 256


@dataclass(frozen=True)
class NumberTrees:
    """An ensemble over rows of float64 numbers, without codes: for a few rows, coding takes longer than the walk.

    A row has one NaN, which leaves compare, then each feature's number twice: missing ones as NaN, which is not at
    least any threshold, so they go left, and as infinity, so they go right. So each step is the same arithmetic.

    Attributes
    ----------
    roots, outputs
        int64 (trees,): as in `TreeArrays`.
    heights
        int64 (trees,): the maximum number of steps from the root to a leaf.
    nodes
        int64 (nodes, 2), siblings adjacent: the left child (a leaf's is the leaf) with the index of the row's number
        from bit `NUMBER` on; and the bits of a float64: the threshold, from which on numbers go right, or the leaf's
        value.
    more
        float64 (outputs - 1, nodes): the values of leaves in the other outputs of trees for all; None without such.
    base_margins
        float64 (outputs, 1): what leaf values are added to.
    """

    roots: IntArray
    outputs: IntArray
    heights: IntArray
    nodes: IntArray
    more: FloatArray | None
    base_margins: FloatArray

    @classmethod
    def compile(cls, arrays: TreeArrays, base_margins: Sequence[float]) -> NumberTrees | None:
        """Return the ensemble; None without numba, or if a feature has categories, or thresholds that round."""
        edges = [np.array(values, np.float64) for values in arrays.edges if all(map(_is_float, values))]
        if not has_numba() or arrays.is_linear or len(edges) < len(arrays.edges) or (arrays.table_at != NO_TABLE).any():
            return None
        is_leaf, goes_right = arrays.feature == LEAF, ~arrays.missing_left
        feature, starts = np.where(is_leaf, 0, arrays.feature).astype(np.int64), np.cumsum([0, *map(len, edges)])
        is_any = arrays.bound > np.append(arrays.missing, 0)[feature]  # every number goes left, as all are finite
        thresholds = np.concatenate([*edges, [np.inf]])
        threshold = thresholds[np.where(is_leaf | is_any, -1, starts[feature] + arrays.bound - 1)]
        # Of missing values that go left, NaN is not at least infinity.
        number = np.where(is_leaf, 0, 1 + 2 * feature + goes_right)
        start = np.repeat(arrays.roots, arrays.sizes)
        index, child = (start + numbers for numbers in arrays.in_pairs())
        nodes, more = np.empty((len(feature), 2), np.int64), np.empty((len(arrays.value) - 1, len(feature)))
        nodes[index, 0] = child | number << int(NUMBER)
        nodes[index, 1] = np.where(is_leaf, arrays.value[0], threshold).view(np.int64)
        more[:, index] = arrays.value[1:]
        bases = np.array(base_margins, np.float64)[:, None]
        return cls(arrays.roots, arrays.outputs, arrays.heights(), nodes, more if len(more) else None, bases)

    @cached_property
    def max_rows(self) -> int:
        """The number of rows up to which walks take less time than codes and byte trees."""
        n_inner = np.count_nonzero(self.nodes[:, 0] & int(LEFT) != np.arange(len(self.nodes)))
        return int(min(_MAX_WALKED, (_OF_CODES + _OF_NODE * n_inner) // max(self.heights.sum(), 1)))

    def margins(self, rows: npt.ArrayLike) -> FloatArray | None:
        """Return `TreeArrays.margins` of a few rows, (rows, features or more); None if a number is too large."""
        values = np.array(rows, np.float64, order="C")
        margins = self.base_margins.repeat(len(values), axis=1)
        is_exact = add_leaves_of_numbers(values, self.roots, self.outputs, self.heights, self.nodes, self.more, margins)
        return margins if is_exact else None


def _is_float(edge: Physical) -> bool:
    return isinstance(edge, int | float) and float(edge) == edge


# --- codes of a few rows ----------------------------------------------------------------------------------------------

_NUMBERS, _TEXT = {float, int, np.float64, np.float32}, {str}
# What other columns of a dict may hold besides; a value of another type may be an error.
_OTHERS = {str, bool, type(None)}


class FewRows:
    """The codes of a few rows for an ensemble, value by value.

    Setting up a query over columns takes longer than reading a few hundred values. Only plain numbers and strings are
    coded here. Anything else (other types, a missing column, a NULL in a column of another type) is left to
    `frameboost.prediction.predictor`, which also raises the errors.

    Python compares integers and floats exactly, so thresholds are not converted to the types of the columns.

    Parameters
    ----------
    arrays
        The ensemble.
    features
        The features of the model. Rows must have all of them, including those that no tree reads.
    """

    def __init__(self, arrays: TreeArrays, features: Sequence[Feature]) -> None:
        self._names = [feature.name for feature in features]
        self._dtype = arrays.code_dtype
        self._can_code = all(_can_code(feature) for feature in features)
        self._types = [_TEXT if feature.type.is_categorical else _NUMBERS for feature in features]
        self._all_types = set().union(*self._types)
        self.has_text = not self._all_types <= _NUMBERS
        used = zip(arrays.features, arrays.edges, arrays.missing.tolist(), strict=True)
        self._coders = [(_text if f.type.is_categorical else _number)(edges, missing) for f, edges, missing in used]
        self._of_used = getter([self._names.index(feature.name) for feature in arrays.features])

    def of_dict(self, row: dict[Any, Any]) -> npt.NDArray[np.unsignedinteger] | None:
        """Return the codes of one row by name."""
        if set(map(type, row)) != _TEXT or not set(map(type, row.values())) <= _NUMBERS | _OTHERS:
            return None
        try:
            return self.codes([[row[name] for name in self._names]], may_be_none=True)
        except KeyError:
            return None

    def codes(self, rows: Sequence[Sequence[Any]], *, may_be_none: bool) -> npt.NDArray[np.unsignedinteger] | None:
        """Return the codes of rows, as `TreeArrays.codes` does; None if they must be read column by column.

        Parameters
        ----------
        rows
            The values of all features in each row, and perhaps more after them.
        may_be_none
            Whether None is a missing value: in a column of another type it may be an error.
        """
        if not self._can_code:
            return None
        plain = [self._plain(row, may_be_none=may_be_none) for row in rows]
        if any(row is None for row in plain):
            return None
        codes = [list(map(call, self._coders, self._of_used(row))) for row in plain if row is not None]
        return np.array(codes, self._dtype).reshape(len(rows), len(self._coders))

    def _plain(self, values: Sequence[Any], *, may_be_none: bool) -> Sequence[Any] | None:
        """Return the values of features, None as NaN in numeric ones; None if a type is not coded here."""
        kinds = set(map(type, values))
        if kinds <= self._all_types == _NUMBERS:
            return values
        if not kinds <= self._all_types | ({type(None)} if may_be_none else set()):
            return None
        pairs = list(zip(values, self._types, strict=False))
        if not all(type(value) in types or value is None for value, types in pairs):
            return None
        return [math.nan if value is None and types is _NUMBERS else value for value, types in pairs]


Getter = Callable[[Sequence[Any]], Sequence[Any]]


def getter(indices: Sequence[int]) -> Getter:
    """Return an `itemgetter` of these values and one more, because with a single index it returns no tuple."""
    return itemgetter(*indices, indices[0]) if indices else lambda _: ()


def _can_code(feature: Feature) -> bool:
    kind = feature.type
    is_number = kind.is_float or kind.is_integer
    return (is_number and not kind.is_categorical and not feature.zero_is_missing) or kind.name == "string"


class _AboveNumbers:
    """The edge above all numbers; NaN is not below it, so as the last edge it gives NaN a code of its own."""

    __array_ufunc__ = None  # so that numbers of NumPy, too, leave the comparison to it

    def __gt__(self, value: Any) -> bool:
        return bool(value == value)


def _number(edges: Sequence[Physical], _: int) -> Callable[[Any], int]:
    return partial(bisect_right, [*edges, _AboveNumbers()])


def _text(categories: Sequence[Physical], missing: int) -> Callable[[Any], int]:
    codes: dict[Any, int] = {name: i for i, name in enumerate(categories)} | {None: missing}
    return lambda value: codes.get(value, missing + 1)
