"""Trees as one polars expression: leaf indices of each row, and sums of leaf values from lookup tables.

Outputs are expressions over these sums, and over the result of a lookup by a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from types import MappingProxyType

import numpy as np
import polars as pl

from frameboost.expressions.expression import Expression
from frameboost.losses.outputs import Lookup, Output
from frameboost.schema.types import (
    Feature,
    FeatureType,
    Physical,
    category_column,
    category_expr,
    column,
    in_utc,
    not_zero,
)
from frameboost.trees.linear_leaves import LinearTerm
from frameboost.trees.tree import Tree, shared_splits

__all__ = ["lookup_expr", "margin_expr", "margin_exprs", "output_column", "output_expr"]


# Levels from which on bits are faster than when/then, for symmetric trees.
_SHALLOWEST_TABLE = 3
# Levels of when/then in when/then: polars takes time quadratic in them, and thousands crash the process.
_DEEPEST_NESTED = 16
# Arguments of one COALESCE.
_MAX_AT_ONCE = 64
_NO_CODE = -(2**63)
# Sums in one lookup table, eight bytes each.
_LARGEST_TABLE = 2**12


def output_expr(
    output: Output,
    margins: Sequence[pl.Expr],
    starts: Sequence[pl.Expr | None] = (),
    indices: Mapping[str, pl.Expr] = MappingProxyType({}),
) -> pl.Expr:
    """Return the output for rows with these margins; the last one is the result of the lookup, if any.

    It is a number, an integer or a class label, an array of them, or a struct of numbers named by labels. ``starts``
    are the offsets of the margins, if any; values that depend on a null offset are null. ``indices`` are fields that
    margins read (see `margin_exprs`).
    """
    return _labelled(output, _number_expr(output, margins, starts, indices))


def output_column(output: Output, rows: pl.DataFrame, *, may_be_null: bool) -> pl.Series:
    """Return `output_expr` of rows with the margins as columns, in stages.

    Planning one expression over a struct of hundreds of fields takes polars quadratic time.
    """
    for stage in output.stages:
        rows = rows.with_columns(value.to_polars().alias(name) for name, value in stage.items())
    numbers, starts = _class_numbers(output), [pl.col(name) for name in output.margins] if may_be_null else []
    values = [value.to_polars({name: pl.col(name) for name in value.columns} | numbers) for value in output.values]
    shaped = _shaped(output, _where_known(output, values, starts))
    return rows.select(_labelled(output, shaped).alias("value")).to_series()


def _labelled(output: Output, value: pl.Expr) -> pl.Expr:
    """Return the label of each class index, if labels are strings."""
    if not any(isinstance(label, str) for label in output.labels.values()):
        return value
    labels = pl.Series(list(output.labels.values()), dtype=pl.String)
    return pl.lit(labels).gather(value.cast(pl.UInt32))


def _number_expr(
    output: Output, margins: Sequence[pl.Expr], starts: Sequence[pl.Expr | None], indices: Mapping[str, pl.Expr]
) -> pl.Expr:
    """Return `output_expr`, with class indices for string labels."""
    named = dict(zip(output.inputs, margins, strict=True)) | _class_numbers(output)
    if len(margins) == 1 and not output.stages:
        values = [value.to_polars(named) for value in output.values]
        return _shaped(output, _where_known(output, values, starts))
    # Fields of a struct are computed once, however often they are used.
    fields = [named[name].alias(name) for name in output.inputs]
    if indices:
        struct = pl.struct(index.alias(name) for name, index in indices.items()).struct.with_fields(fields)
    else:
        struct = pl.struct(fields)
    for stage in output.stages:
        struct = struct.struct.with_fields(e.to_polars(_fields(e)).alias(name) for name, e in stage.items())
    known = [pl.field(margin) for margin in output.margins] if starts else []
    values = _where_known(output, [value.to_polars(_fields(value) | _class_numbers(output)) for value in output.values],
                          known)  # fmt: skip
    return struct.struct.with_fields(_shaped(output, values).alias("value")).struct.field("value")


def _where_known(output: Output, values: list[pl.Expr], starts: Sequence[pl.Expr | None]) -> list[pl.Expr]:
    """Return the values, null if an offset that they depend on is null; a comparison with null would take ELSE."""
    if not starts:
        return values
    behind = [
        [start.is_not_null() for k in numbers if (start := starts[k]) is not None]
        for numbers in output.margins_behind()
    ]
    return [
        pl.when(pl.all_horizontal(known)).then(value) if known else value
        for value, known in zip(values, behind, strict=True)
    ]


def _fields(expression: Expression) -> dict[str, pl.Expr]:
    return {name: pl.field(name) for name in expression.columns}


def _class_numbers(output: Output) -> dict[str, pl.Expr]:
    return {name: pl.lit(float(k)) for k, name in enumerate(output.labels)}


def _shaped(output: Output, values: Sequence[pl.Expr]) -> pl.Expr:
    if output.is_class:
        is_boolean = any(isinstance(label, bool) for label in output.labels.values())
        values = [value == 1.0 if is_boolean else value.cast(pl.Int64) for value in values]
    if output.names:
        return pl.struct(value.alias(name) for name, value in zip(output.names, values, strict=True))
    return pl.concat_arr(values) if len(values) > 1 else values[0]


def lookup_expr(lookup: Lookup) -> pl.Expr:
    """Return the result of a lookup by a column."""
    values = column(lookup.column)
    if lookup.type.name == "codes":  # of floats, as a column with missing integers may be one, a fraction is no integer
        whole = values.cast(pl.Int64, strict=False)
        values = pl.when(whole == values).then(whole)
    elif lookup.type.name == "string":
        values = values.cast(pl.String)  # Enum and Categorical refuse values that they don't have
    known = [bool(value) for value in lookup.values] if lookup.type.family == "boolean" else lookup.values
    return values.replace_strict(
        pl.Series(known, dtype=lookup.type.to_polars()), pl.Series(lookup.numbers, dtype=pl.Float64),
        default=lookup.otherwise, return_dtype=pl.Float64,
    )  # fmt: skip


def margin_expr(base_margin: float, trees: Sequence[Tree], features: Sequence[Feature]) -> pl.Expr:
    """Return the margin; leaf values are on a grid, so the order of additions in polars does not matter."""
    if all(len(tree) == 1 for tree in trees):  # no column to take the number of rows from
        return pl.repeat(base_margin + sum(tree.value[0] for tree in trees), pl.len(), dtype=pl.Float64)
    return pl.sum_horizontal(pl.lit(base_margin), *_terms(trees, [_column(feature) for feature in features], features))


def _terms(trees: Sequence[Tree], columns: Sequence[pl.Expr], features: Sequence[Feature]) -> list[pl.Expr]:
    """Return numbers that sum to a row's leaf values."""
    plain = [tree for tree in trees if not tree.is_linear]
    terms = [pl.lit(_sums(group)).gather(_radix(group, columns, features)) for group in _groups(plain)]
    for tree in (tree for tree in trees if tree.is_linear):
        leaves = tree.leaves_in_order()
        terms.append(_linear_expr(tree, leaves, _index(tree, leaves, columns, features), features))
    return terms


