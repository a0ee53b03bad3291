"""Linear leaves as lists, which are looked up by the row's leaf; in DuckDB.

DuckDB evaluates CASE by vectors of rows, each branch by itself: of 64 leaves with six slopes each, some thousand
operations on thirty rows each. Here each field of the leaves' first terms is a list over the leaves of a tree, and so
is each of the second terms, and so on; and a list of the row has its ``numbers``. A tree with one slope a leaf is

    CASE WHEN (missing[1] & features[leaf]) = 0
    THEN constant[leaf] + slope[leaf] * LEAST(GREATEST(steps - centre[leaf], low[leaf]), high[leaf])
    ELSE value[leaf] END

where the steps are ``numbers[feature[leaf]] * scale[leaf]``, rounded. ``missing`` has a bit for each missing number,
and ``features`` for each that the leaf reads.

In stages (`LeafLists`) the lists are over the leaves of all trees, as DuckDB takes long to plan many lists, and trees
for all outputs read the numbers once: a stage has the clipped steps u of a tree's terms, and two indices, of constants
and of slopes. For a row that lacks a number these lead to the plain value and to a slope of 0. A tree is then

    constant[i] + slope_1[j] * u_1 + slope_2[j] * u_2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.dialects.dialect import Dialect
from frameboost.expressions.grid import OFFSET_STEPS
from frameboost.trees.linear_leaves import LinearLeaf, LinearTerm
from frameboost.trees.tree import Tree, shared_splits

__all__ = ["LeafGroup", "LeafLists", "LinearLists", "are_listed", "list_of"]

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
            terms = _slot([each.terms for each in linear], k)
            slope = of_leaf(number(t.slope * t.step, tree.output) for t in terms)
            total.append(f"{slope} * {_clipped_steps(self.fields(terms), of_row['numbers'], leaf, dialect)}")
        present = _present(self.masks([each.terms for each in linear]), of_row["missing"], leaf)
        value = of_leaf(number(tree.value[node], tree.output) for node in leaves)
        return f"CASE WHEN {present} THEN {' + '.join(total)} ELSE {value} END"

    def fields(self, terms: Sequence[LinearTerm]) -> dict[str, str]:
        """Return the lists of one term of each leaf, by name: what `_clipped_steps` reads."""
        unused = len(self.positions) + 1  # of `_NO_TERM`
        return {
            "position": list_of((self.positions.get(term.feature, unused) for term in terms), "BIGINT"),
            "scale": list_of(1 / term.step for term in terms),
            **{end: list_of(getattr(term, end) / term.step for term in terms) for end in ("centre", "low", "high")},
        }

    def masks(self, terms: Sequence[Sequence[LinearTerm]]) -> dict[int, str]:
        """Return the lists of bits of the numbers that leaves read, by the index of the integer in ``missing``."""
        bits = [[self.positions[term.feature] - 1 for term in of_leaf] for of_leaf in terms]
        return {
            word: list_of(
                (sum(1 << bit % _BITS for bit in of_leaf if bit // _BITS == word) for of_leaf in bits), "BIGINT"
            )
            for word in sorted({bit // _BITS for of_leaf in bits for bit in of_leaf})
        }


_FIELDS = ("position", "scale", "centre", "low", "high")


def _clipped_steps(fields: Mapping[str, str], numbers: str, leaf: str, dialect: Dialect) -> str:
    """Return the clipped steps of a term, from its lists by name, a row's numbers and the index of its leaf."""
    position, scale, centre, low, high = (f"{fields[name]}[{leaf}]" for name in _FIELDS)
    offset = dialect.number(OFFSET_STEPS)
    return dialect.clipped(f"(({numbers}[{position}] * {scale} + {offset}) - {offset}) - {centre}", low, high)


def _present(masks: Mapping[int, str], missing: str, leaf: str) -> str:
    """Return the condition that a row has all numbers of its leaf."""
    return " AND ".join(f"({missing}[{word + 1}] & {mask}[{leaf}]) = 0" for word, mask in masks.items())


def _slot(terms: Sequence[Sequence[LinearTerm]], k: int) -> list[LinearTerm]:
    """Return term ``k`` of each leaf, `_NO_TERM` for those with fewer."""
    return [of_leaf[k] if k < len(of_leaf) else _NO_TERM for of_leaf in terms]


