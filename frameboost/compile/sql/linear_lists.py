"""Linear leaves as lists, which are looked up by the row's leaf; in DuckDB.

DuckDB evaluates CASE by vectors of rows, each branch by itself: of 64 leaves with six slopes each, some thousand
operations on thirty rows each. Here each field of the leaves' first terms is a list over the leaves of a tree, and so
is each of the second terms, and so on; and a list of the row has its ``numbers``. A tree with one slope a leaf is

    CASE WHEN (missing[1] & features[leaf]) = 0
    THEN constant[leaf] + slope[leaf] * LEAST(GREATEST(steps - centre[leaf], low[leaf]), high[leaf])
    ELSE value[leaf] END

where the steps are ``numbers[feature[leaf]] * scale[leaf]``, rounded. ``missing`` has a bit for each missing number,
and ``features`` for each that the leaf reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.dialects.dialect import Dialect
from frameboost.expressions.grid import OFFSET_STEPS
from frameboost.trees.linear_leaves import LinearLeaf, LinearTerm
from frameboost.trees.tree import Tree

__all__ = ["LinearLists", "are_listed", "list_of"]

# Steps whose reciprocals are usual numbers, and steps from 0 that are whole numbers without rounding.
_SMALLEST_STEP, _LARGEST_STEP, _MOST_STEPS = 2.0**-1000, 2.0**1000, 2.0**50
# Bits of an integer of `LinearLists.missing`.
_BITS = 62
_NO_TERM = LinearTerm(-1, 0.0, 1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class LinearLists:
    """Trees with linear leaves.

    Attributes
    ----------
    positions
        The index of each feature in a row's numbers, from 1.
    """

    trees: Sequence[Tree]
    positions: Mapping[int, int]

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> LinearLists:
        """Return the lists of trees."""
        used = sorted({term.feature for tree in trees for term in _terms(tree)})
        return cls(trees, {feature: i for i, feature in enumerate(used, 1)})

    def of_row(self, columns: Sequence[FeatureColumn]) -> dict[str, str]:
        """Return the lists of a row: its numbers, finally a 0 that unused terms read, and bits of missing numbers."""
        used = [columns[feature] for feature in self.positions]
        numbers = [f"CASE WHEN {each.is_present()} THEN {each.dialect.cast(each.name, 'float64')} END" for each in used]
        bits = [f"CASE WHEN {each.is_present()} THEN 0 ELSE {1 << i % _BITS} END" for i, each in enumerate(used)]
        missing = [" + ".join(bits[first : first + _BITS]) for first in range(0, len(bits), _BITS)]
        return {"numbers": f"[{', '.join([*numbers, '0e0'])}]", "missing": f"CAST([{', '.join(missing)}] AS BIGINT[])"}

    def value(
        self, tree: Tree, leaves: Sequence[int], leaf: str, of_row: Mapping[str, str],
        number: Callable[[float, int], float], dialect: Dialect,
    ) -> str:  # fmt: skip
        """Return the value of a tree, as SQL over the index of a row's leaf, from 1, and the lists of the row.

        Parameters
        ----------
        leaves
            The leaves by their index.
        number
            A function from a number of an output to the one to write.
        """

        def of_leaf(values: Iterable[float], kind: str = "DOUBLE") -> str:
            return f"{list_of(values, kind)}[{leaf}]"

        linear = [tree.linear[node] or LinearLeaf(tree.value[node], ()) for node in leaves]
        total = [of_leaf(number(each.constant, tree.output) for each in linear)]
        for k in range(max(len(each.terms) for each in linear)):
            terms = [each.terms[k] if k < len(each.terms) else _NO_TERM for each in linear]
            position = of_leaf((self.positions.get(t.feature, len(self.positions) + 1) for t in terms), "BIGINT")
            offset = dialect.number(OFFSET_STEPS)
            steps = f"({of_row['numbers']}[{position}] * {of_leaf(1 / t.step for t in terms)} + {offset}) - {offset}"
            low, high, centre = (of_leaf(getattr(t, end) / t.step for t in terms) for end in ("low", "high", "centre"))
            slope = of_leaf(number(t.slope * t.step, tree.output) for t in terms)
            total.append(f"{slope} * {dialect.clipped(f'({steps}) - {centre}', low, high)}")
        read = [[self.positions[term.feature] - 1 for term in each.terms] for each in linear]
        present = []
        for word in sorted({bit // _BITS for bits in read for bit in bits}):
            mask = of_leaf((sum(1 << bit % _BITS for bit in bits if bit // _BITS == word) for bits in read), "BIGINT")
            present.append(f"({of_row['missing']}[{word + 1}] & {mask}) = 0")
        value = of_leaf(number(tree.value[node], tree.output) for node in leaves)
        return f"CASE WHEN {' AND '.join(present)} THEN {' + '.join(total)} ELSE {value} END"


def are_listed(tree: Tree, dialect: Dialect) -> bool:
    """Whether a tree's linear leaves are looked up in lists."""
    terms = _terms(tree)
    return bool(terms) and dialect.expressions.lambda_ is not None and all(map(_has_whole_steps, terms))


def _terms(tree: Tree) -> list[LinearTerm]:
    return [term for leaf in tree.linear_leaves().values() for term in leaf.terms]


def _has_whole_steps(term: LinearTerm) -> bool:
    """Whether a term's grid in steps is whole numbers, and the reciprocal of a step a usual number."""
    ends = max(abs(term.low + term.centre), abs(term.high + term.centre), abs(term.centre))
    return _SMALLEST_STEP < term.step < _LARGEST_STEP and ends < _MOST_STEPS * term.step


def list_of(values: Iterable[float], kind: str = "DOUBLE") -> str:
    """Return a constant list, as a string cast to it, which DuckDB plans faster than literals."""
    texts = (repr(int(value)) if value == int(value) and abs(value) < 2**63 else repr(value) for value in values)
    return f"CAST('[{','.join(texts)}]' AS {kind}[])"
