"""A query that finds a row's leaves by a few lookups a feature instead of a CASE a tree (see `leaf_words`).

Each feature is made a code first. Then a small table of each feature, with a row a code and a column a word, is joined:
DuckDB finds the code in a hash table of a few rows, and the columns come as references, not as copies. The words are
put together by AND, and say at which place of a list a leaf's value is.

That costs about as much for each feature that a word's trees ask about as CASE for four splits. So it is for complete
trees; where a tree asks most features only once or twice, ``form="case"`` is faster.

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

from frameboost.compile.feature_codes import FeatureCode, Grid, feature_codes
from frameboost.compile.leaf_words import MOST_LEVELS, Word, words_of
from frameboost.compile.scoring_sql import Scored, finish
from frameboost.compile.stages import Stages
from frameboost.tree import Tree

__all__ = ["in_bit_vectors"]

_T = TypeVar("_T")

# Words that are worked on at a time, and tables joined in one SELECT.
_WORDS_AT_A_TIME, _JOINS_AT_A_TIME = 128, 4
# Of so many words a join is worth its while; a join takes about as long as three lookups in lists.
_FEWEST_JOINED = 3
# Places in the lists of trees that are not symmetric.
_MOST_STATES = 128


def in_bit_vectors(scored: Scored, stages: Stages, name: str, into: str = "") -> str:
    """Return the query that scores by bits of words (see the module)."""
    grown = [[tree for tree in of_output if len(tree) > 1] for of_output in scored.trees]
    alone = [sum(tree.value[0] for tree in of_output if len(tree) == 1) for of_output in scored.trees]
    trees = [tree for of_output in grown for tree in of_output]
    output_of = {id(tree): k for k, of_output in enumerate(grown) for tree in of_output}
    codes, words, sums = feature_codes(trees, scored.columns), words_of(trees), dict[int, str]()
    rows = _Rows(stages)
    named = rows.add_codes(codes, [*(stages.keep or []), *(name for _, name in scored.base_columns)])
    for first in range(0, len(words), _WORDS_AT_A_TIME):
        some = words[first : first + _WORDS_AT_A_TIME]
        columns = rows.add_words(some, codes, named, keep_codes=first + len(some) < len(words))
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
    for one, shift in zip(word.fields, word.shifts(), strict=True):
        items = [one.tree.value[leaf] for leaf in one.leaves]
        if one.ends_in_none:  # then all higher bits are set
            last = 0.0 if one.is_part else items.pop()
            items += [0.0] * (64 - shift - len(items)) + [last]
        # Places are counted from the end, which takes no addition; DuckDB checks each for overflow.
        if len(word.fields) == 1:
            place = f"bit_count({column} - 1) | ({-_MOST_STATES})::TINYINT"
        else:
            bits = -(1 << shift) if one.ends_in_none else ((1 << one.bits) - 1) << shift
            place = f"bit_count({column} & {bits}) | ({-_MOST_STATES})::TINYINT"
        items += [0.0] * (_MOST_STATES - len(items))
        yield _Values(output_of[id(one.tree)], place, (tuple(items),))


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

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._ours: list[str] = []
        (self._one,) = stages.reserve(1)
        self._step({self._one: "1::UTINYINT"})

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

    def _place(self, number: str) -> str:
        """Return a number from 0 as a place from 1, as one to join by.

        DuckDB guesses that a join keeps as many rows as the column it finds first in the condition has values. If that
        were a feature, of a million values, it would expect next to no row to find its number in a small table, and
        would build the other side.
        """
        return f"{self._one} + {number}"

    def add_codes(self, codes: Mapping[int, FeatureCode], reads: Sequence[str]) -> dict[int, str]:
        """Add the place of each feature's code, from 1, and return their names; of others pass on only ``reads``."""
        stages, grids = self._stages, {feature: code.grid for feature, code in codes.items()}
        names = dict(zip(codes, stages.reserve(len(codes)), strict=True))
        plain = {f: code.sql() if (grid := grids[f]) is None else grid.cell for f, code in codes.items()}
        if not any(grids.values()):
            stages.reads = list(dict.fromkeys(reads))
        self._step({names[f]: self._place(value) if grids[f] is None else value for f, value in plain.items()})
        new, lists = {}, list[_List]()
        for feature, grid in grids.items():
            if grid is not None:
                (name,) = stages.reserve(1)
                new[name], own = self._within_cell(codes[feature], grid, names[feature])
                lists += own
                names[feature] = name
        if new:
            gone = [name for name in self._ours if name not in (self._one, *names.values())]
            stages.reads = list(dict.fromkeys(reads))
            self._step(new, [f"CROSS JOIN ({_row_of(lists)})"], gone)
        return names

    def _within_cell(self, code: FeatureCode, grid: Grid, cell: str) -> tuple[str, list[_List]]:
        """Return the place of a code, as an expression over its cell and lists of what is known of cells; these too."""
        column, dialect = code.column, code.column.dialect
        kind, type_ = str(dialect.type_of(column.feature.type)), dialect.types[code.type_name]
        below, *inside = self._stages.reserve(1 + grid.most_inside)
        lists = [_List(below, [one.below + 1 for one in grid.cells], type_)]
        for i, name in enumerate(inside):
            edges = [one.inside[i] if i < len(one.inside) else grid.filler for one in grid.cells]
            lists.append(_List(name, edges, kind))
        terms = [f"{below}[{cell}]", *(f"CAST({column.value} >= {name}[{cell}] AS {type_})" for name in inside)]
        return f"COALESCE({' + '.join(terms)}, {code.count}::{type_})", lists

    def add_words(
        self, words: Sequence[Word], codes: dict[int, FeatureCode], named: Mapping[int, str], *, keep_codes: bool
    ) -> list[str]:
        """Add the words, and return their names."""
        masks = [word.masks(codes) for word in words]
        names: dict[int, str] = {}
        asked = {feature: [i for i, own in enumerate(masks) if feature in own] for feature in codes}
        joined = [feature for feature, places in asked.items() if len(places) >= _FEWEST_JOINED]
        looked_up = [feature for feature, places in asked.items() if 0 < len(places) < _FEWEST_JOINED]
        groups = [joined[i : i + _JOINS_AT_A_TIME] for i in range(0, len(joined), _JOINS_AT_A_TIME)]
        for some in [*groups, *([looked_up] if looked_up else [])]:
            terms: dict[int, list[str]] = {i: [name] for i, name in names.items()}
            tables, lists = [], list[_List]()
            for feature in some:
                own = {i: masks[i].pop(feature) for i in asked[feature]}
                key, *columns = self._stages.reserve(1 + len(own))
                if some is looked_up:
                    lists += [_List(name, mask, "BIGINT") for name, mask in zip(columns, _signed(own), strict=True)]
                    columns = [f"{name}[{named[feature]}]" for name in columns]
                else:
                    table = _mask_table(codes[feature], _signed(own), key, columns)
                    tables.append(f"JOIN ({table}) ON {named[feature]} = {key}")
                for i, column in zip(own, columns, strict=True):
                    terms.setdefault(i, []).append(column)
            changed = [i for i, of_word in terms.items() if len(of_word) > (i in names)]
            after = dict(zip(changed, self._stages.reserve(len(changed)), strict=True))
            new = {after[i]: f" {'|' if words[i].by_level else '&'} ".join(terms[i]) for i in changed}
            gone = [names[i] for i in changed if i in names]
            tables += [f"CROSS JOIN ({_row_of(lists)})"] if lists else []
            self._step(new, tables, [*gone, *([] if keep_codes else [named[feature] for feature in some])])
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
        lists, sums = list[_List](), list[str]()
        for one in values:
            name, *of_trees = self._stages.reserve(1 + len(one.of_trees))
            terms.setdefault(one.output, []).append(f"{name}[{one.place}]")
            lists += [
                _List(part, list(map(repr, items)), "DOUBLE")
                for part, items in zip(of_trees, one.of_trees, strict=True)
            ]
            sums.append(f"{_all_sums(of_trees)} AS {name}")
        after = dict(zip(terms, self._stages.reserve(len(terms)), strict=True))
        new = {after[k]: " + ".join([*([so_far[k]] if k in so_far else []), *own]) for k, own in terms.items()}
        gone = [*words, *(so_far[k] for k in terms if k in so_far)]
        self._step(new, [f"CROSS JOIN (SELECT {', '.join(sums)} FROM ({_row_of(lists)}))"], gone)
        return {**so_far, **after}


def _all_sums(lists: Sequence[str]) -> str:
    """Return the list of all sums of an item of each of the lists; those of the first change fastest."""
    sums = lists[0]
    for i, name in enumerate(lists[1:]):
        sums = f"flatten(list_transform({name}, lambda a{i}: list_transform({sums}, lambda b{i}: a{i} + b{i})))"
    return sums


def _signed(masks: Mapping[int, npt.NDArray[np.uint64]]) -> list[list[int]]:
    return [mask.astype(np.int64).tolist() for mask in masks.values()]


def _mask_table(code: FeatureCode, masks: Sequence[Sequence[int]], key: str, names: Sequence[str]) -> str:
    """Return the query of the table of a feature: a row a code, a column a word."""
    kind = code.column.dialect.types[code.type_name]
    columns = ", ".join(f"l[k + {i * code.count}] AS {name}" for i, name in enumerate(names))
    lists = _row_of([_List("l", [number for mask in masks for number in mask], "BIGINT")])
    return (
        f"SELECT CAST(k AS {kind}) AS {key}, {columns} "
        f"FROM ({lists}) CROSS JOIN (SELECT unnest(range(1, {code.count + 1})) AS k)"
    )
