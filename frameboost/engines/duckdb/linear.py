"""Linear leaves in a database: what a leaf's terms are is a ``CASE`` over leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.contract import linear_role, sum_indices
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.expression import float_literal
from frameboost.splits.split import FloatArray, IntArray
from frameboost.trees.linear_leaves import LinearColumns, LinearLeaf, LinearTerm
from frameboost.trees.tree import LEAF

__all__ = ["LeafQuery", "leaf_sql"]


@dataclass(frozen=True)
class LeafQuery:
    """Aggregates over the rows of leaves.

    Attributes
    ----------
    session
        Where the rows are.
    rows
        Their tables, joined by position.
    g, h
        The columns of g and h.
    leaves
        The leaves of the tree.
    case
        Returns an expression over the rows, given that of each leaf.
    """

    session: DuckDBSession
    rows: str
    g: str
    h: str
    leaves: Sequence[int]
    case: Callable[[Mapping[int, str]], str]

    def ranges(self, leaves: IntArray, features: IntArray) -> FloatArray:
        """Return `LinearEngine.leaf_ranges`."""
        terms = [[linear_role(number) for number in of_leaf if number != LEAF] for of_leaf in features.tolist()]
        most = max(map(len, terms))
        aggregates = ["CAST(COUNT(*) AS DOUBLE)", "MAX(ABS(g))", "MAX(h)"]
        aggregates += [f"{function}(u_{k})" for k in range(most) for function in ("MIN", "MAX")]
        ranges = np.zeros((len(leaves), 3 + 2 * features.shape[1]))
        ranges[:, : len(aggregates)] = self._aggregate(leaves, features, terms, aggregates, "g", "h")
        return ranges

    def sums(self, grids: LinearColumns, offsets: FloatArray) -> FloatArray:
        """Return `LinearEngine.leaf_sums`."""
        terms = [[_on_grid(term) for term in leaf.terms] for leaf in grids.leaves().values()]
        most = max(map(len, terms))
        factors, indices = ["", *(f" * u_{k}" for k in range(most))], sum_indices(most)
        products = ["g" + factors[k] if j == 0 else "h" + factors[j - 1] + factors[k] for j, k in indices]
        rounded = [_rounded(side, grids.node, of_leaves) for side, of_leaves in zip("gh", offsets.T, strict=True)]
        sums = np.zeros((len(grids), grids.feature.shape[1] + 2, grids.feature.shape[1] + 1))
        sums[:, *np.transpose(indices)] = self._aggregate(
            grids.node, grids.feature, terms, [f"SUM({each})" for each in products], *rounded
        )
        return sums

    def _aggregate(
        self, leaves: IntArray, features: IntArray, terms: Sequence[Sequence[str]], aggregates: Sequence[str], g: str,
        h: str,
    ) -> FloatArray:  # fmt: skip
        """Return aggregates over the rows of each leaf, (leaves, aggregates), and over its ``terms`` u_0, u_1, ..."""
        most, asked = max(map(len, terms)), set(leaves.tolist())
        slots = [[each[k] if k < len(each) else "0e0" for each in terms] for k in range(most)]
        statement = render(
            "leaf_sums",
            leaf=self.case({node: str(node) if node in asked else "-1" for node in self.leaves}),
            rows=self.rows, g=self.g, h=self.h, g_on_grid=g, h_on_grid=h,
            numbers="".join(f", {linear_role(number)}" for number in np.unique(features[features != LEAF]).tolist()),
            terms="".join(f", {_by_leaf(leaves, slot)} AS u_{k}" for k, slot in enumerate(slots)),
            present=" ".join(f"AND u_{k} IS NOT NULL" for k in range(most)),
            aggregates=", ".join(aggregates),
        )  # fmt: skip
        out = np.zeros((len(leaves), len(aggregates)))
        for leaf, *values in self.session.rows(statement):
            out[np.searchsorted(leaves, leaf)] = values
        return out


def leaf_sql(leaf: LinearLeaf | None, value: float) -> str:
    """Return the value of a leaf as SQL over the numbers' roles."""
    if leaf is None:
        return float_literal(value)
    total = " + ".join(
        [float_literal(leaf.constant), *(f"{float_literal(term.slope)} * {_on_grid(term)}" for term in leaf.terms)]
    )
    present = " AND ".join(f"{linear_role(term.feature)} IS NOT NULL" for term in leaf.terms)
    return f"CASE WHEN {present} THEN {total} ELSE {float_literal(value)} END"


def _on_grid(term: LinearTerm) -> str:
    """Return u of a term; NULL where its number is missing."""
    x = linear_role(term.feature)
    offset, shift, low, high = map(float_literal, (term.offset, term.shift, term.low, term.high))
    u = f"(({x} + {offset}) - {shift})"
    return f"CASE WHEN {u} < {low} THEN {low} WHEN {u} > {high} THEN {high} ELSE {u} END"


def _rounded(name: str, leaves: IntArray, offsets: FloatArray) -> str:
    offset = _by_leaf(leaves, list(map(float_literal, offsets.tolist())))
    return f"(({name} + {offset}) - {offset})"


def _by_leaf(leaves: IntArray, values: Sequence[str]) -> str:
    cases = (f"WHEN {leaf} THEN {value}" for leaf, value in zip(leaves.tolist(), values, strict=True))
    return f"CASE leaf {' '.join(cases)} END"