class LeafLists:
    """The linear leaves of trees as lists over the leaves of all of them, for a query in stages.

    Parameters
    ----------
    trees, lists
        All trees, and the lists of a row.
    groups
        Trees of the same outputs.
    leaves
        The leaves of each group, in the order of the lists.
    number
        A function from a number of an output to the one to write.
    """

    def __init__(
        self, trees: Sequence[Tree], lists: LinearLists, groups: Sequence[LeafGroup], leaves: Sequence[Sequence[int]],
        number: Callable[[float, int], float],
    ) -> None:  # fmt: skip
        self._trees, self._lists, self._groups, self._leaves, self._number = trees, lists, groups, leaves, number
        self._terms = [group.terms.get(leaf, ()) for group, nodes in zip(groups, leaves, strict=True) for leaf in nodes]
        self._width, self._masks = max(map(len, self._terms)), lists.masks(self._terms)

    def of_leaves(self) -> dict[str, str]:
        """Return the lists by name."""
        named = {f"mask {word}": mask for word, mask in self._masks.items()}
        for k in range(self._width):
            named |= {f"{name} {k}": text for name, text in self._lists.fields(_slot(self._terms, k)).items()}
        for rank in range(len(self._groups[0].numbers)):
            constants, values, slopes = list[float](), list[float](), [list[float]() for _ in range(self._width)]
            for group, leaves in zip(self._groups, self._leaves, strict=True):
                tree = self._trees[group.numbers[rank]]
                for leaf in leaves:
                    linear = tree.linear[leaf] or LinearLeaf(tree.value[leaf], ())
                    constants.append(self._number(linear.constant, tree.output))
                    values.append(self._number(tree.value[leaf], tree.output))
                    for k, of_slot in enumerate(slopes):
                        term = linear.terms[k] if k < len(linear.terms) else _NO_TERM
                        of_slot.append(self._number(term.slope * term.step, tree.output))
            named[f"constant {rank}"] = list_of([*constants, *values])
            named |= {f"slope {rank} {k}": list_of([*of_slot, 0.0]) for k, of_slot in enumerate(slopes)}
        return named

    def of_rows(self, names: Mapping[str, str], dialect: Dialect) -> dict[str, str]:
        """Return for each row, by name, lists over its leaves: the clipped steps of their terms, and two indices.

        ``names`` are those of the lists, of `LinearLists.of_row`, and of ``leaves``, the row's indices, from 1.
        """
        n_leaves = len(self._terms)
        present = _present({word: names[f"mask {word}"] for word in self._masks}, names["missing"], "i")
        named = {
            "constant at": f"CASE WHEN {present} THEN i ELSE i + {n_leaves} END",
            "slope at": f"CASE WHEN {present} THEN i ELSE {n_leaves + 1} END",
        }
        for k in range(self._width):
            fields = {name: names[f"{name} {k}"] for name in _FIELDS}
            named[f"u {k}"] = _clipped_steps(fields, names["numbers"], "i", dialect)
        return {name: _each(text, names["leaves"]) for name, text in named.items()}

    def sum(self, rank: int, names: Mapping[str, str]) -> str:
        """Return the sum of the trees of a rank."""
        terms = [f"list_sum({_each(names[f'constant {rank}'] + '[i]', names['constant at'])})"]
        terms += [
            f"list_inner_product({_each(names[f'slope {rank} {k}'] + '[i]', names['slope at'])}, {names[f'u {k}']})"
            for k in range(self._width)
        ]
        return " + ".join(terms)


def _each(text: str, indices: str) -> str:
    return f"list_transform({indices}, lambda i: {text})"


class LeafGroup(NamedTuple):
    """Trees with the same splits and terms, which differ in constants and slopes alone.

    Attributes
    ----------
    numbers
        Their indices.
    terms
        The terms of their leaves, by node; the slopes are of one of the trees. A tree may have none in some leaves.
    """

    numbers: list[int]
    terms: dict[int, tuple[LinearTerm, ...]]

    @classmethod
    def of(cls, trees: Mapping[int, Tree]) -> list[LeafGroup]:
        """Return the groups of trees by index."""
        numbers = list(trees)
        shared = [[numbers[k] for k in group] for group in shared_splits(list(trees.values()))]
        alone = set(numbers).difference(*shared)
        groups: list[LeafGroup] = []
        for of_splits in (*shared, *([number] for number in numbers if number in alone)):
            alike: list[LeafGroup] = []
            for number in of_splits:
                terms = {leaf: linear.terms for leaf, linear in trees[number].linear_leaves().items()}
                group = next((each for each in alike if each._takes(terms)), None)
                if group is None:
                    alike.append(cls([number], terms))
                else:
                    group.numbers.append(number)
                    group.terms.update(terms)
            groups += alike
        return groups

    def _takes(self, terms: Mapping[int, tuple[LinearTerm, ...]]) -> bool:
        """Whether a tree's leaves have these terms where both have any."""
        return all(_grids(terms[leaf]) == _grids(self.terms[leaf]) for leaf in terms.keys() & self.terms.keys())


def _grids(terms: Iterable[LinearTerm]) -> list[LinearTerm]:
    return [term._replace(slope=0.0) for term in terms]


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
