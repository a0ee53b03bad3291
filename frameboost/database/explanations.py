"""Queries that explain predictions: the contribution of each feature as an expression, or reason codes.

Shapley values come from `frameboost.compile.sql.shapley`. Saabas' contribution (2014) of a feature to a tree is itself
a tree: each split on the feature changes the mean of the leaves below by a step, and a leaf of the contribution holds
the sum of the steps on its path. Subtrees with equal leaves are pruned, and the trees are compiled like a model. For
``x < 3 ? (y < 5 ? 0 : 2) : 5`` with leaves of equal cover the means are 7/3 at the root and 1 below 3: x contributes
``x < 3 ? -4/3 : 8/3``, y ``x < 3 ? (y < 5 ? -1 : 1) : 0``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, TypedDict

from frameboost.checks.messages import advice, shown
from frameboost.compile.sql.case import TreeWriter
from frameboost.compile.sql.conditions import FeatureColumn, renamed
from frameboost.compile.sql.forms import Destination, exceeded_limit, filled_columns
from frameboost.compile.sql.row_conditions import row_condition
from frameboost.compile.sql.shapley import shapley_sums
from frameboost.compile.sql.sql_model import OffsetColumn
from frameboost.compile.sql.stages import ROW, Stages, TableSource, grouped
from frameboost.compile.sql.tree_table import contributions_over_table
from frameboost.dialects.dialect import Dialect, in_lines
from frameboost.errors import ParameterError, TooLargeError
from frameboost.prediction.contributions import BIAS, check_bias
from frameboost.prediction.reasons import check_no_reasons, check_reasons, rounding_shift
from frameboost.trees.linear_leaves import LinearLeaf, refuse_linear
from frameboost.trees.node_means import LeafSlopes, leaf_slopes, means_on_grid
from frameboost.trees.tree import LEAF, Tree, are_linear

__all__ = ["Explained", "ExplanationArguments", "ExplanationOptions", "explanation_query"]

_FEATURE = "feature_of_model"  # an alias like that of a row, `ROW`
# The hint at the other method in messages.
_DIFFERENCE = (
    "these credit each split on a row's path with the change of the mean, and favour features that are split on late; "
    "their largest one is another feature's in about a fifth of the rows"
)
_ORDER, _COMPARED = {1: "DESC", -1: "ASC"}, {1: ">", -1: "<"}
# What nests, and what is in quotes; levels of a parser around an expression.
_NESTED, _AROUND = re.compile(r"""[()]|\bCASE\b|\bEND\b|'(?:[^'\\]|\\.|'')*'|"[^"]*"|`[^`]*`|\[[^]]*\]"""), 5

# Bytes of Shapley values that are worth their planning, for which DuckDB takes 5 µs each (measured, 2.0.1): where they
# are requested, and where Saabas' contributions do as well.
_MOST_BYTES, _FEW_BYTES = 10 * 2**20, 2**20


@dataclass(frozen=True)
class ExplanationOptions:
    """Options of an explanation query; see `frameboost.database.database_model.DatabaseModel`."""

    keep: Sequence[str] = ()
    where: str | Mapping[str, Any] | None = None
    output: int | str | None = None
    approx: bool | Literal["auto"] = "auto"
    top: int | None = None
    sign: Literal[-1, 1] | None = None
    texts: Mapping[str, str] | None = None
    trees: str | None = None


class ExplanationArguments(TypedDict, total=False):
    """The fields of `ExplanationOptions` as keyword arguments, for type checkers and editors."""

    keep: Sequence[str]
    where: str | Mapping[str, Any] | None
    output: int | str | None
    approx: bool | Literal["auto"]
    top: int | None
    sign: Literal[-1, 1] | None
    texts: Mapping[str, str] | None
    trees: str | None


@dataclass(frozen=True)
class Explained:
    """The margin to explain: its base, its trees, and the offset of each row.

    ``numbers`` are the indices of the trees in the model's table of trees.
    """

    base_margin: float
    trees: Sequence[Tree]
    offset: OffsetColumn | None = None
    numbers: Sequence[int] = ()


