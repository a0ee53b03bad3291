"""A model as input of the SQL compilers: trees over table columns, and outputs over sums of leaf values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice

import numpy as np

from frameboost.checks.messages import advice, shown
from frameboost.compile.sql.case import Step, TreeWriter, n_terms
from frameboost.compile.sql.conditions import FeatureColumn, renamed
from frameboost.compile.sql.simplified_trees import Known, simplified
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import LINE, Dialect
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.outputs import Output
from frameboost.trees.tree import Tree, TreeColumns

__all__ = ["OffsetColumn", "SqlModel", "check_labels"]

# Names and values in a piece of code that is compiled in well under a second.
_MAX_COMPILED = 1_000
# Nodes of a model whose SQL nobody reads, and of one whose long trees have a line for each branch.
_MIN_UNREAD, _MAX_IN_LINES = 2_000, 100
# Beyond what integers of 32 bits are.
_SHORT = 2.0**31
# The smallest step, whose literal is usual in every database.
_SMALLEST_STEP = 2.0**-400


@dataclass(frozen=True)
class OffsetColumn:
    """A column of an offset (see `frameboost.losses.loss.Offset`).

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
        """The number to add; NULL unless `is_known`."""
        number = self._number
        if self.is_exposure:
            number = self.dialect.call("LN", [number])
        elif self.dialect.expressions.is_number is None:
            return number
        return f"CASE WHEN {self.is_known}{LINE}THEN {number} END"

    @property
    def is_known(self) -> str:
        """The condition for a number to add: the column is neither NULL nor NaN, and an exposure is above 0."""
        is_number = self.dialect.expressions.is_number
        if self.is_exposure:
            is_above = f"{self._number} > {self.dialect.number(0.0)}"
            return is_above if is_number is None else f"{is_above}{LINE}AND ({is_number.format(x=self._number)})"
        return f"{self.name} IS NOT NULL" if is_number is None else f"({is_number.format(x=self._number)})"

    @property
    def _number(self) -> str:
        return self.dialect.cast(self.name, "float64")


