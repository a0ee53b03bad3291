"""Linear leaves in a database: the terms of each row's leaf are looked up in lists over the leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.contract import linear_role, sum_indices
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.expression import float_literal
from frameboost.splits.split import FloatArray, IntArray
from frameboost.trees.linear_leaves import LinearColumns
from frameboost.trees.tree import LEAF

__all__ = ["LeafQuery", "linear_values"]


@dataclass(frozen=True)
class LeafQuery:
    """Aggregates over the rows of leaves.

    Attributes
    ----------
    session
        The session of the rows.
    rows
        The tables of the rows, joined by position.
    g, h
        The columns of g and h.
    leaves
        The leaves of the tree.
    case
        A function from the expression of each leaf to one over the rows.
    """

    session: DuckDBSession
    rows: str
    g: str
    h: str
    leaves: Sequence[int]
    case: Callable[[Mapping[int, str]], str]

    def ranges(self, leaves: IntArray, features: IntArray) -> FloatArray:
        """Return `LinearEngine.leaf_ranges`."""
        numbers = [f"{x} AS u_{k}" for k, x in enumerate(_numbers(leaves, features))]
        most = len(numbers)
        aggregates = ["CAST(COUNT(*) AS DOUBLE)", "MAX(ABS(g))", "MAX(h)"]
        aggregates += [f"{function}(u_{k})" for k in range(most) for function in ("MIN", "MAX")]
        ranges = np.zeros((len(leaves), 3 + 2 * features.shape[1]))
        ranges[:, : len(aggregates)] = self._aggregate(leaves, features, most, numbers, aggregates, "g", "h")
        return ranges

    def sums(self, grids: LinearColumns, offsets: FloatArray) -> FloatArray:
        """Return `LinearEngine.leaf_sums`."""
        numbers = _numbers(grids.node, grids.feature)
        slots = (_lookups(grids.node, of_slot) for of_slot in grids.read_terms()[..., 1:].transpose(1, 2, 0))
        most, terms = len(numbers), []
        for k, (x, (offset, shift, low, high)) in enumerate(zip(numbers, slots, strict=False)):
            terms += [f"({x} + {offset}) - {shift} AS v_{k}", f"{_clipped(f'v_{k}', low, high)} AS u_{k}"]
        factors, indices = ["", *(f" * u_{k}" for k in range(most))], sum_indices(most)
        products = ["g" + factors[k] if j == 0 else "h" + factors[j - 1] + factors[k] for j, k in indices]
        rounded = [
            f"(({x} + {offset}) - {offset})" for x, offset in zip("gh", _lookups(grids.node, offsets.T), strict=True)
        ]
        sums = np.zeros((len(grids), grids.feature.shape[1] + 2, grids.feature.shape[1] + 1))
        sums[:, *np.transpose(indices)] = self._aggregate(
            grids.node, grids.feature, most, terms, [f"SUM({each})" for each in products], *rounded
        )
        return sums

    def _aggregate(
        self, leaves: IntArray, features: IntArray, n_terms: int, terms: Sequence[str], aggregates: Sequence[str],
        g: str, h: str,
    ) -> FloatArray:  # fmt: skip
        """Return aggregates over the rows of each leaf, (leaves, aggregates), and over its ``terms`` u_0, u_1, ..."""
        asked = set(leaves.tolist())
        statement = render(
            "leaf_sums",
            leaf=self.case({node: str(node) if node in asked else "-1" for node in self.leaves}),
            rows=self.rows, g=self.g, h=self.h, g_on_grid=g, h_on_grid=h,
            numbers="".join(f", {role}" for role in _roles(features)),
            terms="".join(f", {term}" for term in terms),
            present=" ".join(f"AND u_{k} IS NOT NULL" for k in range(n_terms)),
            aggregates=", ".join(aggregates),
        )  # fmt: skip
        out = np.zeros((len(leaves), len(aggregates)))
        for leaf, *values in self.session.rows(statement):
            out[np.searchsorted(leaves, leaf)] = values
        return out


def linear_values(values: Mapping[int, float], linear: LinearColumns) -> dict[str, str]:
    """Return the value of each row's leaf, as the parts of ``add_linear_leaves.sql``.

    Parameters
    ----------
    values
        The plain values of all leaves.
    """
    grids, total = [], [_lookup(linear.node, linear.constant)]
    slots = linear.read_terms().transpose(1, 2, 0)
    for k, (x, of_slot) in enumerate(zip(_numbers(linear.node, linear.feature), slots, strict=False)):
        slope, offset, shift, low, high = _lookups(linear.node, of_slot)
        grids.append(f"({x} + {offset}) - {shift}")
        total.append(f"{slope} * {_clipped(f'v_{k}', low, high)}")
    plain = _lookup(np.array(list(values)), np.array(list(values.values())))
    numbers = _roles(linear.feature)
    return {
        "numbers": "".join(f", {role}" for role in numbers),
        "terms": "".join(f", {on_grid} AS v_{k}" for k, on_grid in enumerate(grids)),
        "value": f"COALESCE({' + '.join(total)}, {plain})",
        "besides": ", ".join(["leaf", *numbers, *(f"v_{k}" for k in range(len(grids)))]),
    }


def _roles(features: IntArray) -> list[str]:
    """Return the columns of the features' numbers."""
    return [linear_role(number) for number in np.unique(features[features != LEAF]).tolist()]


def _clipped(u: str, low: str, high: str) -> str:
    return f"CASE WHEN {u} < {low} THEN {low} WHEN {u} > {high} THEN {high} ELSE {u} END"


def _numbers(leaves: IntArray, features: IntArray) -> list[str]:
    """Return the first feature's number of each row's leaf, the second's, ...; 0 past the last one.

    A list of the numbers, at an index from a list: a ``CASE`` over 64 leaves takes 50 times as long.
    """
    used = np.unique(features)  # from -1 on, if there is a leaf with fewer features than others
    numbers = ", ".join("0e0" if number == LEAF else linear_role(number) for number in used.tolist())
    slots = features[:, (features != LEAF).any(axis=0)].T
    return [f"([{numbers}])[{_lookup(leaves, np.searchsorted(used, of_slot) + 1)}]" for of_slot in slots]


def _lookups(leaves: IntArray, values: npt.NDArray[Any]) -> list[str]:
    return [_lookup(leaves, each) for each in values]


def _lookup(leaves: IntArray, values: npt.NDArray[Any]) -> str:
    """Return a number by the row's leaf, from a list with NULL for other nodes; lists count from 1."""
    table = ["NULL"] * (int(leaves.max()) + 1)
    for leaf, value in zip(leaves.tolist(), values.tolist(), strict=True):
        table[leaf] = float_literal(value) if isinstance(value, float) else str(value)
    return f"([{', '.join(table)}])[leaf + 1]"
