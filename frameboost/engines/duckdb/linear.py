"""Linear leaves in a database: what a leaf's terms are is a ``CASE`` over leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.contract import LeafGrid, linear_role, sums_of_terms
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.expression import float_literal
from frameboost.splits.split import FloatArray
from frameboost.trees.tree import LinearLeaf, LinearTerm

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

    def ranges(self, features: Mapping[int, Sequence[int]]) -> dict[int, FloatArray]:
        """Return `LinearEngine.leaf_ranges`."""
        most = max(map(len, features.values()))
        terms = {node: [linear_role(number) for number in of_leaf] for node, of_leaf in features.items()}
        aggregates = ["CAST(COUNT(*) AS DOUBLE)", "MAX(ABS(g))", "MAX(h)"]
        aggregates += [f"{function}(u_{k})" for k in range(most) for function in ("MIN", "MAX")]
        by_leaf = self._aggregate(features, terms, aggregates, "g", "h")
        return {node: values[: 3 + 2 * len(features[node])] for node, values in by_leaf.items()}

    def sums(self, grids: Mapping[int, LeafGrid]) -> dict[int, FloatArray]:
        """Return `LinearEngine.leaf_sums`."""
        most = max(len(grid.terms) for grid in grids.values())
        features = {node: [term.feature for term in grid.terms] for node, grid in grids.items()}
        terms = {node: [_on_grid(term) for term in grid.terms] for node, grid in grids.items()}
        products = ["g", "h", *(f"{side} * u_{k}" for side in "gh" for k in range(most))]
        products += [f"h * u_{k} * u_{j}" for k in range(most) for j in range(k + 1)]
        rounded = [_rounded(side, {node: getattr(grid, f"{side}_offset") for node, grid in grids.items()})
                   for side in "gh"]  # fmt: skip
        by_leaf = self._aggregate(features, terms, [f"SUM({each})" for each in products], *rounded)
        return {node: sums_of_terms(values, most, len(terms[node])) for node, values in by_leaf.items()}

    def _aggregate(
        self, features: Mapping[int, Sequence[int]], terms: Mapping[int, Sequence[str]], aggregates: Sequence[str],
        g: str, h: str,
    ) -> dict[int, FloatArray]:  # fmt: skip
        most = max(map(len, terms.values()))
        slots = [{node: each[k] if k < len(each) else "0e0" for node, each in terms.items()} for k in range(most)]
        read = sorted({number for of_leaf in features.values() for number in of_leaf})
        statement = render(
            "leaf_sums",
            leaf=self.case({node: str(node) if node in terms else "-1" for node in self.leaves}),
            rows=self.rows, g=self.g, h=self.h, g_on_grid=g, h_on_grid=h,
            numbers="".join(f", {linear_role(number)}" for number in read),
            terms="".join(f", {_by_leaf(slot)} AS u_{k}" for k, slot in enumerate(slots)),
            present=" ".join(f"AND u_{k} IS NOT NULL" for k in range(most)),
            aggregates=", ".join(aggregates),
        )  # fmt: skip
        return {leaf: np.array(values, np.float64) for leaf, *values in self.session.rows(statement)}


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


def _rounded(name: str, offsets: Mapping[int, float]) -> str:
    offset = _by_leaf({node: float_literal(value) for node, value in offsets.items()})
    return f"(({name} + {offset}) - {offset})"


def _by_leaf(values: Mapping[int, str]) -> str:
    return f"CASE leaf {' '.join(f'WHEN {node} THEN {value}' for node, value in values.items())} END"