def margin_exprs(
    bases: Sequence[float], trees_of: Sequence[Sequence[Tree]], features: Sequence[Feature]
) -> tuple[list[pl.Expr], dict[str, pl.Expr]]:
    """Return the margins, and the indices of a row's leaves in trees of several margins with the same splits.

    The margins read the indices as fields of a struct, by these names, so that each is computed once.
    """
    every = [tree for trees in trees_of for tree in trees]
    output_of = [output for output, trees in enumerate(trees_of) for _ in trees]
    walks: dict[tuple[int, ...], list[list[int]]] = {}
    for group in shared_splits(every):
        outputs = tuple([output_of[number] for number in group])
        if len(outputs) == len(set(outputs)) and not every[group[0]].is_linear:
            walks.setdefault(outputs, []).append(group)
    columns, indices = [_column(feature) for feature in features], dict[str, pl.Expr]()
    terms: list[list[pl.Expr]] = [[] for _ in trees_of]
    for outputs, some in walks.items():
        start = 0
        for run in _groups([every[group[0]] for group in some]):
            name = f"leaf_{len(indices)}"
            indices[name] = _radix(run, columns, features)
            for k, output in enumerate(outputs):
                sums = _sums([every[group[k]] for group in some[start : start + len(run)]])
                terms[output].append(pl.lit(sums).gather(pl.field(name)))
            start += len(run)
    shared = {number for some in walks.values() for group in some for number in group}
    margins, first = [], 0
    for base, trees, terms_of_output in zip(bases, trees_of, terms, strict=True):
        rest = [tree for number, tree in enumerate(trees, first) if number not in shared]
        first += len(trees)
        if not terms_of_output:
            margins.append(margin_expr(base, rest, features))
            continue
        total = pl.sum_horizontal(*terms_of_output, *_terms(rest, columns, features))
        margins.append(total + base)  # on the grid as well
    return margins, indices


