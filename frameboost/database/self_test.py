"""The query that tests whether a database scores like Python, and the rows that it tests.

The rows are literals, so the query only needs the right to read the table. They begin with an empty SELECT from the
table: the UNION gives the literals the types and collations of its columns. This detects case-insensitive columns, and
numbers stored as text.

Possible faults are the branch of a value at a split, and the value of a leaf. So each leaf is a *target*, and each
split has several: the threshold, its predecessor, NULL and NaN, each listed category, values it may be confused with,
and others. A row covers a target if it reaches the node with that value. Candidates are generated for uncovered
targets, leaves first, with random values, mostly thresholds, of unconstrained features. From each batch those that
cover the most new targets are selected.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import Stages
from frameboost.database.drift import feature_values, open_exactly
from frameboost.dialects.dialect import Dialect, OutOfRange, in_lines
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, FrameboostWarning
from frameboost.losses.loss import EXPOSURE
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import ZERO, Feature, FeatureType, Physical, typed_column
from frameboost.trees.tree import LEAF

__all__ = ["LiteralRows", "Names", "SelfTest", "differing_rows", "predictions", "rows_of"]

# How far a value may be from Python's where functions such as EXP are in it, which differ in the last bit: relative to
# it, and absolute, for numbers below which float64 has fewer digits.
_RELATIVE, _ABSOLUTE = 1e-12, 1e-300
# Candidates of which the best are taken, and the share of the best one's gain from which on another is.
_BATCH, _WORTH = 128, 0.25
# Batches without a row that is worth it, after which targets count as out of reach.
_PATIENCE = 4

_FLOAT64 = FeatureType("float64")
_Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Names:
    """Names of the columns that the query adds, distinct from all columns of the rows.

    Attributes
    ----------
    row, expected
        The row number, and the expected values.
    value
        The name of the database's values, as `QueryOptions.name`.
    """

    row: str
    expected: Sequence[str]
    value: str

    @classmethod
    def beside(cls, columns: Sequence[str], n_values: int) -> Names:
        """Return names distinct from those of some columns, ignoring case."""
        taken = {name.lower() for name in columns}

        def free(name: str) -> str:
            while any(other.startswith(name) for other in taken):
                name += "_"
            return name

        expected, many = free("expected"), n_values > 1
        return cls(free("row"), [f"{expected}_{i}" if many else expected for i in range(n_values)], free("prediction"))


# --- the rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Values:
    """The test values of a column: numbers or categories in ascending order, then missing ones.

    ``texts`` are their literals, ``first_missing`` is the index of the first missing one, and ``near`` has the indices
    of values that a category may be confused with: itself in other case and with blanks, the numbers before and after
    it.
    """

    values: Sequence[Physical | None]
    texts: Sequence[str]
    first_missing: int
    near: Mapping[Physical, Sequence[int]]


class _Nodes:
    """The nodes of all trees in one array: the branch of each value, and the targets that it covers.

    Values are indices of `_Values`, columns indices of the columns that are read. A leaf has one target, a split by
    threshold four, and a split by categories up to one for each value of its column.
    """

    def __init__(self, ensemble: Ensemble, columns: Sequence[FeatureColumn]) -> None:
        numbers = {column.feature.name: number for number, column in enumerate(columns)}
        of_feature = [numbers.get(feature.name, LEAF) for feature in ensemble.features]
        thresholds: list[set[Physical]] = [set() for _ in columns]
        # Without those of margins that the output does not use, which may read other columns.
        trees = [tree for tree in ensemble.trees if LEAF not in {of_feature[f] for f in tree.used_features()}]
        every = [(tree, node) for tree in trees for node in range(len(tree))]
        for tree, node in every:
            if (threshold := tree.threshold[node]) is not None:
                thresholds[of_feature[tree.feature[node]]].add(threshold)
        self.values = [_values_of(column, of_column) for column, of_column in zip(columns, thresholds, strict=True)]
        self.n_present = np.array([values.first_missing for values in self.values] or [0])
        sizes = [len(tree) for tree in trees]
        self.roots = np.cumsum([0, *sizes])[:-1]
        starts = np.repeat(self.roots, sizes)
        n = len(every)
        self.column = np.array([of_feature[tree.feature[node]] for tree, node in every], np.int64)
        self.column[[tree.is_leaf(node) for tree, node in every]] = LEAF
        self.left = starts + [tree.left[node] for tree, node in every]
        self.right = starts + [tree.right[node] for tree, node in every]
        self.parent = np.full(n, -1)
        splits = np.flatnonzero(self.column != LEAF)
        self.parent[self.left[splits]] = self.parent[self.right[splits]] = splits
        self._missing_left = np.array([tree.missing_left[node] for tree, node in every], np.bool_)
        self._cut = np.zeros(n, np.int64)  # of a threshold the first value that goes right
        self.first = np.zeros(n, np.int64)  # the first target
        self._sides = np.full(n, -1)  # of categories where the sides of values begin in `_every_side`
        every_side, is_target, n_sides = [], [], 0
        n_targets = 0
        for number, (tree, node) in enumerate(every):
            self.first[number] = n_targets
            if tree.is_leaf(node):
                of_node = np.ones(1, np.bool_)
            else:
                feature, values = ensemble.features[tree.feature[node]], self.values[self.column[number]]
                n_present, n_values = values.first_missing, len(values.values)
                if (codes := tree.categories[node]) is not None:
                    named = {feature.categories[code] for code in codes}
                    is_named = np.array([value in named for value in values.values])
                    sides = is_named == tree.named_left(node)
                    sides[n_present:] = tree.missing_left[node]
                    every_side.append(sides)
                    self._sides[number], n_sides = n_sides, n_sides + n_values
                    of_node = is_named.copy()
                    of_node[[i for value in named for i in values.near[value]]] = True
                    of_node[np.flatnonzero(~is_named)[[0, -1]]] = of_node[n_present:] = True
                else:
                    threshold = tree.threshold[node]
                    if threshold is None:  # left if there is a value, and missing values go right
                        self._cut[number], self._missing_left[number] = n_present, False
                    else:
                        self._cut[number] = bisect_left(values.values, threshold, hi=n_present)
                    cut = self._cut[number]
                    of_node = np.array([cut < n_present, cut > 0, True, n_present + 1 < n_values])
            is_target.append(of_node)
            n_targets += len(of_node)
        self._every_side = np.concatenate([*every_side, np.zeros(1, np.bool_)])
        self.is_target = np.concatenate([*is_target, np.zeros(1, np.bool_)])  # the last one stands for none

    def goes_left(self, nodes: _Indices, values: _Indices) -> npt.NDArray[np.bool_]:
        """Return whether values go left at splits."""
        is_missing = values >= self.n_present[self.column[nodes]]
        by_threshold = np.where(is_missing, self._missing_left[nodes], values < self._cut[nodes])
        sides = self._sides[nodes]
        return np.where(sides < 0, by_threshold, self._every_side[np.where(sides < 0, 0, sides + values)])

    def targets(self, nodes: _Indices, values: _Indices) -> _Indices:
        """Return the targets that values cover at splits, the last index for none."""
        cut, n_present = self._cut[nodes], self.n_present[self.column[nodes]]
        kinds = [values == cut, values == cut - 1, values == n_present, values == n_present + 1]
        which = np.select([self._sides[nodes] >= 0, *kinds], [values, 0, 1, 2, 3], -1)
        return np.where(which < 0, len(self.is_target) - 1, self.first[nodes] + which)

    def value_of(self, target: int) -> tuple[int, int]:
        """Return the node of a target, and the value that covers it; −1 for a leaf."""
        node = int(np.searchsorted(self.first, target, side="right")) - 1
        which, cut = target - int(self.first[node]), int(self._cut[node])
        if self.column[node] == LEAF:
            return node, -1
        if self._sides[node] >= 0:
            return node, which
        n_present = int(self.n_present[self.column[node]])
        return node, (cut, cut - 1, n_present, n_present + 1)[which]

    def met(self, rows: _Indices) -> _Indices:
        """Return the targets that rows cover, a few for each tree."""
        none, at = len(self.is_target) - 1, np.tile(self.roots, (len(rows), 1))
        met = []
        while (is_open := self.column[at] != LEAF).any():
            nodes, targets = at[is_open], np.full(at.shape, none)
            values = rows[np.nonzero(is_open)[0], self.column[nodes]]
            targets[is_open] = self.targets(nodes, values)
            met.append(targets)
            at[is_open] = np.where(self.goes_left(nodes, values), self.left[nodes], self.right[nodes])
        return np.concatenate([*met, self.first[at]], axis=1)

    def allowed(self, node: int) -> dict[int, npt.NDArray[np.bool_]]:
        """Return the values that lead to a node, by column of the splits above it."""
        allowed: dict[int, npt.NDArray[np.bool_]] = {}
        while (above := int(self.parent[node])) >= 0:
            column = int(self.column[above])
            every = np.arange(len(self.values[column].values))
            left = self.goes_left(np.full(len(every), above), every)
            leads = left if self.left[above] == node else ~left
            allowed[column] = leads & allowed[column] if column in allowed else leads
            node = above
        return allowed


class SelfTest:
    """Rows that cover as many targets as possible with a number of rows, in the types of a database.

    Parameters
    ----------
    ensemble
        The trees.
    columns
        The columns that are read, with their types in the database.
    n_rows
        The most rows.

    Attributes
    ----------
    rows
        (rows, columns): the indices of the values; rows that cover the most targets come first.
    n_targets, n_met
        The number of targets, without those known to be unreachable, and the number covered.
    """

    def __init__(self, ensemble: Ensemble, columns: Sequence[FeatureColumn], n_rows: int) -> None:
        self._ensemble, self._columns = ensemble, columns
        self._nodes, self._rng = _Nodes(ensemble, columns), np.random.default_rng(0)
        self._open = self._nodes.is_target.copy()
        self._known = _known_offsets(ensemble, columns, self._nodes.values)
        without = self._without_offset()[: n_rows // 4]
        rows = [*self._choose(n_rows - len(without)), *without]
        self.n_targets = int(self._nodes.is_target.sum())
        self.n_met = self.n_targets - int(self._open.sum())
        self.rows = np.array(rows, np.int64).reshape(len(rows), len(columns))

    def _choose(self, n_rows: int) -> list[_Indices]:
        rows: list[_Indices] = []
        patience, best = _PATIENCE, math.inf
        while len(rows) < n_rows and self._open.any() and patience:
            is_open = np.flatnonzero(self._open)
            nodes = np.searchsorted(self._nodes.first, is_open, side="right") - 1
            of_leaves = is_open[self._nodes.column[nodes] == LEAF]  # first
            chosen = self._rng.permutation(of_leaves if len(of_leaves) else is_open)[:_BATCH]
            candidates = [row for target in chosen.tolist() if (row := self._candidate(target)) is not None]
            if not candidates:
                continue  # all of them are out of reach, and no longer open
            met = self._nodes.met(np.array(candidates))
            gains = self._open[met].sum(axis=1)
            best = min(best, gains.max())
            n_before = len(rows)
            for i in np.argsort(-gains, kind="stable").tolist():
                if len(rows) < n_rows and self._open[met[i]].sum() >= max(1.0, best * _WORTH):
                    self._open[met[i]] = False
                    rows.append(candidates[i])
            patience = _PATIENCE if len(rows) > n_before else patience - 1
        return rows or [self._any_row()]

    def _any_row(self) -> _Indices:
        row = np.array([self._rng.integers(len(values.values)) for values in self._nodes.values], np.int64)
        for column, is_known in self._known.items():
            row[column] = self._rng.choice(np.flatnonzero(is_known))
        return row

    def _candidate(self, target: int) -> _Indices | None:
        """Return a row that covers a target; None if none exists, and the target is dropped."""
        node, value = self._nodes.value_of(target)
        allowed = self._nodes.allowed(node)
        if value >= 0:
            column = int(self._nodes.column[node])
            is_value = np.arange(len(self._nodes.values[column].values)) == value
            allowed[column] = is_value & allowed.get(column, is_value)
        if not all(leads.any() for leads in allowed.values()):
            self._open[target] = self._nodes.is_target[target] = False
            return None
        row = self._any_row()
        for column, leads in allowed.items():
            # Where the offset is not known, the prediction is NULL, whatever the trees say.
            is_known = leads & self._known.get(column, leads)
            row[column] = self._rng.choice(np.flatnonzero(is_known if is_known.any() else leads))
        return row

    def _without_offset(self) -> list[_Indices]:
        """Return rows that each have an invalid value in one column of the offset."""
        rows = []
        for column, is_known in self._known.items():
            for value in np.flatnonzero(~is_known):
                rows.append(self._any_row())
                rows[-1][column] = value
        return rows

    def frame(self) -> pl.DataFrame:
        """Return the rows in the types of training, with NULL in features that are not read."""
        columns = [
            typed_column(column.feature.name, column.feature.type, [values.values[i] for i in chosen])
            for column, values, chosen in zip(self._columns, self._nodes.values, self.rows.T.tolist(), strict=True)
        ]
        read = {column.feature.name for column in self._columns}
        others = [feature for feature in self._ensemble.read_features if feature.name not in read]
        return pl.DataFrame([*columns, *(typed_column(f.name, f.type, [None] * len(self.rows)) for f in others)])

    def literal_rows(self) -> LiteralRows:
        """Return the rows as a frame and as literals."""
        texts = [values.texts for values in self._nodes.values]
        literals = [[of_column[i] for of_column, i in zip(texts, row, strict=True)] for row in self.rows.tolist()]
        return LiteralRows(self._columns, self.frame(), literals)


def _known_offsets(
    ensemble: Ensemble, columns: Sequence[FeatureColumn], values: Sequence[_Values]
) -> dict[int, npt.NDArray[np.bool_]]:
    """Return which values are valid offsets, by the indices of the offset columns."""
    offset = ensemble.offset
    known = {}
    for number, (column, of_column) in enumerate(zip(columns, values, strict=True)):
        if offset is not None and column.feature.name in offset.names:
            is_number = [value is not None and _is_finite(value) for value in of_column.values]
            least = 0.0 if offset.kind == EXPOSURE else -math.inf
            pairs = zip(of_column.values, is_number, strict=True)
            known[number] = np.array([is_one and float(value or 0.0) > least for value, is_one in pairs])
    return known


def _values_of(column: FeatureColumn, thresholds: set[Physical]) -> _Values:
    """Return the values of a column that the database can hold."""
    feature, dialect = column.feature, column.dialect
    kind = feature.type
    near = {value: _near(kind, value) for value in feature.categories}
    present: set[Physical] = {*feature.categories, *chain.from_iterable(near.values())}
    if kind.values.name == "string":
        present |= {"never seen"}
    elif feature.categories:
        pass
    elif thresholds:
        at_least = [kind.at_least(kind.as_fraction(t)) if _is_finite(t) else t for t in thresholds]
        present |= {t for t in at_least if t is not None}
        present |= {_next(kind, t, up=False) for t in at_least if t is not None}
        present |= {-math.inf, math.inf, 0.0} if kind.is_float else set()
    else:  # offsets, features that slopes alone read, and those that have a value or none
        present |= _examples(kind)
    if kind.family == "boolean":
        present = {0, 1}
    written = {value: text for value in present if (text := _cell(column, value)) is not None}
    missing: list[Physical | None] = [None]
    texts = ["NULL"]
    if feature.zero_is_missing:
        zeros = [value for value in written if abs(float(value)) <= ZERO]
        missing, texts = [*missing, *zeros], [*texts, *(written.pop(value) for value in zeros)]
    if kind.is_float and dialect.literals.nan is not None:
        missing, texts = [*missing, math.nan], [*texts, dialect.literals.nan]
    ordered = sorted(written)
    number = {value: i for i, value in enumerate(ordered)}
    mistaken = {value: [number[other] for other in others if other in number] for value, others in near.items()}
    return _Values([*ordered, *missing], [*(written[value] for value in ordered), *texts], len(ordered), mistaken)


def _near(kind: FeatureType, value: Physical) -> set[Physical]:
    """Return values that a category may be confused with."""
    near: set[Physical] = {_next(kind, value, up=up) for up in (False, True)}
    if isinstance(value, str):
        near = {value.upper(), value.lower(), f"{value} ", f" {value}"}
    return near - {value}


def _is_finite(value: Physical) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _examples(kind: FeatureType) -> set[Physical]:
    """Return some values of a type."""
    if kind.is_float:
        return {-1.0, 0.0, 2.0**-20, 0.5, 3.25, 1000.0}
    return {"a"} if kind.values.name == "string" else {0, 1, 100}


def _next(kind: FeatureType, value: Physical, *, up: bool) -> Physical:
    """Return the next smaller or larger number of a type; the number itself if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        single = kind.values.name == "float32"
        end = math.inf if up else -math.inf
        return float(np.nextafter(np.float32(value), np.float32(end))) if single else math.nextafter(value, end)
    low, high = kind.bounds or (value, value)
    return min(max(value + (1 if up else -1), low), high)


