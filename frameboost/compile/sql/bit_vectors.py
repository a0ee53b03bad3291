"""A query that finds a row's leaves by a few lookups a feature instead of a CASE a tree (see `leaf_words`).

Each feature is made a code first, and the codes of several features a number where there are few of them. Then a small
table of each such group, with a row a number and a column a word, is joined: DuckDB finds the number in a hash table of
few rows, and the columns come as references, not as copies. The words are put together by AND, and say at which place
of a list a leaf's value is.

The lists and tables are no constants, which would be planned one by one, but text that the query itself unfolds. They
come from `unnest`, which DuckDB takes for a single row: so the user's rows never are the side that a join builds.

Rows come in any order, as joins on several threads hand them on: numbering them takes one thread, and sorting is more
work again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from frameboost.compile.sql.feature_codes import FeatureCode, Grid, feature_codes
from frameboost.compile.sql.feature_groups import FeatureGroup, feature_groups
from frameboost.compile.sql.leaf_words import MOST_LEVELS, Word, words_of
from frameboost.compile.sql.scoring_query import Scored, finish
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.trees.tree import Tree

__all__ = ["in_bit_vectors"]

_T = TypeVar("_T")

# Words that are worked on at a time, and tables joined in one SELECT.
_WORDS_AT_A_TIME, _JOINS_AT_A_TIME = 128, 4
# Bits of a place in a list of sums over trees that are not symmetric: such lists are copied for every 2,048 rows.
_MOST_BITS = 10


def in_bit_vectors(scored: Scored, stages: Stages, name: str, into: str = "") -> str:
    """Return the query that scores by bits of words (see the module)."""
    grown = [[tree for tree in of_output if len(tree) > 1] for of_output in scored.trees]
    alone = [sum(tree.value[0] for tree in of_output if len(tree) == 1) for of_output in scored.trees]
    trees = [tree for of_output in grown for tree in of_output]
    output_of = {id(tree): k for k, of_output in enumerate(grown) for tree in of_output}
    groups, words, sums = feature_groups(feature_codes(trees, scored.columns)), words_of(trees), dict[int, str]()
    rows = _Rows(stages, scored.dialect)
    numbers = rows.add_numbers(groups, [*(stages.keep or []), *(name for _, name in scored.base_columns)])
    for first in range(0, len(words), _WORDS_AT_A_TIME):
        some = words[first : first + _WORDS_AT_A_TIME]
        columns = rows.add_words(some, groups, numbers, keep_numbers=first + len(some) < len(words))
        columns = rows.below_leaves(some, columns)
        values = [one for word, column in zip(some, columns, strict=True) for one in _values(word, column, output_of)]
        sums = rows.add_values(values, columns, sums)
    margins = {}
    for k, (margin, base) in enumerate(zip(scored.output.margins, scored.bases, strict=True)):
        start = scored.dialect.number(alone[k] + (0.0 if isinstance(base, str) else base))  # on the grid, so exact
        total = scored.dialect.sum([start, *([sums[k]] if k in sums else [])])
        margins[margin] = f"({total} + {base})" if isinstance(base, str) else total
    return finish(scored, stages, margins, name, into)


# --- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _List:
    """A list that the query unfolds: its name, its items, and their type."""

    name: str
    items: Sequence[object]
    type_name: str


def _typed(items: Iterable[object], type_name: str) -> str:
    """Return a list as text that is read when the query runs: what is not a constant is not planned as one."""
    return f"CAST(unnest(['[{', '.join(map(str, items))}]']) AS {type_name}[])"


def _row_of(lists: Sequence[_List]) -> str:
    """Return a query of one row of lists, in which runs of the same item are written once."""
    plain, inner, outer = [], [], []
    for i, one in enumerate(lists):
        runs = _runs(one.items)
        if len(runs) > len(one.items) // 2:
            plain.append(f"{_typed(one.items, one.type_name)} AS {one.name}")
            outer.append(one.name)
            continue
        inner.append(f"{_typed([length for length, _ in runs], 'BIGINT')} AS n{i}")
        inner.append(f"{_typed([item for _, item in runs], one.type_name)} AS i{i}")
        repeated = f"list_resize(CAST([] AS {one.type_name}[]), p[1], p[2])"
        outer.append(f"flatten(list_transform(list_zip(n{i}, i{i}), lambda p: {repeated})) AS {one.name}")
    if not inner:
        return f"SELECT {', '.join(plain)}"
    return f"SELECT {', '.join(outer)} FROM (SELECT {', '.join([*plain, *inner])})"


def _runs(items: Iterable[_T]) -> list[tuple[int, _T]]:
    """Return how often in a row each item stands, and the item."""
    return [(len(list(same)), item) for item, same in groupby(items)]


# --- values of leaves -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Values:
    """Values of some trees' leaves, for one of the outputs, and at which place a row's sum of them is.

    Attributes
    ----------
    output
        Which of the outputs the trees add to.
    place
        The place in the list of all sums, as an expression.
    of_trees
        The values of each tree; those of the first tree change fastest in the list.
    """

    output: int
    place: str
    of_trees: tuple[tuple[float, ...], ...]


def _values(word: Word, column: str, output_of: Mapping[int, int]) -> Iterator[_Values]:
    if word.by_level:
        yield from _values_by_level(word, column, output_of)
        return
    together: list[tuple[int, list[_Place]]] = []
    for one in _places(word, column):
        output = output_of[id(one.tree)]
        if together and together[-1][0] == output and sum(p.bits for p in together[-1][1]) + one.bits <= _MOST_BITS:
            together[-1][1].append(one)
        else:
            together.append((output, [one]))
    for output, places in together:
        yield _side_by_side(output, places)


@dataclass(frozen=True)
class _Place:
    """At which place the value of a tree's leaf is, from 0, as a TINYINT; and the values, a power of two of them."""

    tree: Tree
    number: str
    values: tuple[float, ...]

    @property
    def bits(self) -> int:
        """How many bits a place takes."""
        return len(self.values).bit_length() - 1