def explanation_query(
    source: TableSource, explained: Explained, columns: Sequence[FeatureColumn], dialect: Dialect,
    options: ExplanationOptions, destination: Destination,
) -> str:  # fmt: skip
    """Return the SELECT of `DatabaseModel.explain_query`, or the statement that creates a view or table from it."""
    _check(options, columns)
    query = _Query(source, explained, columns, dialect, options, destination)
    if options.trees is not None:
        return query.text(0)
    too_large = ""
    if options.approx is not True:
        try:
            return query.text(_MOST_BYTES if options.approx is False else _FEW_BYTES)
        except TooLargeError as error:
            too_large = f"the Shapley values do not fit into one query: {error}"
        if options.approx is False:
            raise TooLargeError(
                f"{too_large}; {advice('explain a slice of the model, or ')}set approx=True for Saabas' contributions: "
                f"{_DIFFERENCE}"
            )
    try:
        text = query.text(0)
    except TooLargeError as error:
        ways = advice("; explain a slice of the model", "; train a model of fewer trees")
        if not are_linear(explained.trees):
            load = "or load the trees with table_statements(..., reasons=True), and name the table, trees='trees'"
            ways += advice(f", {load}")
        raise TooLargeError(f"the explanations do not fit into one query: {error}{ways}") from error
    return text if options.approx is True else f"-- Saabas' contributions, as {too_large}.\n-- {_DIFFERENCE}.\n{text}"


def _check(options: ExplanationOptions, columns: Sequence[FeatureColumn]) -> None:
    """Raise `ParameterError` if an option is invalid, or two columns have the same name."""
    features, top = [column.feature for column in columns], options.top
    if not isinstance(options.approx, bool) and not (isinstance(options.approx, str) and options.approx == "auto"):
        raise ParameterError(f"approx must be True, False or 'auto', not {shown(options.approx)}")
    if options.trees is not None and options.approx is False:
        raise ParameterError("approx must be True or 'auto' with trees: a table has Saabas' contributions of each leaf")
    check_no_reasons(top, options.sign, options.texts)
    if top is None:
        check_bias(features, ignore_case=True)
        _check_distinct([*options.keep, *(feature.name for feature in features), BIAS])
        return
    check_reasons(top, options.sign, options.texts, [feature.name for feature in features])
    _check_distinct([*options.keep, *(f"{name}_{k}" for k in range(1, top + 1) for name in ("reason", "contribution"))])


