"""Features as codes: small integers that say all that an ensemble ever asks of a value, and SQL that works them out.

A number's code counts the thresholds that are not above it; a missing value has the code above all others. A category's
is its place among those that splits name, from 1 on; 0 is that of all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.compile.sql.columns import Column
from frameboost.schema.types import FeatureType, Physical
from frameboost.trees.tree import Tree

__all__ = ["Cell", "FeatureCode", "Grid", "feature_codes"]

# Thresholds that are compared one after the other; of more, those near a value are found first.
_MOST_COMPARED = 16
# Cells of equal width between the first threshold and the last, and thresholds that may lie in one of them.
_CELLS, _MOST_IN_CELL = (64, 128, 256, 512, 1024, 2048, 4096), 3
# So many cells make a lookup take twice as long, as lists are copied for every 2,048 rows.
_CELLS_AS_LONG = 16_384
# Types whose values become floating-point numbers here as they do there.
_COUNTED = ("float32", "float64", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)))


@dataclass(frozen=True)
class Cell:
    """A part of the line of numbers: how many thresholds are below it, and those inside."""

    below: int
    inside: tuple[float, ...] = ()


@dataclass(frozen=True)
class Grid:
    """How the cell of a number is found, as an expression, and what is known of each cell.

    ``filler`` is a threshold that no value of a cell with fewer than others comes up to.
    """

    cell: str
    cells: tuple[Cell, ...]
    filler: float

    @property
    def most_inside(self) -> int:
        """How many thresholds a cell has at most."""
        return max(len(cell.inside) for cell in self.cells)


@dataclass(frozen=True)
class FeatureCode:
    """The codes of a feature.

    Attributes
    ----------
    column
        The feature's column.
    edges
        Its thresholds in ascending order, or the categories that some split names, by their codes.
    """

    column: Column
    edges: tuple[Physical, ...]

    @property
    def count(self) -> int:
        """How many codes there are."""
        return len(self.edges) + 2

    def goes_left(self, tree: Tree, node: int) -> npt.NDArray[np.bool_]:
        """Return for each code whether a value of it goes left at a node."""
        left = np.zeros(self.count, dtype=np.bool_)
        threshold, categories = tree.threshold[node], tree.categories[node]
        if categories is not None:
            left[:] = not tree.named_left(node)
            left[[self._place[code] + 1 for code in categories]] = tree.named_left(node)
        elif threshold is None:
            left[:] = True
        else:
            left[: self._place[threshold] + 1] = True
        left[-1] = tree.missing_left[node]
        return left

    @cached_property
    def _place(self) -> dict[Physical, int]:
        return {edge: i for i, edge in enumerate(self.edges)}

    @cached_property
    def grid(self) -> Grid | None:
        """How to find the few thresholds that a value is still to be compared with, None where that does not pay."""
        if self.column.feature.type.is_categorical or len(self.edges) <= _MOST_COMPARED:
            return None
        return _grid(self)

    def sql(self) -> str:
        """Return the code as a FLOAT over the column.

        DuckDB adds floating-point numbers up without asking of each whether it still fits, as it does of integers.
        """
        column, last = self.column, f"{self.count - 1}::FLOAT"
        if column.feature.type.is_categorical:
            place = "0"
            if self.edges:
                listed = f"[{', '.join(column.categories([int(edge) for edge in self.edges]))}]"
                place = f"COALESCE(list_position({listed}, {column.value}), 0)"
            return f"CASE WHEN {column.name} IS NULL THEN {last} ELSE CAST({place} AS FLOAT) END"
        if len(self.edges) > _MOST_COMPARED:
            code = _searched(column, self.edges, 0, len(self.edges), str(len(self.edges)), str(self.count - 1))
            return f"CAST({code} AS FLOAT)"
        terms = [_one_if(column.is_at_least(edge)) for edge in self.edges]
        if column.feature.type.is_float:  # NaN is above all thresholds, and one more makes it missing
            terms.append(_one_if(f"isnan({column.value})"))
        return self.if_present(" + ".join(terms) or "0::FLOAT")

    def if_present(self, code: str, scale: int = 1) -> str:
        """Return the code times a number, where NULL is a missing value's; DuckDB knows which columns have none."""
        return f"CASE WHEN {self.column.value} IS NULL THEN {(self.count - 1) * scale}::FLOAT ELSE {code} END"


def _one_if(condition: str) -> str:
    """Return 1 if a condition holds, 0 if not; nothing is the condition that always holds."""
    return f"CAST({condition or 'TRUE'} AS FLOAT)"