@dataclass(frozen=True)
class SqlModel:
    """An output over margins, each of which is a base plus trees over columns of a table.

    The number of an output's lookup is treated as a margin without trees: the last of ``bases`` and ``trees``.

    Attributes
    ----------
    output
        The output over the margins.
    bases, trees
        The base, a number or SQL, and the trees of each margin.
    columns
        The columns of the features.
    offsets
        The offset columns, by margin index; empty without an offset.
    is_of_leaves
        Whether each margin is the leaf index of one tree.
    lookup_column
        The column of the output's lookup, or None.
    score_columns
        The quoted columns with sums of trees that bases contain.
    steps
        The step of each margin (see `TreeWriter`); empty to write plain values.
    known
        Facts about the features of the rows, by index.
    is_part
        Whether the trees are part of a model in several queries.
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
    steps: Sequence[Step] = ()
    known: Mapping[int, Known] = field(default_factory=dict)
    is_part: bool = False

    def renamed(self, names: Mapping[str, str]) -> SqlModel:
        """Return the model over renamed columns, all quoted."""
        if not names:
            return self
        offsets = [offset and replace(offset, name=names.get(offset.name, offset.name)) for offset in self.offsets]
        renamed_model = replace(self, columns=renamed(self.columns, names), offsets=offsets)
        if self.lookup_column is None:
            return renamed_model
        [column], n = renamed([self.lookup_column], names), len(self.output.margins)
        return replace(renamed_model, bases=self.bases[:n], trees=self.trees[:n]).with_lookup(column)

    def with_lookup(self, column: FeatureColumn) -> SqlModel:
        """Return the model with its output's lookup by this column."""
        lookup = self.output.lookup
        assert lookup is not None, "the output looks a number up"
        bases, trees = [*self.bases, column.number_of(lookup)], [*self.trees, []]
        return replace(self, bases=bases, trees=trees, lookup_column=column)

    def with_trees(self, trees: Mapping[int, Sequence[Tree]], known: Mapping[int, str], *, is_last: bool) -> SqlModel:
        """Return the part of the model with some trees, by margin index.

        Parameters
        ----------
        known
            Quoted columns with margins of earlier trees, by index; other margins have no earlier trees.
        is_last
            Whether the output is the model's; otherwise it is the margins of these trees, without offset.
        """
        model, n = self, len(self.output.margins)
        if not is_last:
            names = {k: self.output.margins[k] for k in sorted(trees)}
            values = tuple(Expression(name, (name,)) for name in names.values())
            output = Output(self.output.margins, (), values, names=tuple(map(str, names)))
            bases, cut = self.bases[:n], self.trees[:n]
            model = replace(self, output=output, bases=bases, trees=cut, offsets=(), lookup_column=None)
        read = {k: column for k, column in known.items() if is_last or k in trees}
        bases = [read.get(k, base) for k, base in enumerate(model.bases)]
        some = [trees.get(k, []) for k in range(len(bases))]
        columns = [*model.score_columns, *read.values()]
        return replace(model, bases=bases, trees=some, score_columns=columns, is_part=True)

    # --- trees and columns --------------------------------------------------------------------------------------------

    def every_tree(self) -> Sequence[Tree]:
        """Return the trees of all margins."""
        if len(self.trees) == 1:
            return self.trees[0]  # unchanged, possibly as columns
        return [tree for of_output in self.trees for tree in of_output]

    @cached_property
    def simplified(self) -> SqlModel:
        """The model with simplified trees for CASE expressions; trees without a split are merged into the bases."""
        each = iter(simplified(self.every_tree(), self.dialect, self.known))
        bases, trees = list(self.bases), [list(islice(each, len(of_margin))) for of_margin in self.trees]
        for k, (base, of_margin) in enumerate(zip(bases, trees, strict=True)):
            if not isinstance(base, str):
                constants = [tree for tree in of_margin if tree.is_leaf(0) and not tree.is_linear]
                bases[k] = base + sum(tree.value[0] for tree in constants)  # exact, as they are on one grid
                trees[k] = [tree for tree in of_margin if not tree.is_leaf(0) or tree.is_linear]
        simpler = replace(self, bases=bases, trees=trees)
        # Numbers of leaves are short, and those of a tree have no step of its own: trees have their output's.
        is_written_in_steps = simpler.is_unread and not self.is_of_leaves
        return replace(simpler, steps=_steps(bases, trees)) if is_written_in_steps else simpler

    @cached_property
    def tree_columns(self) -> TreeColumns:
        """The trees of all margins as arrays."""
        return TreeColumns.of(self.every_tree())

    @cached_property
    def depths(self) -> list[int]:
        """The depth of each tree of all margins."""
        return self.tree_columns.depths()

    @property
    def is_unread(self) -> bool:
        """Whether the SQL has too many trees to be read by people: then numbers and names are shortened."""
        return self.is_part or sum(map(len, self.every_tree())) >= _MIN_UNREAD

    @property
    def is_linear(self) -> bool:
        """Whether some leaf is linear."""
        return any(tree.is_linear for tree in self.every_tree())

    def used(self) -> list[str]:
        """Return the quoted columns that trees read, in conditions or slopes."""
        used = {feature for tree in self.every_tree() for feature in tree.used_features()}
        return [self.columns[feature].name for feature in sorted(used)]

    @property
    def read_besides(self) -> list[str]:
        """The quoted columns that are read beside those of trees."""
        looked_up = [] if self.lookup_column is None else [self.lookup_column.name]
        offsets = dict.fromkeys(offset.name for offset in self.offsets if offset is not None)
        return [*offsets, *self.score_columns, *looked_up]

    @cached_property
    def uncompiled(self) -> str | None:
        """A zero that keeps the database from compiling a large query as a whole."""
        template = self.dialect.expressions.uncompiled
        if template is None or sum(n_terms(tree, self.dialect) for tree in self.every_tree()) <= _MAX_COMPILED:
            return None
        used = self.used()
        return template.format(x=used[0]) if used else None

    # --- margins ------------------------------------------------------------------------------------------------------

    def margin(self, number: int) -> str:
        """Return a margin, or the number of the lookup, as one expression."""
        terms = list(map(self.writer.term, self.writer.terms(self.trees[number])))
        return self.total(number, [*terms, self.uncompiled] if terms and self.uncompiled else terms)

    def total(self, number: int, terms: Sequence[str]) -> str:
        """Return a margin, or the number of the lookup, from the sums of its trees as written."""
        base = self.bases[number]
        if not isinstance(base, str):
            return self.with_offset(number, self._in_units(number, self.dialect.sum([self.base(number), *terms])))
        trees = [self._in_units(number, self.dialect.sum(terms))] if terms and self.steps else terms
        return self.with_offset(number, self.dialect.sum([base, *trees]))

    def _in_units(self, number: int, margin: str) -> str:
        """Convert a number of steps of a margin to its units."""
        return f"({margin} * {self.dialect.number(self.steps[number].size)})" if self.steps else margin

    @cached_property
    def writer(self) -> TreeWriter:
        """The writer of the trees."""
        is_small = sum(map(len, self.every_tree())) <= _MAX_IN_LINES
        return TreeWriter(self.columns, self.dialect, self.steps, LINE if is_small else "")

    def base(self, number: int) -> str:
        """Return the start of a margin."""
        base = self.bases[number]
        return base if isinstance(base, str) else self.writer.literal(base, number)

    def with_offset(self, number: int, margin: str) -> str:
        """Return a margin plus its offset, which is added last because it is not on a grid."""
        offset = self.offsets[number] if number < len(self.offsets) else None
        return margin if offset is None else f"({margin} +{LINE}{offset.value})"

    # --- values over margins ------------------------------------------------------------------------------------------

    @property
    def uses_margins_once(self) -> bool:
        """Whether no margin is used twice, so that each value can be one expression over them."""
        if self.output.stages:  # as softmax has; to count the uses of each class by each other one would take long
            return False
        return all(sum(value.uses(margin) for value in self.output.values) <= 1 for margin in self.output.inputs)

    def value_columns(self, name: str) -> list[str]:
        """Return the names of the value columns: the name alone, or followed by indices or labels."""
        if len(self.output.values) == 1:
            return [name]
        return [f"{name}_{which}" for which in self.output.names or range(len(self.output.values))]

    def named_values(self, known: Mapping[str, str], name: str) -> dict[str, str]:
        """Return the values over ``known`` margins and stages, by column name.

        Raises
        ------
        ParameterError
            If the database can't have columns with these labels.
        """
        values, columns = self.values(known), self.value_columns(name)
        if self.output.names:
            check_labels(columns, self.dialect)
        return dict(zip(columns, values, strict=True))

    def values(self, known: Mapping[str, str]) -> list[str]:
        """Return the user's values over ``known`` margins and stages: classes as numbers or labels.

        Without a valid offset the margin is NULL, and so are the values that depend on it: comparisons with NULL would
        take ELSE, and GREATEST and LEAST ignore NULL in PostgreSQL and Redshift.
        """
        output, dialect = self.output, self.dialect
        labels = {name: dialect.label(label) for name, label in output.labels.items()}
        typed = [value.to_sql({**known, **labels}, dialect) for value in output.values]
        if output.is_class and not labels:
            typed = [dialect.cast(value, "int64") for value in typed]
        starts = ["" if offset is None else offset.is_known for offset in self.offsets]
        if not starts:
            return typed
        behind = output.margins_behind()
        return [
            value if expression.text in output.margins else _where_known(value, [starts[k] for k in numbers])
            for value, expression, numbers in zip(typed, output.values, behind, strict=True)
        ]

    def value(self, margins: Sequence[str]) -> str:
        """Return the output for rows with those margins: a number, a class, a list, or a struct by label.

        Raises
        ------
        ParameterError
            If the dialect needs more than one expression.
        """
        output, dialect = self.output, self.dialect
        by_name = dict(zip(output.inputs, margins, strict=True))
        array, lambda_ = dialect.expressions.array, dialect.expressions.lambda_
        if len(output.values) == 1 and self.uses_margins_once:
            return self.values(by_name)[0]
        if lambda_ is None:
            if not output.stages and array is not None and all(v.uses(m) <= 1 for v in output.values for m in by_name):
                return array.format(v=", ".join(self.values(by_name)))
            what = "several values" if len(output.values) > 1 else "a value that uses the margin several times"
            raise ParameterError(
                f"the output is {what}, which is not a single expression in {dialect.name}; use "
                f"{advice('model.query', '--table')}"
            )
        # A lambda's parameter m is computed once, however often it is used; each stage hands a longer list to the next:
        # list_transform([list_transform([[a, b]], lambda m: [m[1], m[2], m[1] + m[2]])[1]], lambda m: m[1] / m[3])[1].
        names, steps = list(output.inputs), []
        for stage in output.stages:
            known = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
            steps.append([*known.values(), *(e.to_sql(known, dialect) for e in stage.values())])
            names += stage
        sql = f"[{', '.join(margins)}]"
        for step in steps:
            sql = lambda_.format(x=f"[{sql}]", value=f"[{', '.join(step)}]")
        values = self.values({name: f"m[{i + 1}]" for i, name in enumerate(names)})
        return lambda_.format(x=f"[{sql}]", value=self._together(values))

    def _together(self, values: Sequence[str]) -> str:
        """Return the values as one: a struct if they have names, or a list."""
        struct, names = self.dialect.expressions.struct, self.output.names
        if not names or struct is None:
            return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
        check_labels(names, self.dialect)
        fields = (f"{self.dialect.string(name)}: {value}" for name, value in zip(names, values, strict=True))
        return struct.format(v=", ".join(fields))

    def staged_values(self, stages: Stages, margins: dict[str, str], name: str) -> dict[str, str]:
        """Add the output's stages, and return the values by name; ``margins`` are SQL over the last of ``stages``."""
        known = margins if self.uses_margins_once else stages.name(margins, often=True)
        for stage in self.output.stages:
            known |= stages.name({key: value.to_sql(known, self.dialect) for key, value in stage.items()}, often=True)
        return self.named_values(known, name)


