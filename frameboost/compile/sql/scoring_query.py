"""A query that scores a table, laid out to fit what the database takes: one expression, or stages of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from frameboost.compile.sql.case import case_depth, each_once, margin_sql, n_terms, shaped, tree_sql
from frameboost.compile.sql.columns import Column, renamed
from frameboost.compile.sql.deep_trees import tree_texts
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.losses.outputs import Output
from frameboost.trees.tree import Tree

__all__ = ["Scored", "as_expressions", "expression_depth", "finish", "in_stages", "sort_rows"]

# Trees in one column of a stage: few enough for any compiler of expressions, enough that columns stay few.
_TREES_A_COLUMN = 50
# What is left for columns that are passed on.
_ROOM = 5_000
# Names and values in a piece of code that is compiled in well under a second.
_MOST_COMPILED = 1_000


@dataclass(frozen=True)
class Scored:
    """A model as SQL sees it: an output over margins, each a base (a number or SQL) and trees over columns.

    ``base_columns`` are the columns that bases are of: as SQL, and their names. ``is_of_leaves``: whether each margin
    is the number of the leaf in a tree.
    """

    output: Output
    bases: Sequence[float | str]
    trees: Sequence[Sequence[Tree]]
    columns: Sequence[Column]
    dialect: Dialect
    base_columns: Sequence[tuple[str, str]] = ()
    is_of_leaves: bool = False

    def margin(self, number: int) -> str:
        """Return a margin as one expression."""
        margin = margin_sql(self.bases[number], self.trees[number], self.columns, self.dialect)
        return f"({margin}\n + {self.uncompiled})" if self.uncompiled else margin

    def renamed(self, names: Mapping[str, str]) -> Scored:
        """Return the same over columns of other names, all quoted."""
        if not names:
            return self
        margins = [names.get(name, name) for _, name in self.base_columns]
        starts = [(self.dialect.cast(name, "float64"), name) for name in margins]
        return replace(
            self, columns=renamed(self.columns, names), bases=[sql for sql, _ in starts] or self.bases,
            base_columns=starts,
        )  # fmt: skip

    @cached_property
    def uncompiled(self) -> str | None:
        """A zero that keeps the database from compiling all into one piece of code, where there is much."""
        template = self.dialect.expressions.uncompiled
        if template is None or sum(n_terms(tree, self.dialect) for tree in self.every_tree()) <= _MOST_COMPILED:
            return None
        used = self.used()
        return template.format(x=used[0]) if used else None

    def every_tree(self) -> list[Tree]:
        """Return the trees of all margins."""
        return [tree for of_output in self.trees for tree in of_output]

    def used(self) -> list[str]:
        """Return the columns that some tree asks about, quoted."""
        asked = {f for of_output in self.trees for tree in of_output for f in tree.feature if f >= 0}
        return [self.columns[f].name for f in sorted(asked)]


def named(values: Sequence[str], name: str) -> dict[str, str]:
    """Return the values by the names of their columns: the name alone, or with numbers from 0 behind it."""
    return {name: values[0]} if len(values) == 1 else {f"{name}_{i}": value for i, value in enumerate(values)}


# --- the order of rows ------------------------------------------------------------------------------------------------


def sort_rows(scored: Scored, stages: Stages) -> Stages:
    """Begin the stages with one that sorts rows by their leaf in the first tree that splits; return them.

    DuckDB evaluates CASE by vectors of 2,048 rows, and skips a WHEN that none of them satisfies. Rows of one leaf agree
    on the conditions above it, which later trees often ask again. So each vector evaluates fewer branches. Leaves are
    numbered from left to right, so that neighbours agree on the upper splits. For the tree
    ``x < 3 ? (y < 5 ? a : b) : c`` that is ``ORDER BY CASE WHEN x < 3 THEN CASE WHEN y < 5 THEN 0 ELSE 1 END ELSE 2
    END``.
    """
    tree = next((tree for tree in scored.every_tree() if not tree.is_leaf(0)), None)
    if tree is None:
        return stages
    numbers = dict(zip(tree.leaves_in_order(), itertools.count()))
    numbered = replace(tree, value=tuple(float(numbers.get(node, 0)) for node in range(len(tree))))
    stages.sort(tree_sql(numbered, scored.columns, scored.dialect))
    return stages


# --- one expression a value -------------------------------------------------------------------------------------------


def as_expressions(scored: Scored, stages: Stages, name: str, into: str = "") -> str | None:
    """Return the query with an expression for each value; None if a value would have a margin in it twice."""
    output, dialect = scored.output, scored.dialect
    if not each_once(output):
        return None
    margins = {margin: scored.margin(k) for k, margin in enumerate(output.margins)}
    values = shaped(output, [value.to_sql(margins, dialect) for value in output.values], dialect)
    return stages.select(named(values, name), into)


def expression_depth(trees: Sequence[Sequence[Tree]], dialect: Dialect) -> tuple[int, int]:
    """Return how deep the expression of a margin is: its CASEs, and the sum over them."""
    deepest = max((case_depth(tree, dialect) for of_output in trees for tree in of_output), default=0)
    return deepest, max(len(of_output) for of_output in trees).bit_length()


# --- stages -----------------------------------------------------------------------------------------------------------


def in_stages(scored: Scored, stages: Stages, name: str, into: str = "") -> str:
    """Return the query that adds up the trees column by column, then takes the sums through the output's stages."""
    scored = scored.renamed(stages.rename_lost())
    dialect, output = scored.dialect, scored.output
    texts_in_order = iter(tree_texts(scored.every_tree(), scored.columns, dialect, stages))
    texts = [[next(texts_in_order) for _ in of_output] for of_output in scored.trees]
    sums: dict[str, str] = {}
    for of_stage in _by_terms(scored, texts):
        sums |= stages.name(of_stage)
    margins = {}
    for k, (margin, base) in enumerate(zip(output.margins, scored.bases, strict=True)):
        parts = [column for key, column in sums.items() if key.startswith(f"{k}_")]
        if isinstance(base, str):  # not on the grid: added last
            margins[margin] = f"({dialect.sum(parts)} + {base})"
        else:
            margins[margin] = dialect.sum([dialect.number(base), *parts])
    return finish(scored, stages, margins, name, into)


