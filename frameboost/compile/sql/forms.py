"""The forms of a scoring query that have the trees in them: ``case``, ``lists``, ``sorted`` and ``staged``.

`frameboost.compile.sql.tree_table` has the fifth, over a table of the trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from frameboost.compile.sql.case import n_terms
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.deep_trees import tree_texts
from frameboost.compile.sql.node_lists import NodeLists
from frameboost.compile.sql.outputs import named_columns, uses_margins_once, values_sql
from frameboost.compile.sql.shared_walks import lookup_terms, shared_texts
from frameboost.compile.sql.sort_key import sort_key
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import Stages
from frameboost.trees.tree import Tree

__all__ = [
    "as_expressions", "fill_missing", "filled_columns", "in_stages", "output_query", "over_lists", "sort_rows",
]  # fmt: skip

# Trees in one column of a stage: few enough for the compilers of expressions, enough to keep columns few.
_TREES_A_COLUMN = 50
# Nodes of a tree that splits once.
_OF_ONE_SPLIT = 3
# Names and values that are left for the columns that a stage passes on.
_ROOM = 5_000


# --- one expression a value -------------------------------------------------------------------------------------------


def as_expressions(model: SqlModel, stages: Stages, name: str, into: str = "") -> str | None:
    """Return the query with one expression a value; None if an output uses a margin twice, as softmax does."""
    output, dialect = model.output, model.dialect
    if not uses_margins_once(output):
        return None
    margins = {margin: model.margin(k) for k, margin in enumerate(output.inputs)}
    values = values_sql(output, margins, dialect, model.starts)
    return stages.select(named_columns(output, values, name, dialect), into)


# --- lists of nodes ---------------------------------------------------------------------------------------------------


def over_lists(model: SqlModel, stages: Stages, name: str, into: str = "") -> str:
    """Return the query whose first stage adds lists of nodes to each row, which `NodeLists.margin` walks."""
    lists = NodeLists.of(model)
    names = stages.name(lists.sql())
    margins = {margin: lists.margin(k, names) for k, margin in enumerate(model.output.inputs)}
    return output_query(model, stages, margins, name, into)


# --- the order of rows ------------------------------------------------------------------------------------------------


def sort_rows(model: SqlModel, stages: Stages) -> Stages:
    """Begin the stages with one that sorts rows by `sort_key`; return them. The last SELECT restores their order."""
    if key := sort_key(model.every_tree(), model.columns):
        stages.sort(key)
    return stages


# --- missing values ---------------------------------------------------------------------------------------------------


def fill_missing(model: SqlModel, stages: Stages, *, integers: bool = True) -> SqlModel:
    """Add a stage with what splits compare, in which no number is missing; return the model over these columns.

    A chain of WHENs then has ``x >= 3`` for ``NOT (x < 3) OR x IS NULL``, which DuckDB plans and evaluates in less
    time, and floats and strings, whose columns take more text to compare, take as little. A tree of one split is no
    chain, so what only such trees compare stays as it is; without ``integers``, they do too.
    """
    return replace(model, columns=filled_columns(model.every_tree(), model.columns, stages, integers=integers))


def filled_columns(
    trees: Iterable[Tree], columns: Sequence[FeatureColumn], stages: Stages, *, integers: bool
) -> Sequence[FeatureColumn]:
    """Return the columns over a stage that is added to compare them in many splits of trees (see `fill_missing`)."""
    if not columns or not columns[0].dialect.expressions.case_skips_unmet_whens:
        return columns
    values: dict[str, str] = {}
    for tree in trees:
        for node in range(len(tree) if len(tree) > _OF_ONE_SPLIT else 0):
            if tree.is_leaf(node):
                continue
            f, left = tree.feature[node], tree.missing_left[node]
            column = columns[f]
            kind = column.feature.type
            if kind.name == "string":
                values[f"{f}_text"] = column.value
            elif f"{f}_{left:d}" not in values and (integers or kind.is_float) and column.compares_numbers(tree, node):
                values[f"{f}_{left:d}"] = column.as_number(left, "DOUBLE")
    if not values:
        return columns
    names = stages.name(dict(sorted(values.items())))
    return [
        replace(column, filled=(names.get(f"{f}_0"), names.get(f"{f}_1")), text=names.get(f"{f}_text"))
        for f, column in enumerate(columns)
    ]


# --- stages -----------------------------------------------------------------------------------------------------------


def in_stages(model: SqlModel, stages: Stages, name: str, into: str = "") -> str:
    """Return the query whose stages first sum trees, fifty a column, then evaluate the output.

    For 60 trees: ``WITH stage_1 AS (SELECT id, <trees 0 to 49> AS v_1, <trees 50 to 59> AS v_2 FROM t)
    SELECT id, (base + (v_1 + v_2)) AS prediction FROM stage_1``.
    """
    model = fill_missing(model.renamed(stages.rename_lost()), stages)
    dialect, output = model.dialect, model.output
    every = model.every_tree()
    looked_up = shared_texts(every, model.columns, dialect, stages)
    others = [tree for number, tree in enumerate(every) if number not in looked_up]
    of_others = iter(tree_texts(others, model.columns, dialect, stages))
    in_order = iter([
        (looked_up[number], lookup_terms(tree)) if number in looked_up else (next(of_others), n_terms(tree, dialect))
        for number, tree in enumerate(every)
    ])  # fmt: skip
    texts = [[next(in_order) for _ in of_output] for of_output in model.trees]
    sums: list[list[str]] = [[] for _ in model.trees]
    for of_stage in _by_terms(model, texts):
        for key, column in stages.name(of_stage).items():
            sums[int(key.split("_")[0])].append(column)
    margins = {}
    for k, (margin, base, parts) in enumerate(zip(output.inputs, model.bases, sums, strict=True)):
        first = base if isinstance(base, str) else dialect.number(base)
        margins[margin] = model.with_offset(k, dialect.sum([first, *parts]))
    return output_query(model, stages, margins, name, into)


def output_query(model: SqlModel, stages: Stages, margins: dict[str, str], name: str, into: str = "") -> str:
    """Return the query that ends in the output's stages; ``margins`` are SQL over the last stage."""
    output, dialect = model.output, model.dialect
    known = margins if uses_margins_once(output) else stages.name(margins, often=True)
    for stage in output.stages:
        known |= stages.name({key: value.to_sql(known, dialect) for key, value in stage.items()}, often=True)
    values = values_sql(output, known, dialect, model.starts)
    return stages.select(named_columns(output, values, name, dialect), into)