def _cell(column: FeatureColumn, value: Physical) -> str | None:
    """Return a value as stored in a row of a table; None if that is impossible."""
    dialect, kind = column.dialect, column.feature.type
    if isinstance(value, str):
        return None if not set(dialect.literals.unheld).isdisjoint(value) else dialect.string(value)
    if kind.family == "boolean":
        return dialect.literals.booleans[bool(value)]
    if not kind.accepts(value) or not dialect.is_exact(kind, value):
        return None
    held = dialect.literals.zoned_seconds if kind.family == "timestamptz" else None
    if held is not None and not held[0] <= kind.as_fraction(value) <= held[1]:
        return None
    text = dialect.literal(kind, value)
    return None if isinstance(text, OutOfRange) else dialect.literals.cells.get(kind.family, "{v}").format(v=text)


# --- rows of the user -------------------------------------------------------------------------------------------------


def rows_of(
    data: Any, ensemble: Ensemble, columns: Sequence[FeatureColumn], n_rows: int, argument: str = "data"
) -> LiteralRows:  # fmt: skip
    """Return the first rows of data without those that have a value that a column of the database can't store.

    ``argument`` is the name of the data in messages.

    Raises
    ------
    DataError
        If the data lacks a column, its type differs from training, or no row can be tested.
    """
    features = {f.name: f for f in (*ensemble.read_features, *(column.feature for column in columns))}
    frame = open_exactly(data, list(features.values()), argument).to_frame(list(features)).head(n_rows).collect()
    cells = [
        [_cell(column, value) if value is not None else "NULL" for value in feature_values(frame, column.feature)]
        for column in columns
    ]
    rows = list(zip(*cells, strict=True)) if cells else [()] * frame.height
    held = [None not in row for row in rows]
    if not any(held):
        raise DataError(
            f"{argument} has no row that a table of {columns[0].dialect.name if columns else 'it'} can hold"
        )
    return LiteralRows(columns, frame.filter(pl.Series(held)), [row for row in rows if None not in row])