def _check_distinct(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise ParameterError(f"the query would have column {shown(name)} twice; leave it out of keep")


# --- the queries ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Query:
    """The query of one margin's contributions."""

    source: TableSource
    explained: Explained
    columns: Sequence[FeatureColumn]
    dialect: Dialect
    options: ExplanationOptions
    destination: Destination

    def text(self, most_bytes: int) -> str:
        """Return the query or statement: Shapley values with at most ``most`` bytes, Saabas' contributions for 0.

        Raises
        ------
        TooLargeError
            If it exceeds a limit of the database.
        """
        explained, options, is_exact = self.explained, self.options, most_bytes > 0
        stages = self._stages()
        over_table = options.trees is not None
        new = stages.rename_lost() if is_exact or over_table or options.top is not None else {}
        columns, offset = renamed(self.columns, new), explained.offset
        if offset is not None:
            offset = replace(offset, name=new.get(offset.name, offset.name))
        bias, means, slopes = means_on_grid(explained.base_margin, explained.trees)
        steps: list[list[Tree]] = []
        if options.trees is not None:
            refuse_linear("explain_query(trees=)", is_linear=are_linear(explained.trees))
            trees = dict(zip(explained.numbers, explained.trees, strict=True))
            others = [] if offset is None or options.top is not None else [offset.name]
            sums = contributions_over_table(stages, columns, trees, others, options.trees)
        elif is_exact:
            sums = _shapley_values(explained.trees, columns, stages, most_bytes, round_them=options.top is not None)
        else:
            steps = _contribution_trees(len(columns), explained.trees, means, slopes)
            writer = _writer(list(chain.from_iterable(steps)), columns, stages)
            # The steps are on a grid, so neither the order of additions nor the 0 in front changes a bit.
            sums = {i: writer.margin(0.0, of_feature) for i, of_feature in enumerate(steps) if of_feature}
        if options.top is None:
            query = self._contributions(stages, sums, bias, offset)
        else:
            query = self._reasons(stages, options.top, sums)
        statement = self.destination.longest(query, self.dialect)
        is_view = self.destination.kind == "view"
        reason = exceeded_limit(statement, steps, self.dialect, in_one=not (is_exact or over_table), of_view=is_view)
        most = self.dialect.limits.depth
        if is_exact and not reason and most is not None and (depth := _AROUND + _nesting(statement)) > most:
            reason = f"it is about {depth} levels deep, and an expression in {self.dialect.name} at most {most}"
        if reason:
            raise TooLargeError(reason)
        return statement

    def _stages(self) -> Stages:
        where, offset = self.options.where, self.explained.offset
        if isinstance(where, Mapping):
            where = row_condition(where, self.columns)[0] or None
        used = sorted({feature for tree in self.explained.trees for feature in tree.used_features()})
        read = [self.columns[f].name for f in used]
        if offset is not None and self.options.top is None:
            read.append(offset.name)
        return Stages(self.dialect, self.source, self.options.keep, read, where)

    def _contributions(self, stages: Stages, sums: Mapping[int, str], bias: float, offset: OffsetColumn | None) -> str:
        """Return a SELECT with a column for each feature, and one for the bias."""
        number = self.dialect.number
        mean = number(bias) if offset is None else f"({number(bias)} + {offset.value})"
        zero = self.dialect.sum([number(0.0)])
        values = {column.feature.name: sums.get(i, zero) for i, column in enumerate(self.columns)}
        return stages.select({**values, BIAS: mean}, self.destination.into(self.dialect))

    def _by_text(self, sums: Mapping[int, str]) -> tuple[dict[int, str], dict[int, str]]:
        """Return the summed contributions by text, and the texts, each under the first of its features."""
        texts, first = self.options.texts or {}, dict[str, int]()
        of_text: dict[int, list[str]] = {}
        for i, column in enumerate(self.columns):
            number = first.setdefault(texts.get(column.feature.name, column.feature.name), i)
            if i in sums:
                of_text.setdefault(number, []).append(sums[i])
        return {i: self.dialect.sum(of_one) for i, of_one in of_text.items()}, {i: text for text, i in first.items()}

    def _reasons(self, stages: Stages, top: int, sums: Mapping[int, str]) -> str:
        """Return a SELECT of the ``top`` largest contributions with their features.

        Each row is unpivoted to one row per text; a window function ranks these, and the first ones are pivoted back
        into columns. Up to the window, which no optimizer merges, each contribution is named once. If later SELECTs
        compared contributions with each other instead, a database that inlines expressions would multiply them.
        """
        dialect, sign, keep = self.dialect, self.options.sign, stages.keep or []
        sums, texts = self._by_text(sums)
        row, number, feature, contribution, rank = stages.reserve(5)
        values = dict(zip(sums, stages.reserve(len(sums)), strict=True))
        worked_out = [
            *(f"{sums[i]} AS {name}" for i, name in values.items()),
            f"{dialect.statements.row_number} AS {row}",
        ]
        stages.check(len(keep) + len(worked_out))
        stages.reduce(f"SELECT {in_lines([*keep, *worked_out])}\n{stages.source()}", keep, [*values.values(), row])
        rows = [[str(i), dialect.string(text)] for i, text in texts.items()]
        value = dialect.number(0.0)
        if values:
            whens = " ".join(f"WHEN {i} THEN {ROW}.{name}" for i, name in values.items())
            value = f"CASE {_FEATURE}.{number} {whens} ELSE {value} END"
        selected = [
            *(f"{ROW}.{name} AS {name}" for name in [*keep, row]),
            *(f"{_FEATURE}.{name} AS {name}" for name in (number, feature)),
        ]
        stages.replace(
            f"SELECT {in_lines(selected)}, {value} AS {contribution}\n{stages.source(ROW)}\n"
            f"CROSS JOIN (\n{dialect.constant_rows(rows, [number, feature])}\n) {dialect.statements.alias}{_FEATURE}",
            [row, number, feature, contribution],
        )
        by = f"{dialect.call('ABS', [contribution])} DESC" if sign is None else f"{contribution} {_ORDER[sign]}"
        stages.replace(
            f"SELECT {', '.join([*keep, row, feature, contribution])}, "
            f"ROW_NUMBER() OVER (PARTITION BY {row} ORDER BY {by}, {number} ASC) AS {rank}\n{stages.source()}",
            [row, feature, contribution, rank],
        )
        of_sign = "" if sign is None else f" AND {contribution} {_COMPARED[sign]} {dialect.number(0.0)}"
        reasons = [
            f"MAX(CASE WHEN {rank} = {k}{of_sign} THEN {value} END) AS {dialect.quote(f'{name}_{k}')}"
            for k in range(1, top + 1)
            for name, value in (("reason", feature), ("contribution", contribution))
        ]
        stages.check(len(keep) + len(reasons))
        groups, of_row = grouped(keep, f"{rank} = 1", dialect)
        order = f"\nORDER BY {row} ASC" if dialect.statements.keeps_order and self.destination.kind == "query" else ""
        return stages.finish(
            f"SELECT {in_lines([*stages.kept_columns(of_row), *reasons])}\n{self.destination.into(dialect)}"
            f"{stages.source()}\nWHERE {rank} <= {top}\nGROUP BY {', '.join([row, *groups])}{order}"
        )


def _nesting(text: str) -> int:
    """Return the nesting depth of parentheses and CASEs.

    >>> _nesting("SELECT (CASE WHEN (a + 1) > 2 THEN 3 END + 1), '(((('")
    3
    """
    depth = deepest = 0
    for token in _NESTED.findall(text):
        depth += {"(": 1, "CASE": 1, ")": -1, "END": -1}.get(token, 0)
        deepest = max(deepest, depth)
    return deepest


def _writer(trees: Sequence[Tree], columns: Sequence[FeatureColumn], stages: Stages) -> TreeWriter:
    """Return a writer of trees over columns that a stage names if that is faster."""
    dialect = columns[0].dialect
    return TreeWriter(filled_columns(trees, columns, stages, integers=False), dialect)


def _shapley_values(
    trees: Sequence[Tree], columns: Sequence[FeatureColumn], stages: Stages, most_bytes: int, *, round_them: bool
) -> dict[int, str]:
    """Add stages, and return the Shapley value of each feature that has splits.

    ``round_them`` rounds to a grid, so that values that differ only by rounding errors are equal.
    """
    writer = _writer(trees, columns, stages)
    sums, dialect = shapley_sums(trees, writer, stages, most_bytes), writer.dialect
    for tree in trees:
        if slopes := leaf_slopes(tree):
            for feature in sorted({term.feature for leaf in slopes.values() for term in leaf.terms}):
                of_feature = _steps(tree, [0.0] * len(tree), slopes, feature)
                sums.setdefault(feature, []).append(writer.tree(of_feature))
    values = {feature: dialect.sum(texts) for feature, texts in sorted(sums.items())}
    if not round_them or not (rounding := rounding_shift(trees)):
        return values
    shift = dialect.number(rounding)
    return {feature: f"(({value} + {shift}) - {shift})" for feature, value in values.items()}


# --- the trees of contributions ---------------------------------------------------------------------------------------


def _contribution_trees(
    n_features: int, trees: Sequence[Tree], means: Sequence[Sequence[float]], slopes: Sequence[LeafSlopes]
) -> list[list[Tree]]:
    """Return for each feature the trees that sum to its contribution."""
    steps: list[list[Tree]] = [[] for _ in range(n_features)]
    for tree, of_nodes, of_leaves in zip(trees, means, slopes, strict=True):
        for number in tree.used_features():
            steps[number].append(_steps(tree, of_nodes, of_leaves, number))
    return steps


def _steps(tree: Tree, means: Sequence[float], slopes: LeafSlopes, number: int) -> Tree:
    """Return the tree of a feature's contribution: leaves hold sums of steps, and the feature's slopes."""
    feature, value = list(tree.feature), [0.0] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            for child in (tree.left[node], tree.right[node]):
                step = means[child] - means[node] if tree.feature[node] == number else 0.0
                value[child] = value[node] + step
    linear = {node: part for node, leaf in slopes.items() if (part := _slope_of(leaf, value[node], number)) is not None}
    for node in reversed(range(len(tree))):  # children come after their parent
        left, right = tree.left[node], tree.right[node]
        is_same = not tree.is_leaf(node) and value[left] == value[right] and not linear.keys() & {left, right}
        if is_same and feature[left] == feature[right] == LEAF:
            feature[node], value[node] = LEAF, value[left]
    of_nodes = tuple([linear.get(node) for node in range(len(tree))]) if linear else ()
    return replace(tree, feature=tuple(feature), value=tuple(value), linear=of_nodes)


def _slope_of(leaf: LinearLeaf, value: float, number: int) -> LinearLeaf | None:
    """Return the part of a leaf's slopes that belongs to a feature, added to a value; None without any.

    Other terms stay with slopes of 0, as a row with a missing value in any term gets no slopes at all.
    """
    if all(term.feature != number for term in leaf.terms):
        return None
    constant = value + (leaf.constant if leaf.terms[0].feature == number else 0.0)
    return LinearLeaf(
        constant, tuple(term if term.feature == number else term._replace(slope=0.0) for term in leaf.terms)
    )