def _places(word: Word, column: str) -> Iterator[_Place]:
    """Yield the places of a word's trees, which the number of bits below the leaf's says."""
    for one, shift in zip(word.fields, word.shifts(), strict=True):
        items = [one.tree.value[leaf] for leaf in one.leaves]
        if one.ends_in_none:  # then all higher bits are set
            last = 0.0 if one.is_part else items.pop()
            items += [0.0] * (64 - shift - len(items)) + [last]
        if len(word.fields) == 1:
            number = f"bit_count({column} - 1)"
        else:
            bits = -(1 << shift) if one.ends_in_none else ((1 << one.bits) - 1) << shift
            number = f"bit_count({column} & {bits})"
        size = 1 << (len(items) - 1).bit_length()
        yield _Place(one.tree, number, (*items, *[0.0] * (size - len(items))))


def _side_by_side(output: int, places: Sequence[_Place]) -> _Values:
    """Return the sums of trees whose places make one number, the last one's in its lowest bits."""
    bits = sum(place.bits for place in places)
    # Places are counted from the end, which takes no addition; DuckDB checks each for overflow.
    terms = [f"({-(1 << bits)})::{'TINYINT' if bits < 8 else 'SMALLINT'}"]
    for place in places:
        bits -= place.bits
        terms.append(f"({place.number}::SMALLINT << {bits})" if bits else place.number)
    return _Values(output, " | ".join(terms), tuple(place.values for place in reversed(places)))


def _values_by_level(word: Word, column: str, output_of: Mapping[int, int]) -> Iterator[_Values]:
    """Yield the sums of trees that stand side by side in a word, by all their bits together."""
    together: list[tuple[int, int, list[Tree]]] = []
    for one, shift in zip(word.fields, word.shifts(), strict=True):
        if together:
            start, bits, trees = together[-1]
            if bits + one.bits <= MOST_LEVELS and output_of[id(trees[0])] == output_of[id(one.tree)]:
                together[-1] = (start, bits + one.bits, [*trees, one.tree])
                continue
        together.append((shift, one.bits, [one.tree]))
    for start, bits, trees in together:
        values = (tuple(tree.value[leaf] for leaf in tree.leaves_in_order()) for tree in trees)
        yield _Values(output_of[id(trees[0])], f"{column} >> {start} | {-(1 << bits)}", tuple(values))


# --- stages -----------------------------------------------------------------------------------------------------------


