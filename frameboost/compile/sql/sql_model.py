"""A model as SQL needs it: trees over the columns of a table, and what their sums say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from frameboost.compile.sql.case import margin_sql, n_terms
from frameboost.compile.sql.conditions import FeatureColumn, renamed
from frameboost.compile.sql.lookups import lookup_sql
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.tree_columns import TreeColumns
from frameboost.losses.outputs import Output
from frameboost.trees.tree import Tree

__all__ = ["OffsetColumn", "SqlModel"]

# Names and values in a piece of code that is compiled in well under a second.
_MAX_COMPILED = 1_000


@dataclass(frozen=True)
class OffsetColumn:
    """A column that is added to a margin (see `frameboost.losses.offset.Offset`).

    Attributes
    ----------
    name
        The column, quoted.
    is_exposure
        Whether its logarithm is added.
    """

    name: str
    is_exposure: bool
    dialect: Dialect

    @property
    def value(self) -> str:
        """What is added; NULL unless `is_known`."""
        number = self._number
        if self.is_exposure:
            number = self.dialect.call("LN", [number])
        elif self.dialect.expressions.is_number is None:
            return number
        return f"CASE WHEN {self.is_known} THEN {number} END"

    @property
    def is_known(self) -> str:
        """The condition under which a number is added: the column is neither NULL nor NaN, and an exposure above 0."""
        is_number = self.dialect.expressions.is_number
        if self.is_exposure:
            is_above = f"{self._number} > {self.dialect.number(0.0)}"
            return is_above if is_number is None else f"{is_above} AND ({is_number.format(x=self._number)})"
        return f"{self.name} IS NOT NULL" if is_number is None else f"({is_number.format(x=self._number)})"

    @property
    def _number(self) -> str:
        return self.dialect.cast(self.name, "float64")


@dataclass(frozen=True)
class SqlModel:
    """An output over margins, each of which is a base plus trees over columns of a table.

    A number that the output looks up by a column is like a margin without trees: the last of ``bases`` and ``trees``.

    Attributes
    ----------
    output
        What is returned of the margins.
    bases, trees
        For each margin its base, a number or SQL, and its trees.
    columns
        The columns of the features.
    offsets
        The columns that are added to the margins, by number; empty if none is.
    is_of_leaves
        Whether each margin is the number of the leaf in one tree.
    lookup_column
        The column that a number is looked up by; None if none is.
    score_columns
        The columns, quoted, of sums of trees that bases have in them.
    """

    output: Output
    bases: Sequence[float | str]
    trees: Sequence[Sequence[Tree]]
    columns: Sequence[FeatureColumn]
    dialect: Dialect
    offsets: Sequence[OffsetColumn | None] = ()
    is_of_leaves: bool = False
    lookup_column: FeatureColumn | None = None
    score_columns: Sequence[str] = ()

    @property
    def starts(self) -> list[str]:
        """The conditions, by margin, under which what is added to it is known; empty if nothing is added."""
        return ["" if offset is None else offset.is_known for offset in self.offsets]

    @property
    def read_besides(self) -> list[str]:
        """The columns, quoted, that are read besides those that trees ask about."""
        looked_up = [] if self.lookup_column is None else [self.lookup_column.name]
        offsets = dict.fromkeys(offset.name for offset in self.offsets if offset is not None)
        return [*offsets, *self.score_columns, *looked_up]

    def margin(self, number: int) -> str:
        """Return a margin, or the number that is looked up, as one expression."""
        if not self.trees[number] and isinstance(base := self.bases[number], str):
            return self.with_offset(number, base)
        margin = margin_sql(self.bases[number], self.trees[number], self.columns, self.dialect)
        return self.with_offset(number, f"({margin}\n + {self.uncompiled})" if self.uncompiled else margin)

    def with_offset(self, number: int, margin: str) -> str:
        """Return a margin of base and trees with what is added to it: last, as it is on no grid."""
        offset = self.offsets[number] if number < len(self.offsets) else None
        return margin if offset is None else f"({margin}\n + {offset.value})"

    def renamed(self, names: Mapping[str, str]) -> SqlModel:
        """Return the same over columns of other names, all quoted."""
        if not names:
            return self
        offsets = [each and replace(each, name=names.get(each.name, each.name)) for each in self.offsets]
        renamed_model = replace(self, columns=renamed(self.columns, names), offsets=offsets)
        if self.lookup_column is None:
            return renamed_model
        [column], n = renamed([self.lookup_column], names), len(self.output.margins)
        return replace(renamed_model, bases=self.bases[:n], trees=self.trees[:n]).with_lookup(column)

    def with_lookup(self, column: FeatureColumn) -> SqlModel:
        """Return the model with the number that its output looks up by a column."""
        lookup = self.output.lookup
        assert lookup is not None, "the output looks a number up"
        number = lookup_sql(lookup, column)
        return replace(self, bases=[*self.bases, number], trees=[*self.trees, []], lookup_column=column)

    @cached_property
    def uncompiled(self) -> str | None:
        """A zero that keeps the database from compiling all into one piece of code, where there is much."""
        template = self.dialect.expressions.uncompiled
        if template is None or sum(n_terms(tree, self.dialect) for tree in self.every_tree()) <= _MAX_COMPILED:
            return None
        used = self.used()
        return template.format(x=used[0]) if used else None

    def every_tree(self) -> Sequence[Tree]:
        """Return the trees of all margins."""
        if len(self.trees) == 1:
            return self.trees[0]  # as it is, which may be by columns
        return [tree for of_output in self.trees for tree in of_output]

    @cached_property
    def tree_columns(self) -> TreeColumns:
        """The trees of all margins as arrays."""
        return TreeColumns.of(self.every_tree())

    @cached_property
    def depths(self) -> list[int]:
        """The depth of each tree of all margins."""
        return self.tree_columns.depths()

    def used(self) -> list[str]:
        """Return the columns that some tree asks about, or has slopes of, quoted."""
        asked = {feature for tree in self.every_tree() for feature in tree.used_features()}
        return [self.columns[feature].name for feature in sorted(asked)]