def _groups(trees: Sequence[Tree]) -> Iterator[list[Tree]]:
    """Yield runs of trees that share a lookup table of all sums of their leaves, which fits in the L1 cache."""
    group: list[Tree] = []
    size = 1
    for tree in trees:
        n_leaves = len(tree.leaves_in_order())
        if group and size * n_leaves > _LARGEST_TABLE:
            yield group
            group, size = [], 1
        group.append(tree)
        size *= n_leaves
    if group:
        yield group


def _sums(trees: Sequence[Tree]) -> pl.Series:
    """Return the sums of leaves, one of each tree, by a mixed-radix number of the leaf indices.

    Trees with 2 and 3 leaves, [a, b] and [c, d, e], have the table [a+c, a+d, a+e, b+c, b+d, b+e]; the indices 1 and 0
    make the number 1 · 3 + 0, which is b+c. Leaf values are on a grid, so the sums are exact.
    """
    sums = np.zeros(1)
    for tree in trees:
        sums = np.add.outer(sums, [tree.value[leaf] for leaf in tree.leaves_in_order()]).ravel()
    return pl.Series(sums)


def _radix(trees: Sequence[Tree], columns: Sequence[pl.Expr], features: Sequence[Feature]) -> pl.Expr:
    """Return this mixed-radix number of a row."""
    indices = []
    for tree in trees:
        leaves = tree.leaves_in_order()
        indices.append((len(leaves), _index(tree, leaves, columns, features).cast(pl.UInt32)))
    number = indices[0][1]
    for count, index in indices[1:]:
        number = number * pl.lit(count, dtype=pl.UInt32) + index
    return number


def _index(tree: Tree, leaves: Sequence[int], columns: Sequence[pl.Expr], features: Sequence[Feature]) -> pl.Expr:
    """Return the index of a row's leaf among the leaves, from left to right."""
    if (levels := tree.levels()) is not None and len(levels) >= _SHALLOWEST_TABLE:
        return _bits(tree, columns, features, levels)
    # Indices are bytes where that is enough: choosing between them is several times as fast as between values.
    dtype = pl.UInt8 if len(leaves) <= 2**8 else pl.UInt16 if len(leaves) <= 2**16 else pl.UInt32
    index = {leaf: pl.lit(i, dtype=dtype) for i, leaf in enumerate(leaves)}

    is_deep = max(tree.depths()) > _DEEPEST_NESTED
    nested = tree.nestings() if is_deep else None

    def leaf_below(node: int) -> pl.Expr:
        arms = []
        while not tree.is_leaf(node):
            number = tree.feature[node]
            condition, holds_left = _test(tree, node, columns[number], features[number])
            yes, no = (tree.left[node], tree.right[node]) if holds_left else (tree.right[node], tree.left[node])
            if nested is None:
                return pl.when(condition).then(leaf_below(yes)).otherwise(leaf_below(no))
            if nested[yes] > nested[no]:
                condition, yes, no = (~condition).fill_null(value=True), no, yes
            arms.append(pl.when(condition).then(leaf_below(yes)))
            node = no
        return _first([*arms, index[node]])

    return leaf_below(0)


def _first(values: Sequence[pl.Expr]) -> pl.Expr:
    """Return the first value that is not null, by COALESCE of 64 at a time to bound the memory."""
    while len(values) > 1:
        values = [pl.coalesce(values[at : at + _MAX_AT_ONCE]) for at in range(0, len(values), _MAX_AT_ONCE)]
    return values[0]


def _bits(tree: Tree, columns: Sequence[pl.Expr], features: Sequence[Feature], levels: Sequence[int]) -> pl.Expr:
    """Return the leaf index in a symmetric tree, a number with one bit per level, the root's highest."""
    bits = []
    for depth, node in enumerate(levels):
        number = tree.feature[node]
        condition, holds_left = _test(tree, node, columns[number], features[number])
        bit = 1 << (len(levels) - 1 - depth)
        then, otherwise = (0, bit) if holds_left else (bit, 0)
        bits.append(
            pl.when(condition).then(pl.lit(then, dtype=pl.UInt32)).otherwise(pl.lit(otherwise, dtype=pl.UInt32))
        )
    return reduce(add, bits)