class _Rows:
    """The rows on their way: the columns that are kept, and those of ours."""

    def __init__(self, stages: Stages, dialect: Dialect) -> None:
        self._stages = stages
        self._ours: list[str] = []
        (self._one,) = stages.reserve(1)
        self._types = dialect.types
        self._step({self._one: "1::FLOAT"})

    def _step(self, new: Mapping[str, str], tables: Sequence[str] = (), drop: Sequence[str] = ()) -> None:
        """Add a stage with new columns, from tables that are joined, and without some of ours."""
        stages = self._stages
        stay = [name for name in self._ours if name not in drop]
        columns, source = list(stages.reads), stages.source()
        if stages.keep is None:
            columns = [f"s.* EXCLUDE ({', '.join(self._ours)})" if self._ours else "*"]
        if self._ours:  # so there is a stage before, and no condition of the user's to be disturbed
            source = "\n".join([stages.source("s"), *tables])
        columns += [*stay, *(f"{value} AS {name}" for name, value in new.items())]
        self._ours = [*stay, *new]
        stages.replace(f"SELECT {', '.join(columns)}\n{source}", self._ours)

    def add_numbers(self, groups: Sequence[FeatureGroup], reads: Sequence[str]) -> list[str]:
        """Add the number of each group's codes, and return their names; of others pass on only ``reads``."""
        stages, reads = self._stages, list(dict.fromkeys(reads))
        grids = {f: grid for group in groups for f, code in group.codes.items() if (grid := code.grid) is not None}
        cells = dict(zip(grids, stages.reserve(len(grids)), strict=True))
        if cells:
            self._step({cells[feature]: grid.cell for feature, grid in grids.items()})
        lists, new = list[_List](), dict[str, str]()
        for group, name in zip(groups, stages.reserve(len(groups)), strict=True):
            # DuckDB guesses that a join keeps as many rows as the column it finds first in the condition has values. If
            # that were a feature, of a million values, it would build the other side; so it is our column of ones.
            terms = [self._one]
            for feature, code, stride in group.strides():
                if feature in grids:
                    text, own = self._within_cell(code, grids[feature], cells[feature], stride)
                    lists += own
                else:
                    text = code.sql() if stride == 1 else f"{stride}::FLOAT * {code.sql()}"
                terms.append(text)
            new[name] = f"CAST({' + '.join(terms)} AS {self._types[group.type_name]})"
        stages.reads = reads
        self._step(new, [f"CROSS JOIN ({_row_of(lists)})"] if lists else [], list(cells.values()))
        return list(new)

    def _within_cell(self, code: FeatureCode, grid: Grid, cell: str, scale: int) -> tuple[str, list[_List]]:
        """Return a code times a number, as an expression over its cell and lists that are known of cells; these too."""
        column = code.column
        below, *inside = self._stages.reserve(1 + grid.most_inside)
        lists = [_List(below, [one.below * scale for one in grid.cells], "FLOAT")]
        for i, name in enumerate(inside):
            edges = [one.inside[i] if i < len(one.inside) else grid.filler for one in grid.cells]
            lists.append(_List(name, edges, str(column.dialect.type_of(column.feature.type))))
        times = "" if scale == 1 else f"{scale}::FLOAT * "
        terms = [f"{below}[{cell}]", *(f"{times}CAST({column.value} >= {name}[{cell}] AS FLOAT)" for name in inside)]
        return code.if_present(" + ".join(terms), scale), lists

    def add_words(
        self, words: Sequence[Word], groups: Sequence[FeatureGroup], numbers: Sequence[str], *, keep_numbers: bool
    ) -> list[str]:
        """Add the words, and return their names; ``numbers`` are those of the groups."""
        codes = {feature: code for group in groups for feature, code in group.codes.items()}
        masks = [word.masks(codes) for word in words]
        names: dict[int, str] = {}
        both = list(zip(groups, numbers, strict=True))
        for first in range(0, len(both), _JOINS_AT_A_TIME):
            some = both[first : first + _JOINS_AT_A_TIME]
            terms: dict[int, list[str]] = {i: [name] for i, name in names.items()}
            tables = []
            for group, number in some:
                asked = [i for i, own in enumerate(masks) if not own.keys().isdisjoint(group.codes)]
                if not asked:
                    continue
                key, *columns = self._stages.reserve(1 + len(asked))
                of_words = {column: (words[i], masks[i]) for i, column in zip(asked, columns, strict=True)}
                table = _mask_table(group, of_words, key, self._types[group.type_name])
                tables.append(f"JOIN ({table}) ON {number} = {key}")
                for i, column in zip(asked, columns, strict=True):
                    terms.setdefault(i, []).append(column)
            changed = [i for i, of_word in terms.items() if len(of_word) > (i in names)]
            after = dict(zip(changed, self._stages.reserve(len(changed)), strict=True))
            new = {after[i]: words[i].sign.join(terms[i]) for i in changed}
            gone = [names[i] for i in changed if i in names]
            self._step(new, tables, [*gone, *([] if keep_numbers else [number for _, number in some])])
            names |= after
        return [names[i] for i in range(len(words))]

    def below_leaves(self, words: Sequence[Word], names: Sequence[str]) -> list[str]:
        """Set the bits below the leaf's in fields side by side; how many are set then says which leaf it is."""
        changed = [i for i, word in enumerate(words) if len(word.fields) > 1 and not word.by_level]
        if not changed:
            return list(names)
        after = dict(zip(changed, self._stages.reserve(len(changed)), strict=True))
        ones = [sum(1 << shift for shift in word.shifts()) for word in words]
        self._step({after[i]: f"{names[i]} - {ones[i]}" for i in changed}, drop=[names[i] for i in changed])
        return [after.get(i, name) for i, name in enumerate(names)]

    def add_values(self, values: Sequence[_Values], words: Sequence[str], so_far: Mapping[int, str]) -> dict[int, str]:
        """Add leaf values up by output, on to the sums so far, and return the names of the sums."""
        terms: dict[int, list[str]] = {}
        alike: dict[int, dict[str, _Values]] = {}  # by how many trees they are of
        for one, name in zip(values, self._stages.reserve(len(values)), strict=True):
            terms.setdefault(one.output, []).append(f"{name}[{one.place}]")
            alike.setdefault(len(one.of_trees), {})[name] = one
        after = dict(zip(terms, self._stages.reserve(len(terms)), strict=True))
        new = {after[k]: " + ".join([*([so_far[k]] if k in so_far else []), *own]) for k, own in terms.items()}
        gone = [*words, *(so_far[k] for k in terms if k in so_far)]
        self._step(new, [f"CROSS JOIN ({_lists_of_sums(n, some)})" for n, some in alike.items()], gone)
        return {**so_far, **after}