def feature_codes(trees: Sequence[Tree], columns: Sequence[Column]) -> dict[int, FeatureCode]:
    """Return the codes of the features that some tree asks about."""
    edges: dict[int, set[Physical]] = {}
    for tree in trees:
        for feature, threshold, categories in zip(tree.feature, tree.threshold, tree.categories, strict=True):
            if feature >= 0:
                known = edges.setdefault(feature, set())
                known.update(categories if categories is not None else () if threshold is None else (threshold,))
    return {feature: FeatureCode(columns[feature], tuple(sorted(edges[feature]))) for feature in sorted(edges)}


def _searched(column: Column, edges: Sequence[Physical], first: int, last: int, above: str, missing: str) -> str:
    """Return nested CASEs that find how many of some edges are not above a value; a missing one goes to ELSE always."""
    if first == last:
        is_top = last == len(edges)
        return f"CASE WHEN {column.is_present()} THEN {above} ELSE {missing} END" if is_top else str(first)
    middle = (first + last) // 2
    lower = _searched(column, edges, first, middle, above, missing)
    upper = _searched(column, edges, middle + 1, last, above, missing)
    return f"CASE WHEN {column.is_below(edges[middle])} THEN {lower} ELSE {upper} END"


# --- cells of equal width ---------------------------------------------------------------------------------------------


def _grid(code: FeatureCode) -> Grid | None:
    """Return cells of equal width, with few thresholds in each, or None if there are none such.

    A cell's number is computed by operations that never turn the order of two numbers round. So all values of lower
    cells are below a threshold, all of higher ones are not, however those operations round.
    """
    kind = code.column.feature.type
    edges = [edge for edge in code.edges if not isinstance(edge, str) and math.isfinite(edge)]
    if kind.name not in _COUNTED or len(edges) < len(code.edges):
        return None
    number: Any = np.float32 if kind.name == "float32" else np.float64
    with np.errstate(all="ignore"):
        exact = np.array(edges, dtype=number)
        width = exact[-1] - exact[0]
        # Values outside take longer, as few of a block's rows then go another way than the others.
        low, high = number(exact[0] - width / 2), number(exact[-1] + width / 2)
        best: tuple[float, tuple[np.floating[Any], ...], list[int]] | None = None
        for cells in _CELLS:
            scale = number(number(cells) / width)
            start = number(2 - low * scale)
            places: npt.NDArray[Any] = np.rint(np.array([low, *exact, high], dtype=number) * scale + start)
            if not (
                np.isfinite(places).all() and 0 < scale < np.inf and places[0] >= 1 and places[-1] <= 2 * cells + 4
            ):
                return None
            most = int(np.unique(places[1:-1], return_counts=True)[1].max())
            takes = (1 + most) * (1 + cells / _CELLS_AS_LONG)
            if most <= _MOST_IN_CELL and (best is None or takes < best[0]):
                best = takes, (low, high, scale, start), places[1:].astype(int).tolist()
    if best is None:
        return None
    _, numbers, (*inside, last) = best
    return Grid(_cell(code, numbers, last), _cells(edges, inside, last), edges[-1])


def _cell(code: FeatureCode, numbers: Sequence[np.floating[Any]], last: int) -> str:
    """Return the number of a cell, from 1 on, as an expression: low ones, those of equal width, high ones, missing."""
    column, kind = code.column, "float32" if code.column.feature.type.name == "float32" else "float64"
    literals = [str(column.dialect.literal(FeatureType(kind), float(number))) for number in numbers]
    low, high, scale, start = literals
    value = column.dialect.cast(column.value, kind)
    return (
        f"CASE WHEN {column.value} >= {low} AND {column.value} < {high} "
        f"THEN CAST({value} * {scale} + {start} AS USMALLINT) WHEN {column.value} < {low} THEN 1::USMALLINT "
        f"WHEN {column.is_present()} THEN {last + 1}::USMALLINT ELSE {last + 2}::USMALLINT END"
    )


def _cells(edges: Sequence[float], places: Sequence[int], last: int) -> tuple[Cell, ...]:
    """Return what is known of the cells, from number 1 on, by the edges' cells and the last one of equal width."""
    inside: dict[int, list[float]] = {}
    for edge, place in zip(edges, places, strict=True):
        inside.setdefault(place, []).append(edge)
    most, cells, below = max(map(len, inside.values())), [], 0
    for place in range(1, places[-1]):
        cells.append(Cell(below, tuple(inside.get(place, ()))))
        below += len(cells[-1].inside)
    # From the last threshold's cell on the last few are asked about, be they there or below, where nothing is less.
    top, edges_at_top = len(edges) - most, tuple(edges[-most:])
    return (*cells, *[Cell(top, edges_at_top)] * (last + 2 - places[-1]), Cell(top + 1, edges_at_top))