def predictions(ensemble: Ensemble, frame: pl.DataFrame, output: str) -> list[list[Any]]:
    """Return the values of an output for each row, as Python computes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameboostWarning)  # of exposures that are 0: the rows are ours
        predicted = Predictor(ensemble).predict(frame, output)
    if isinstance(predicted.dtype, pl.Struct):
        return [list(row.values()) for row in predicted.to_list()]
    if isinstance(predicted.dtype, pl.Array):
        return [[None] * predicted.dtype.size if row is None else row for row in predicted.to_list()]
    return [[value] for value in predicted.to_list()]


# --- the query --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiteralRows:
    """Rows to test: a frame in the types of training, and literals of the columns that are read."""

    columns: Sequence[FeatureColumn]
    frame: pl.DataFrame
    literals: Sequence[Sequence[str | None]]

    def with_margins(self, margins: Mapping[str, Sequence[float]], dialect: Dialect) -> LiteralRows:
        """Return the rows with additional float64 columns, by name."""
        columns = [FeatureColumn(Feature(name, _FLOAT64), dialect, dialect.quote(name)) for name in margins]
        added = zip(*(map(dialect.number, values) for values in margins.values()), strict=True)
        literals = [[*row, *more] for row, more in zip(self.literals, added, strict=True)] if margins else self.literals
        return replace(self, columns=[*self.columns, *columns], literals=literals)

    def expected(self, values: Sequence[Sequence[Any]], dialect: Dialect) -> list[tuple[list[str], list[str]]]:
        """Return the rows and their values as literals, without rows with a value that has no literal."""
        return [
            ([str(text) for text in row], literals)
            for row, of_row in zip(self.literals, values, strict=True)
            if (literals := _literals(of_row, dialect)) is not None
        ]

    def sql(self, rows: Sequence[tuple[list[str], list[str]]], names: Names, table: str, dialect: Dialect) -> str:
        """Return the SELECT of some rows of `expected`, with their numbers, over a table with the columns."""
        added = [dialect.quote(names.row), *map(dialect.quote, names.expected)]
        of_types = [
            next((text for text in of_column if text != "NULL"), dialect.number(0.0))
            for of_column in zip(*(values for _, values in rows), strict=True)
        ]
        first = zip(["0", *of_types], added, strict=True)
        columns = [(_takes_any(column, dialect), column.name) for column in self.columns]
        selected = [
            *(f"{text} AS {name}" for text, name in first),
            *(name if text == name else f"{text} AS {name}" for text, name in columns),
        ]
        typed = f"SELECT {', '.join(selected)} FROM {table} WHERE 1 = 0"
        written = [[str(number), *values, *cells] for number, (cells, values) in enumerate(rows, 1)]
        return dialect.typed_rows(typed, written)


def _takes_any(column: FeatureColumn, dialect: Dialect) -> str:
    """Return a column of the table in a form that unions with any literal."""
    kind, expressions = column.feature.type, dialect.expressions
    template = expressions.double if kind.is_float else expressions.string if kind.family == "string" else "{x}"
    return template.format(x=column.name)


def _literals(row: Sequence[Any], dialect: Dialect) -> list[str] | None:
    texts = []
    for value in row:
        if (
            isinstance(value, float)
            and not math.isfinite(value)
            and (value != value or dialect.literals.infinity is None)
        ):
            return None
        if value is None:
            texts.append("NULL")
        elif isinstance(value, float):
            texts.append(dialect.number(value))
        else:
            texts.append(dialect.label(value) if isinstance(value, (str, bool)) else str(value))
    return texts


def differing_rows(
    model: SqlModel, names: Names, *, is_sorted: bool = True
) -> Callable[[Stages, Mapping[str, str]], str]:
    """Return the end of a scoring query that selects rows with unexpected values, by number."""
    dialect, output = model.dialect, model.output
    is_exact = [
        (value.text in output.margins and not any(o is not None and o.is_exposure for o in model.offsets))
        or output.is_class
        for value in output.values
    ]
    is_text = output.is_class and any(isinstance(label, str) for label in output.labels.values())

    def end(stages: Stages, values: Mapping[str, str]) -> str:
        named = stages.name(values, often=True)
        scores = list(named.values())
        differs = [
            _differs(score, dialect.quote(expected), exact, is_text, dialect)
            for score, expected, exact in zip(scores, names.expected, is_exact, strict=True)
        ]
        row, *expected = stages.kept_columns()[: 1 + len(scores)]
        shown = [f"{score} AS {dialect.quote(name)}" for score, name in zip(scores, values, strict=True)]
        columns = [row, *expected, *shown, *stages.kept_columns()[1 + len(scores) :]]
        # A window keeps optimizers from moving the condition to where the values are computed, which they would be
        # for each comparison: 99 s for softmax of nine classes in Spark (measured, 4.3).
        [fence] = stages.reserve(1)
        carried = [*stages.reads, *scores, f"ROW_NUMBER() OVER (ORDER BY {stages.reads[0]}) AS {fence}"]
        stages.replace(f"SELECT {in_lines(carried)}\n{stages.source()}", [*scores, fence])
        condition = f"{fence} > 0 AND ({' OR '.join(differs)})"
        order = f"\nORDER BY {row} ASC" if is_sorted else ""
        return stages.finish(f"SELECT {in_lines(columns)}\n{stages.source()}\nWHERE {condition}{order}")

    return end


def _differs(score: str, expected: str, exact: bool, is_text: bool, dialect: Dialect) -> str:
    """Return the condition that a value is not as expected; NULL equals NULL."""
    if is_text:
        score, expected = (dialect.expressions.text.format(x=name) for name in (score, expected))
    equal = f"{score} = {expected}"
    if not exact:
        gap, size = dialect.call("ABS", [f"{score} - {expected}"]), dialect.call("ABS", [expected])
        bound = f"{dialect.number(_RELATIVE)} * {size} + {dialect.number(_ABSOLUTE)}"
        equal = f"{equal} OR {gap} <= {bound}"
    return f"CASE WHEN {equal} OR ({score} IS NULL AND {expected} IS NULL) THEN 0 ELSE 1 END = 1"