def _by_terms(scored: Scored, texts: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Return sums of some trees each, in as many stages as it takes for none to have more names and values than it may.

    A database that limits them counts the whole of a SELECT as one expression.
    """
    most, zero = scored.dialect.limits.terms, scored.uncompiled
    room = None if most is None else most - _ROOM
    stages: list[dict[str, str]] = [{}]
    terms = 0
    for k, of_output in enumerate(texts):
        for here in _slices(scored.trees[k], scored.dialect, room):
            more = sum(n_terms(tree, scored.dialect) for tree in scored.trees[k][here])
            if room is not None and stages[-1] and terms + more > room:
                stages, terms = [*stages, {}], 0
            total = [*of_output[here], *([zero] if zero and not stages[-1] else [])]
            stages[-1][f"{k}_{here.start}"], terms = scored.dialect.expressions.total(total), terms + more
    return stages


def _slices(trees: Sequence[Tree], dialect: Dialect, room: int | None) -> list[slice]:
    """Return which trees make a column each: not too many, and with no more names and values than there is room for."""
    starts, terms = [0], 0
    for i, tree in enumerate(trees):
        terms += n_terms(tree, dialect)
        if i > starts[-1] and (i - starts[-1] == _TREES_A_COLUMN or (room is not None and terms > room)):
            starts, terms = [*starts, i], n_terms(tree, dialect)
    return [slice(first, last) for first, last in zip(starts, [*starts[1:], len(trees)], strict=True) if last > first]


def finish(scored: Scored, stages: Stages, margins: dict[str, str], name: str, into: str = "") -> str:
    """Return the query that takes margins, as SQL over the last stage, through the output's stages."""
    output, dialect = scored.output, scored.dialect
    known = margins if each_once(output) else stages.name(margins, often=True)
    for stage in output.stages:
        known |= stages.name({key: value.to_sql(known, dialect) for key, value in stage.items()}, often=True)
    values = shaped(output, [value.to_sql(known, dialect) for value in output.values], dialect)
    return stages.select(named(values, name), into)