def _by_terms(model: SqlModel, texts: Sequence[Sequence[tuple[str, int]]]) -> list[dict[str, str]]:
    """Return the sums of each stage by their keys, so that no stage exceeds the limit on names and values.

    ``texts`` are the trees of each output, each with the number of its names and values.

    A database with such a limit (`Limits.terms`) counts a whole SELECT as one expression.
    """
    most, zero = model.dialect.limits.terms, model.uncompiled
    room = None if most is None else most - _ROOM
    stages: list[dict[str, str]] = [{}]
    terms = 0
    for k, of_output in enumerate(texts):
        for here in _slices([each for _, each in of_output], room):
            more = sum(each for _, each in of_output[here])
            if room is not None and stages[-1] and terms + more > room:
                stages, terms = [*stages, {}], 0
            total = [*(text for text, _ in of_output[here]), *([zero] if zero and not stages[-1] else [])]
            stages[-1][f"{k}_{here.start}"], terms = model.dialect.total(total), terms + more
    return stages


def _slices(of_trees: Sequence[int], room: int | None) -> list[slice]:
    """Return the runs of trees that make a column each: at most fifty, within the room for names and values."""
    starts, terms = [0], 0
    for i, own in enumerate(of_trees):
        terms += own
        if i > starts[-1] and (i - starts[-1] == _TREES_A_COLUMN or (room is not None and terms > room)):
            starts, terms = [*starts, i], own
    ends = [*starts[1:], len(of_trees)]
    return [slice(first, last) for first, last in zip(starts, ends, strict=True) if last > first]