def _lists_of_sums(n_trees: int, values: Mapping[str, _Values]) -> str:
    """Return the query of a row of lists, by name: of values of so many trees each, the sums of one of each tree.

    One expression makes them all, in a list of lists; one for each would take longer to plan than to run.
    """
    sums = "p[1]"  # those of the first tree change fastest
    for i in range(2, n_trees + 1):
        sums = f"flatten(list_transform(p[{i}], lambda a{i}: list_transform({sums}, lambda b{i}: a{i} + b{i})))"
    trees = _typed(([list(tree) for tree in one.of_trees] for one in values.values()), "DOUBLE[][]")
    named = ", ".join(f"s[{i}] AS {name}" for i, name in enumerate(values, 1))
    return f"SELECT {named} FROM (SELECT list_transform(t, lambda p: {sums}) AS s FROM (SELECT {trees} AS t))"


def _mask_table(
    group: FeatureGroup, of_words: Mapping[str, tuple[Word, Mapping[int, npt.NDArray[np.uint64]]]], key: str, kind: str
) -> str:
    """Return the query of the table of a group: a row a number of its codes, from 1 on, a column a word."""
    tables = []
    for feature, code, stride in group.strides():
        asked = {name: masks[feature] for name, (_, masks) in of_words.items() if feature in masks}
        columns = [f"l[k + {i * code.count + 1}] AS {name}" for i, name in enumerate(asked)]
        numbers = [number for mask in asked.values() for number in mask.astype(np.int64).tolist()]
        tables.append(
            f"(SELECT {', '.join([f'k * {stride} AS k', *columns])} FROM ({_row_of([_List('l', numbers, 'BIGINT')])}) "
            f"CROSS JOIN (SELECT unnest(range({code.count})) AS k)) AS t{feature}"
        )
    number = " + ".join(["1", *(f"t{feature}.k" for feature in group.codes)])
    words = [
        f"{word.sign.join(f't{feature}.{name}' for feature in group.codes if feature in masks)} AS {name}"
        for name, (word, masks) in of_words.items()
    ]
    return f"SELECT {', '.join([f'CAST({number} AS {kind}) AS {key}', *words])} FROM {' CROSS JOIN '.join(tables)}"