def _steps(bases: Sequence[float | str], trees: Sequence[Sequence[Tree]]) -> tuple[Step, ...]:
    """Return the largest power of two that divides the base and all leaf values of each margin.

    Values and their sums are at most 2^53 steps, as they are on a grid (see `frameboost.trees.tree`): integers with
    fewer digits, and exact sums.
    """
    steps = []
    for base, of_margin in zip(bases, trees, strict=True):
        leaves = [[tree.value[leaf] for leaf in tree.leaves()] for tree in of_margin]
        linear = [[*tree.linear_leaves().values()] for tree in of_margin]
        terms = [[leaf.constant, *(term.slope * term.step for term in leaf.terms)]
                 for leaf in chain.from_iterable(linear)]  # fmt: skip
        start = 0.0 if isinstance(base, str) else base  # SQL is added in the units of the margin
        values = np.array([start, *chain.from_iterable([*leaves, *terms])])
        mantissas, exponents = np.frexp(values[values != 0.0])
        integers = (mantissas * 2.0**53).astype(np.int64)
        lowest = np.frexp(integers & -integers)[1] - 1 - 53 + exponents
        step = 2.0 ** int(lowest.min()) if len(lowest) else 1.0
        largest = abs(start) + sum(
            max([*map(abs, of_tree), *(leaf.largest() for leaf in of_linear)])
            for of_tree, of_linear in zip(leaves, linear, strict=True)
        )
        if not (step >= _SMALLEST_STEP and largest <= 2.0**53 * step):
            return ()
        steps.append(Step(step, is_short=not terms and largest < _SHORT * step))
    return tuple(steps)


def _where_known(value: str, starts: Sequence[str]) -> str:
    known = f"{LINE}AND ".join(start for start in dict.fromkeys(starts) if start)
    return f"CASE{LINE}WHEN {known}{LINE}THEN {value} END" if known else value


def check_labels(names: Sequence[str], dialect: Dialect) -> None:
    """Raise `ParameterError` if names that end in labels are invalid in the database."""
    instead = "output='mean' has columns without labels in their names"
    seen: dict[str, str] = {}
    for name in names:
        try:
            dialect.quote(name)
        except ParameterError as error:
            raise ParameterError(f"{error}; {instead}") from error
        other = seen.setdefault(name.lower() if dialect.names.any_case else name, name)
        if other != name:
            raise ParameterError(
                f"the labels would name columns {shown(other)} and {shown(name)}, which are one name in "
                f"{dialect.name}; {instead}"
            )