def _column(feature: Feature) -> pl.Expr:
    """Return the column in the form that conditions compare."""
    values, kind = column(feature.name), feature.type
    if kind.name == "codes":
        # A column with missing codes is often one of floats; a fraction is none of the codes.
        number = values.cast(pl.Float64).fill_nan(None)
        whole = number.cast(pl.Int64, strict=False)
        return pl.when(number.is_not_null()).then(pl.when(whole == number).then(whole).otherwise(_NO_CODE))
    if kind.is_categorical:
        return category_expr(feature)
    if feature.zero_is_missing:
        return pl.when(not_zero(values)).then(values)
    if kind.family == "timestamptz":
        return in_utc(values, kind)
    if kind.unit:
        values = pl.coalesce(values, pl.lit(None, kind.to_polars()))  # of untyped NULL there is no unit to cast
    return values.dt.cast_time_unit(kind.unit) if kind.unit else values  # type: ignore[arg-type]


def _test(tree: Tree, node: int, values: pl.Expr, feature: Feature) -> tuple[pl.Expr, bool]:
    """Return the condition of a split, and whether values that satisfy it go left.

    As in SQL (`frameboost.compile.sql.conditions.FeatureColumn.test`), it is not true for missing values unless the
    split names them, so they take the other branch.
    """
    kind, threshold, categories = feature.type, tree.threshold[node], tree.categories[node]
    missing_left = tree.missing_left[node]
    if categories is not None:
        named = values.is_in(category_column(feature, categories).implode())
        return (named | values.is_null() if tree.with_missing[node] else named), tree.named_left(node)
    if threshold is None:
        return (values.is_not_null() & values.is_not_nan() if kind.is_float else values.is_not_null()), True
    if not missing_left:
        return values < _literal(kind, threshold), True  # NaN is above every number, null is not true
    above = values >= _literal(kind, threshold)
    return (above & values.is_not_nan() if kind.is_float else above), False


def _literal(kind: FeatureType, value: Physical) -> pl.Expr:
    dtype = kind.to_polars()
    if kind.precision_and_scale:
        return pl.lit(kind.decimal(int(value)), dtype=dtype)
    if kind.family == "boolean":
        return pl.lit(bool(value))
    if kind.family == "date":
        return pl.lit(int(value), dtype=pl.Int32).cast(dtype)
    if kind.unit:
        return pl.lit(int(value), dtype=pl.Int64).cast(dtype)
    return pl.lit(value, dtype=pl.Float64 if kind.is_float else dtype)  # to which a column of Float32 is raised


# --- linear leaves ----------------------------------------------------------------------------------------------------

_NO_TERM = LinearTerm(0, 0.0, 0.0, 0.0, 0.0, 0.0)


def _linear_expr(tree: Tree, leaves: Sequence[int], index: pl.Expr, features: Sequence[Feature]) -> pl.Expr:
    """Return the value of a row's leaf, with ``index`` its position in ``leaves``.

    All products and sums are exact (see `frameboost.trees.tree`), so their order does not matter.
    """
    linear = [tree.linear[leaf] for leaf in leaves]
    terms: list[Mapping[int, LinearTerm]] = [
        {} if leaf is None else {term.feature: term for term in leaf.terms} for leaf in linear
    ]
    used = sorted({feature for leaf_terms in terms for feature in leaf_terms})
    # Fields of a struct are computed once, however often they are used.
    row = pl.struct(
        index.cast(pl.UInt32).alias("leaf"), *(_number(features[number]).alias(f"x{number}") for number in used)
    )
    total = _looked_up([tree.value[leaf] if linear_leaf is None else linear_leaf.constant
                        for leaf, linear_leaf in zip(leaves, linear, strict=True)])  # fmt: skip
    for number in used:
        total = total + _term(number, [t.get(number, _NO_TERM) for t in terms], [number in t for t in terms])
    value = pl.coalesce(total, _looked_up([tree.value[leaf] for leaf in leaves]))
    return row.struct.with_fields(value.alias("value")).struct.field("value")


def _term(feature: int, terms: Sequence[LinearTerm], has_term: Sequence[bool]) -> pl.Expr:
    """Return slope times u, 0 in leaves without the term; null if the number is missing in a leaf with the term."""
    x = pl.when(_looked_up(has_term)).then(pl.field(f"x{feature}")).otherwise(0.0)
    slope, offset, shift, low, high = (
        _looked_up([getattr(term, name) for term in terms]) for name in ("slope", "offset", "shift", "low", "high")
    )
    u = (x + offset) - shift
    return slope * pl.when(u < low).then(low).when(u > high).then(high).otherwise(u)


def _number(feature: Feature) -> pl.Expr:
    return column(feature.name).cast(pl.Float64).fill_nan(None)


def _looked_up(values: Sequence[float] | Sequence[bool]) -> pl.Expr:
    return pl.lit(pl.Series(values)).gather(pl.field("leaf"))
