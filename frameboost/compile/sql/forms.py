"""The query that scores a table: its forms, their sizes relative to a database's limits, and the choice of one.

- ``case``: one expression per value
- ``staged``: common table expressions that sum trees in columns and reuse values
- ``sorted``: one of these two over sorted rows, where CASE skips most
- ``lists``: the nodes of all trees as lists (`frameboost.compile.sql.node_lists`)
- ``table``: a short query over a table of the trees (`frameboost.compile.sql.tree_table`)
- ``by_key``: trees that read one dimension of a star, scored once per row of it (`frameboost.database.star`), others by
  ``auto``
- ``auto``: the first of ``case``, ``staged`` and ``table`` within the limits of the database; in DuckDB the fastest for
  a number of rows (`frameboost.compile.sql.costs`)
"""

from __future__ import annotations

import inspect
import math
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, get_args, get_type_hints

import duckdb

from frameboost.checks.messages import advice, shown
from frameboost.compile.sql.case import case_depth, n_terms
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.costs import fastest_form
from frameboost.compile.sql.node_lists import MAX_LEVELS, NodeLists
from frameboost.compile.sql.simplified_trees import simplified
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.staged_trees import shared_groups, staged_trees
from frameboost.compile.sql.stages import Stages, TableSource, unlike
from frameboost.compile.sql.tree_table import values_over_table
from frameboost.data.plans import estimated_rows
from frameboost.dialects.dialect import Dialect, Limits
from frameboost.errors import ParameterError, TooLargeError
from frameboost.losses.outputs import ScoreName
from frameboost.runtime.interrupts import when_free
from frameboost.schema.types import Physical
from frameboost.trees.linear_leaves import refuse_linear
from frameboost.trees.tree import LEAF, Tree

__all__ = [
    "FORMS", "Destination", "Form", "QueryArguments", "QueryOptions", "Rows", "ScoringQuery",
    "check_size", "chosen_form", "exceeded_limit", "filled_columns", "with_options",
]  # fmt: skip

Form = Literal["auto", "by_key", "case", "lists", "sorted", "staged", "table"]
FORMS: tuple[str, ...] = get_args(Form)
Rows = int | duckdb.DuckDBPyConnection
# Some of the trees of each margin, by its number.
_Run = dict[int, list[Tree]]

# Trees in one column of a stage: few enough for the compilers of expressions, enough to keep columns few.
_TREES_A_COLUMN = 50
# Nodes of a tree that splits once.
_OF_ONE_SPLIT = 3
# Columns of a stage for what slopes multiply, and the step from which on its reciprocal is a usual number.
_MOST_IN_STEPS, _SMALLEST_STEP = 100, 2.0**-400
# Names and values that are left for the columns that a stage passes on.
_ROOM = 5_000
# The beginning of a common table expression.
_STAGE = re.compile(r"^(?:WITH )?\w*stage_\d+ AS ", re.MULTILINE)
# The part of the text of a query of a chain that is left for what it has besides trees.
_ROOM_OF_TEXT = 8


@dataclass(frozen=True)
class QueryOptions:
    """Options of a scoring query beside the table; see `frameboost.Model.query`."""

    keep: Sequence[str] | None = None
    where: str | Mapping[str, Any] | None = None
    output: ScoreName = "mean"
    name: str = "prediction"
    form: Form = "auto"
    trees: str | None = None
    rows: Rows | None = None
    stamp: bool = False


class QueryArguments(TypedDict, total=False):
    """The fields of `QueryOptions` as keyword arguments, for type checkers and editors."""

    keep: Sequence[str] | None
    where: str | Mapping[str, Any] | None
    output: ScoreName
    name: str
    form: Form
    trees: str | None
    rows: Rows | None
    stamp: bool


P = ParamSpec("P")
R = TypeVar("R")


def with_options(kind: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show the fields of a dataclass of options in the signature and annotations of a method."""

    def decorated(method: Callable[P, R]) -> Callable[P, R]:
        signature, types = inspect.signature(method), get_type_hints(kind)
        declared = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = [
            inspect.Parameter(
                option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=types[option.name]
            )
            for option in fields(kind)
        ]
        method.__signature__ = signature.replace(parameters=[*declared, *options])  # type: ignore[attr-defined]
        method.__annotations__ = {p.name: p.annotation for p in (*declared, *options) if p.annotation is not p.empty}
        method.__annotations__["return"] = signature.return_annotation
        return method

    return decorated


@dataclass(frozen=True)
class Destination:
    """The destination of a scoring query's result: a view or table of a quoted name, or (by default) the caller.

    ``replace`` allows an existing view or table.
    """

    kind: Literal["query", "view", "table"] = "query"
    name: str = ""
    replace: bool = False

    def into(self, dialect: Dialect) -> str:
        """Return the clause before FROM that creates a table, in databases with SELECT … INTO."""
        return f"INTO {self.name}\n" if self.kind == "table" and dialect.statements.selects_into else ""

    def statements(self, query: str, dialect: Dialect) -> list[str]:
        """Return the complete statements for a query with the clause; most databases need one."""
        if self.kind == "query" or self.into(dialect):
            return [query]
        known = dialect.statements
        if self.kind == "table":
            templates = [known.replace_table if self.replace and known.replace_table else known.create_table]
        else:
            templates = list(known.replace_view) if self.replace else [known.create_view]
        return [template.format(name=self.name, query=query) for template in templates]

    def longest(self, query: str, dialect: Dialect) -> str:
        """Return the longest of these statements."""
        return max(self.statements(query, dialect), key=len)


# --- the choice of a form ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoringQuery:
    """The query that scores a source of rows, or the statement that creates a view or table from it.

    ``end`` returns the query from the stages and the values by name, if it does not end in the scores. ``stamp`` are
    values by name that follow the scores. ``after`` is that of `Stages`. ``passed`` are quoted columns that ``end``
    returns beside those that are kept and read. ``call`` is the method of `frameboost.DatabaseModel` that accepts a
    table of trees, for messages; by default that of the destination.
    """

    model: SqlModel
    source: TableSource
    options: QueryOptions
    destination: Destination
    end: Callable[[Stages, Mapping[str, str]], str] | None = None
    stamp: Mapping[str, str] = field(default_factory=dict)
    after: Stages | None = None
    passed: Sequence[str] = ()
    call: str = ""

    def text(self) -> str:
        """Return the query in the form of the options, or in the form chosen by ``auto``.

        Raises
        ------
        ParameterError
            As `fitting`.
        TooLargeError
            If no form fits, with the sizes.
        """
        query, too_large = self.fitting()
        if too_large:
            raise TooLargeError(too_large)
        return self.destination.longest(query, self.model.dialect)

    def fitting(self) -> tuple[str, str]:
        """Return the query and an empty string, or the reason why none is within the limits, and alternatives.

        Raises
        ------
        ParameterError
            If the result has too many columns or duplicates, or the model does not support the form.
        """
        self._check_columns()
        model, dialect, form, trees_table = self.model, self.model.dialect, self.options.form, self.options.trees
        n_rows = self._n_rows()
        if form == "table" and trees_table is None:
            raise ParameterError(
                "form='table' needs trees, the name of the table that "
                f"{advice('table_statements', '--statements')} fills"
            )
        fastest = chosen_form(model, form, n_rows)
        is_view, fits_otherwise = self.destination.kind == "view", False
        noun = "view" if is_view else "query"
        reason = ""
        simpler = self
        if fastest != "lists":
            simpler = replace(self, model=model.simplified)
        elif model.known:  # else lists take as long to simplify as to plan
            simpler = replace(self, model=replace(model.simplified, steps=()))
        for write, trees, in_one in simpler._without_table(fastest):
            try:
                query = write()
            except TooLargeError as error:  # of its columns or stages
                reason = str(error)
                continue
            if query is None:
                reason = "the output has a margin in it several times, which takes form='staged'"
                continue
            statement = self.destination.longest(query, dialect)
            reason = exceeded_limit(statement, trees, dialect, in_one=in_one, of_view=is_view)
            if not reason:
                return query, ""
            fits_otherwise |= is_view and not exceeded_limit(statement, trees, dialect, in_one=in_one)
            if _is_too_long(statement, dialect, of_view=is_view):
                break  # stages are longer still
        if trees_table is not None and form in ("auto", "table") and not model.is_linear:
            stages = self._stages()
            try:
                over_table = self._ended(stages, values_over_table(model, stages, trees_table, self.options.name))
                statement = self.destination.longest(over_table, dialect)
                reason = exceeded_limit(statement, [], dialect, in_one=False, of_view=is_view)
            except TooLargeError as error:
                reason = str(error)
            if not reason:
                return over_table, ""
            return "", f"the model does not fit into one {noun}, not even as form='table': {reason}"
        ways = self._ways(fits_a_table=fits_otherwise)
        return "", f"the model does not fit into one {noun} of form {shown(form)}: {reason}; {ways}"

    def _check_columns(self) -> None:
        """Raise `ParameterError` for too many or duplicate columns; ``SELECT *`` is not checked."""
        keep, any_case = self.options.keep, self.model.dialect.names.any_case
        if keep is None or self.end is not None:
            return
        names: set[str] = set()
        columns = (*keep, *self.stamp, *self.model.value_columns(self.options.name))
        self._stages().check(len(columns))
        for number, name in enumerate(columns):
            known = name.lower() if any_case else name
            if known in names:
                raise ParameterError(
                    f"the query would have column {shown(name)} twice; leave it out of keep, or change name"
                )
            if number < len(keep) + len(self.stamp):  # labels with one name have a clearer error in the outputs
                names.add(known)

    def _n_rows(self) -> int | None:
        """Return the approximate number of rows to score; None if unknown."""
        rows, where, source = self.options.rows, self.options.where, self.source.sql
        if not isinstance(rows, duckdb.DuckDBPyConnection):
            return rows
        sql = rows.sql
        return when_free(lambda: estimated_rows(sql, source)) if where is None else None

    def most_of_step(self, most: int | None, why: str, steps: str) -> int:
        """Return the maximum bytes of a step of a `chain` of ``steps``; ``why`` says why one query is too large.

        Raises
        ------
        ParameterError
            If the query can't have steps, with ``why``.
        """
        if self.options.form not in ("auto", "staged") or most is None:
            raise TooLargeError(why)
        if self.options.keep is None and self.model.dialect.statements.except_columns is None:
            raise TooLargeError(f"{why}; or name the columns to return in keep, for a chain of {steps}")
        return most

    def chain(
        self, limits: Limits, named: Callable[[int], str], *, of_views: bool, has_all: bool = False
    ) -> list[tuple[ScoringQuery, str]]:  # fmt: skip
        """Return queries within limits, including one of text, each over the one before, and their texts.

        Each adds some trees to the margins in the result of the previous one; the last one has the columns of this
        query.

        Parameters
        ----------
        limits
            The limits, below those of the database.
        named
            A function from the number of a result, from 1, to its quoted name. The first query has the predicate on the
            rows.
        of_views
            Whether results are views, which a database inlines like stages, so that they have the same limit.
        has_all
            Whether the queries before the last one pass on all columns of the table.

        Raises
        ------
        ParameterError
            If a query of one tree, or the columns that the queries pass on, exceed a limit.
        """
        assert limits.text is not None
        runs = deque(self._runs(limits))
        read = [*self.model.used(), *self.model.read_besides]
        keep = None if has_all else self.options.keep
        prefix = unlike([*(self.options.keep or ()), *read], "margin_" if keep is not None else "fb_margin_")
        queries: list[tuple[ScoringQuery, str]] = []
        known: dict[int, str] = {}  # the columns of margins of the trees so far, by number
        while runs:
            run, number = runs.popleft(), len(queries) + 1
            query = self if number == 1 else self._over(named(number - 1))
            query = replace(query, model=self.model.with_trees(run, known, is_last=not runs))
            if runs:
                passed = [*read, *(column for k, column in known.items() if k not in run)]
                query = replace(
                    query, passed=passed, stamp={}, options=replace(query.options, keep=keep, name=f"{prefix}{number}"),
                    end=lambda stages, values: stages.pass_on(values),
                )  # fmt: skip
            text, reason = query._within(limits).fitting()
            if not reason:
                queries.append((query, text))
                names = query.model.value_columns(query.options.name)
                known |= dict(zip(sorted(run), map(self.model.dialect.quote, names), strict=True)) if runs else {}
                continue
            halves = _halves(run)
            if halves is None:
                raise TooLargeError(f"the model does not fit into a chain of queries: {reason}")
            runs.extendleft(reversed(halves))
        most_views, n = limits.of_views() if of_views else None, len(queries)
        n_nested = n if limits.views is not None else n + sum(len(_STAGE.findall(text)) for _, text in queries)
        if most_views is not None and n_nested > most_views:
            of_stages = "" if n > most_views else f" of {n_nested - n:,} stages"
            raise TooLargeError(
                f"the model does not fit into a chain of views: it would have {n:,} of them{of_stages}, and one in "
                f"{self.model.dialect.name} at most {most_views:,}"
            )
        return queries

    def _over(self, name: str) -> ScoringQuery:
        """Return the query over the result of another one, which has the predicate on the rows."""
        return replace(self, source=TableSource(name, name), options=replace(self.options, where=None))

    def _within(self, limits: Limits) -> ScoringQuery:
        """Return the query for a database with these limits."""
        return replace(self, model=replace(self.model, dialect=replace(self.model.dialect, limits=limits)))

    def _runs(self, limits: Limits) -> list[_Run]:
        """Return the trees in parts of about the size of a query, by rounds, as their trees may share splits."""
        model = self.model
        order = sorted((i, k) for k, trees in enumerate(model.trees) for i in range(len(trees)))
        trees = simplified([model.trees[k][i] for i, k in order], model.dialect, model.known)
        over = _with_stage(replace(model, trees=[trees]), self._stages())
        writer = replace(over.writer, steps=model.simplified.steps)
        assert limits.text is not None
        room = 1 - 1 / _ROOM_OF_TEXT
        runs: list[_Run] = [{}]
        size = 0.0
        for (i, k), tree in zip(order, trees, strict=True):
            text = writer.tree(tree)
            of_tree = len(text.encode()) / limits.text
            if limits.elements is not None:
                of_tree = max(of_tree, _n_elements(text, model.dialect) / limits.elements)
            if size + of_tree > room and runs[-1]:
                runs, size = [*runs, {}], 0.0
            size += of_tree
            runs[-1].setdefault(k, []).append(model.trees[k][i])
        return runs

    def _stages(self) -> Stages:
        read, where = [*self.model.used(), *self.model.read_besides, *self.passed], self.options.where
        assert not isinstance(where, Mapping), "conditions that are data are SQL by now"
        before = () if self.model.dialect.statements.except_columns is None else self.model.score_columns
        return Stages(self.model.dialect, self.source, self.options.keep, read, where, before, self.after)

    def _ended(self, stages: Stages, values: Mapping[str, str]) -> str:
        """Return the query that ends in these values."""
        if self.end is not None:
            return self.end(stages, values)
        return stages.select({**values, **self.stamp}, self.destination.into(self.model.dialect))

    def _without_table(self, form: str) -> Iterator[tuple[Callable[[], str | None], Sequence[Sequence[Tree]], bool]]:
        """Yield writers of a query with the trees in it, the trees, and whether each margin is one expression."""
        model = self.model
        in_stages = (lambda: self._in_stages(self._stages())), model.trees, False
        if form == "lists":
            yield lambda: self._over_lists(self._stages()), [], False
        if form == "sorted":
            if not model.is_linear:
                yield lambda: self._as_expressions(_sort_rows(model, self._stages())), model.trees, True
            yield lambda: self._in_stages(_sort_rows(model, self._stages())), model.trees, False
        staged_first = (
            form == "auto" and self._stages().can_add and bool(shared_groups(model.every_tree(), model.dialect))
        )
        if staged_first:
            yield in_stages
        if form in ("auto", "case"):
            yield lambda: self._as_expressions(self._stages(), integers=False), model.trees, True
        if form == "staged" or (form == "auto" and not staged_first):
            yield in_stages

    def _ways(self, *, fits_a_table: bool) -> str:
        """Return the alternatives for the user."""
        dialect, form = self.model.dialect, self.options.form
        database = f"model.database({dialect.name!r})"
        of_kind = {"query": "query", "view": "create_view_sql", "table": "create_table_sql"}
        call = self.call or of_kind[self.destination.kind]
        load = (
            f"load {advice(f'{database}.table_frame()', 'the trees')} as a table 'trees'"
            if dialect.statements.define_table is None
            else "load the trees with " + advice(f"{database}.table_statements('trees')", "--statements")
        )
        ways = [f"make a table of it with {advice('create_table_sql', '--create-table')}"] if fits_a_table else []
        if self.model.is_linear:
            ways.append(f"write a chain of queries with {database}.to_dbt, or train with linear_tree=False")
        elif form == "auto":
            ways.append(f"{load} and take " + advice(f"{call}(..., trees='trees')", "--trees trees"))
        elif not ways:
            table = advice(f"{call}(..., form='table', trees='trees')", "--form table --trees trees")
            ways.append(f"leave form at 'auto', or use {table}")
        return ", or ".join(ways)

    # --- the forms that have the trees in them ------------------------------------------------------------------------

    def _as_expressions(self, stages: Stages, *, integers: bool = True) -> str | None:
        """Return the query with one expression per value; None if an output uses a margin twice, like softmax."""
        if not self.model.uses_margins_once:
            return None
        model = _with_stage(self.model, stages, integers=integers)
        margins = {margin: model.margin(k) for k, margin in enumerate(model.output.inputs)}
        return self._ended(stages, model.named_values(margins, self.options.name))

    def _over_lists(self, stages: Stages) -> str:
        """Return the query whose first stage adds lists of nodes to each row, which `NodeLists.margin` walks."""
        lists = NodeLists.of(self.model)
        names = stages.name(lists.sql())
        margins = {margin: lists.margin(k, names) for k, margin in enumerate(self.model.output.inputs)}
        return self._ended(stages, self.model.staged_values(stages, margins, self.options.name))

    def _in_stages(self, stages: Stages) -> str:
        """Return the query with stages that first sum trees, fifty per column, then evaluate the output.

        For 60 trees: ``WITH stage_1 AS (SELECT id, <trees 0 to 49> AS v_1, <trees 50 to 59> AS v_2 FROM t)
        SELECT id, (base + (v_1 + v_2)) AS prediction FROM stage_1``.
        """
        model = _with_stage(self.model.renamed(stages.rename_lost()), stages)
        texts = staged_trees(model.trees, model.writer, stages)
        sums: list[list[str]] = [[] for _ in model.trees]
        for of_stage in filter(None, _by_terms(model, texts)):
            for key, column in stages.name(of_stage).items():
                sums[int(key.split("_")[0])].append(column)
        margins = {margin: model.total(k, sums[k]) for k, margin in enumerate(model.output.inputs)}
        return self._ended(stages, model.staged_values(stages, margins, self.options.name))


def chosen_form(model: SqlModel, form: str, rows: int | None) -> str:
    """Return the form, or for ``auto`` in DuckDB the fastest, which is ``auto`` for CASE.

    Raises
    ------
    ParameterError
        If the database or the model does not support the form.
    """
    expressions, database = model.dialect.expressions, model.dialect.name
    if form == "sorted" and not expressions.case_skips_unmet_whens:
        raise ParameterError(f"form='sorted' is faster in DuckDB only, so {database} has no such form")
    if form == "lists" and expressions.lambda_ is None:
        raise ParameterError(f"form='lists' is written for DuckDB only, so {database} has no such form")
    if form == "lists" and (levels := max(model.depths, default=0)) > MAX_LEVELS:
        raise ParameterError(f"form='lists' walks {MAX_LEVELS} levels at most, and a tree has {levels:,}; use 'auto'")
    if form in ("lists", "table"):
        refuse_linear(f"form={form!r}", is_linear=model.is_linear)
    return fastest_form(model, rows) if form == "auto" and expressions.lambda_ is not None else form


# --- sums of trees in columns -----------------------------------------------------------------------------------------


def _by_terms(model: SqlModel, texts: Sequence[Sequence[tuple[str, int]]]) -> list[dict[str, str]]:
    """Return the sums of each stage by their keys, within the limit of names and values (`Limits.terms`).

    ``texts`` are the trees of each output, each with the number of its names and values. A database with that limit
    counts a whole SELECT as one expression.
    """
    most, zero = model.dialect.limits.terms, model.uncompiled
    room = math.inf if most is None else most - _ROOM
    stages: list[dict[str, str]] = [{}]
    size = 0
    for k, of_output in enumerate(texts):
        for run in _slices([terms for _, terms in of_output], room):
            more = sum(terms for _, terms in of_output[run])
            if stages[-1] and size + more > room:
                stages, size = [*stages, {}], 0
            total = [*(text for text, _ in of_output[run]), *([zero] if zero and not stages[-1] else [])]
            stages[-1][f"{k}_{run.start}"] = model.dialect.total(total)
            size += more
    return stages


def _slices(of_trees: Sequence[int], room: float) -> list[slice]:
    """Return the runs of trees for one column each: at most fifty, with names and values that fit into the room."""
    starts, terms = [0], 0
    for i, more in enumerate(of_trees):
        terms += more
        if i > starts[-1] and (i - starts[-1] == _TREES_A_COLUMN or terms > room):
            starts, terms = [*starts, i], more
    ends = [*starts[1:], len(of_trees)]
    return [slice(first, last) for first, last in zip(starts, ends, strict=True) if last > first]


def _halves(run: _Run) -> list[_Run] | None:
    """Return the trees of a part in two halves, None for a single tree."""
    trees = [(k, tree) for k, of_margin in run.items() for tree in of_margin]
    if len(trees) < 2:
        return None
    halves: list[_Run] = [{}, {}]
    for number, (k, tree) in enumerate(trees):
        halves[2 * number // len(trees)].setdefault(k, []).append(tree)
    return halves


# --- columns that a stage names ---------------------------------------------------------------------------------------


def _with_stage(model: SqlModel, stages: Stages, *, integers: bool = True) -> SqlModel:
    """Return the model over columns that a stage names, if that is faster (`filled_columns`) or shorter."""
    trees, columns = model.every_tree(), model.columns
    if model.dialect.expressions.case_skips_unmet_whens:
        return replace(model, columns=filled_columns(trees, columns, stages, integers=integers))
    if not model.is_unread or not stages.can_add:
        return model
    return replace(model, columns=_short_columns(trees, columns, stages))


def _short_columns(trees: Iterable[Tree], columns: Sequence[FeatureColumn], stages: Stages) -> Sequence[FeatureColumn]:
    """Add a stage of split and slope inputs under short names; return the columns over it.

    Strings become integers there.
    """
    used: dict[int, set[int]] = defaultdict(set)  # by feature the categories that splits name
    slopes: Counter[tuple[int, float, float]] = Counter()
    for tree in trees:
        terms = [term for leaf in tree.linear_leaves().values() for term in leaf.terms]
        slopes.update((term.feature, term.step, term.offset) for term in terms if term.step > _SMALLEST_STEP)
        for feature, categories in zip(tree.feature, tree.categories, strict=True):
            if feature != LEAF:
                used[feature].update(categories or ())
        for feature in tree.used_features():
            used[feature]  # slopes read it
    are_coded = {f for f in used if columns[f].feature.type.name == "string"}
    values = {str(f): columns[f].code(used[f]) if f in are_coded else columns[f].name for f in sorted(used)}
    in_steps: dict[int, dict[float, str]] = defaultdict(dict)
    for (f, step, offset), _ in slopes.most_common(_MOST_IN_STEPS):
        in_steps[f][step] = f"{f} {step}"
        values[f"{f} {step}"] = columns[f].number_in_steps(step, offset)
    names = stages.name(values, often=bool(are_coded or in_steps))
    return [
        column if str(f) not in names
        else replace(column, coded=names[str(f)]) if f in are_coded
        else replace(column, name=names[str(f)], in_steps={step: names[key] for step, key in in_steps[f].items()})
        for f, column in enumerate(columns)
    ]  # fmt: skip


def filled_columns(
    trees: Iterable[Tree], columns: Sequence[FeatureColumn], stages: Stages, *, integers: bool
) -> Sequence[FeatureColumn]:
    """Add a stage of split inputs without missing numbers; return the columns over it.

    A chain of WHENs then has ``x >= 3`` for ``NOT (x < 3) OR x IS NULL``, which DuckDB plans and evaluates faster, and
    floats and strings, which need more text to compare, need as little. Columns used only in trees of one split, which
    are no chains, are unchanged; so are integers without ``integers``.
    """
    if not columns or not columns[0].dialect.expressions.case_skips_unmet_whens:
        return columns
    values: dict[str, str] = {}
    for tree in trees:
        for node in range(len(tree) if len(tree) > _OF_ONE_SPLIT else 0):
            if tree.is_leaf(node):
                continue
            f, left = tree.feature[node], tree.missing_left[node]
            column = columns[f]
            kind = column.feature.type
            if kind.name == "string":
                values[f"{f}_text"] = column.value
            elif f"{f}_{left:d}" not in values and (integers or kind.is_float) and column.compares_numbers(tree, node):
                values[f"{f}_{left:d}"] = column.as_number(left, "DOUBLE")
    if not values:
        return columns
    names = stages.name(dict(sorted(values.items())))
    return [
        replace(column, filled=(names.get(f"{f}_0"), names.get(f"{f}_1")), text=names.get(f"{f}_text"))
        for f, column in enumerate(columns)
    ]


# --- sizes and limits -------------------------------------------------------------------------------------------------

# Levels of a parser's tree for a level of CASE or of a sum, and those around the expression.
_LEVELS, _AROUND = 2, 20
# Entries of a parser's stack for CASE … WHEN … THEN, for ``(… +``, and for what is around and in them.
_STACKED_A_CASE, _STACKED_A_SUM, _STACKED_AROUND = 5, 3, 26
# What a query consists of, in groups by the number of elements.
_STRING = r"'(?:[^'\\]|\\.|'')*'"
_LISTS = re.compile(rf"\bIN \({_STRING}(?:, {_STRING})*\)")
_TOKENS = re.compile(
    rf"""(?P<value>{_STRING}|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|-?\b\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*)"""
    r"|(?P<part>\b(?:WHEN|THEN|ELSE|END|AS|NULL|(?<=IS )NOT)\b)"
    r"|(?P<operator>\b(?:CASE|IS|IN|AND|OR|NOT)\b|\w+(?=\()|<=|>=|<>|[<>=*/%+]|-(?=\s))"
    r"|(?P<name>\w+)",
    re.DOTALL,
)
_ELEMENTS = {"value": 1, "part": 0, "operator": 2, "name": 1}


def check_size(text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect) -> None:
    """Raise `TooLargeError` if an expression exceeds a limit of the database."""
    if reason := exceeded_limit(text, trees, dialect, in_one=True):
        raise TooLargeError(
            f"the model does not fit into one expression: {reason}; use {advice('model.query', '--table')}, which "
            "knows other forms"
        )


def exceeded_limit(
    text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect, *, in_one: bool, of_view: bool = False
) -> str:
    """Return the exceeded limit, with the numbers; empty if all fits.

    ``in_one`` means that each margin is a single expression, to which expression limits apply; ``of_view`` that the
    text creates a view.
    """
    limits = dialect.limits
    if _is_too_long(text, dialect, of_view=of_view):
        noun, most = ("view", limits.of_view()) if of_view else ("query", limits.text)
        return f"it has {len(text.encode()):,} bytes, and a {noun} in {dialect.name} at most {most:,}"
    every = [tree for of_output in trees for tree in of_output]
    if limits.elements is not None and (elements := _n_elements(text, dialect)) > limits.elements:
        return f"it has about {elements:,} elements, and a query in {dialect.name} at most {limits.elements:,}"
    if not in_one or not every:
        return ""
    if limits.terms is not None and (terms := sum(n_terms(tree, dialect) for tree in every)) > limits.terms:
        return f"it has about {terms:,} names and values, and an expression in {dialect.name} at most {limits.terms:,}"
    cases, sums = _expression_depth(trees, dialect)
    if limits.case_depth is not None and cases + 1 > limits.case_depth:
        return f"its CASEs nest {cases + 1} deep, and in {dialect.name} {limits.case_depth} deep at most"
    depth = _LEVELS * (cases + sums) + _AROUND
    if limits.depth is not None and depth > limits.depth:
        return f"it is about {depth} levels deep, and an expression in {dialect.name} at most {limits.depth}"
    stack = _STACKED_A_CASE * cases + _STACKED_A_SUM * sums + _STACKED_AROUND
    if limits.stack is not None and stack > limits.stack:
        return f"it takes about {stack} entries of the parser's stack, which has {limits.stack} in {dialect.name}"
    return ""


def _n_elements(text: str, dialect: Dialect) -> int:
    """Return the elements of a query (see `Limits.elements`).

    >>> from frameboost.dialects.clickhouse import CLICKHOUSE
    >>> _n_elements("if(x >= -3 AND x <= inf, if(c IN ('a', 'b'), 1.0, 2.0), 3.0)", CLICKHOUSE)
    21
    """
    if dialect.expressions.list_is_value:
        text = _LISTS.sub("IN ''", text)
    return sum(_ELEMENTS[token.lastgroup or ""] for token in _TOKENS.finditer(text))


def _is_too_long(text: str, dialect: Dialect, *, of_view: bool) -> bool:
    """Whether the text of a query, or of a CREATE VIEW, exceeds the limit of the database."""
    most = dialect.limits.of_view() if of_view else dialect.limits.text
    return most is not None and len(text.encode()) > most


def _expression_depth(trees: Sequence[Sequence[Tree]], dialect: Dialect) -> tuple[int, int]:
    """Return the nesting depth of CASEs in the expression of a margin, and of the balanced sum over them."""
    deepest = max((case_depth(tree, dialect) for of_output in trees for tree in of_output), default=0)
    return deepest, max(len(of_output) for of_output in trees).bit_length()


# --- the order of rows ------------------------------------------------------------------------------------------------
#
# DuckDB evaluates CASE by vectors of 2,048 rows, and skips a WHEN that none of them satisfies. So rows that agree on
# many conditions should be adjacent. The weight of a condition is the share of the rows that reach it, added up
# over all trees. The four features of the largest weights are cut into five steps each: a number's at thresholds with
# equal weights between them, a category's by its four heaviest conditions. That makes 625 cells, some two vectors
# each for a million rows. For a model that tests ``x < 1`` in all rows, ``x < 2`` in a half, and ``y < 5`` in a half
# it is ``ORDER BY CASE WHEN x < 1 THEN 0 WHEN x < 2 THEN 1 ELSE 2 END, CASE WHEN y < 5 THEN 0 ELSE 1 END``.

_SORT_FEATURES, _SORT_STEPS = 4, 5

# A threshold, the codes of categories, or None for whether there is a value; with its weight and a split that tests it.
_Condition = Physical | tuple[int, ...] | None
_Conditions = dict[_Condition, tuple[float, Tree, int]]


def _sort_rows(model: SqlModel, stages: Stages) -> Stages:
    """Begin the stages with one that sorts rows; the last SELECT restores their order."""
    weighed = _weighed(model.every_tree())
    heaviest = sorted(weighed, key=lambda feature: (-sum(entry[0] for entry in weighed[feature].values()), feature))
    if heaviest:
        stages.sort(", ".join(_step(model.columns[f], weighed[f]) for f in heaviest[:_SORT_FEATURES]))
    return stages


def _weighed(trees: Sequence[Tree]) -> dict[int, _Conditions]:
    """Return the conditions of each feature with their weights."""
    weighed: dict[int, _Conditions] = defaultdict(dict)
    for tree in trees:
        for node, share in _shares(tree):
            condition: _Condition = tree.categories[node] or tree.threshold[node]
            of_feature = weighed[tree.feature[node]]
            of_feature[condition] = (of_feature.get(condition, (0.0,))[0] + share, tree, node)
    return weighed


def _shares(tree: Tree) -> Iterator[tuple[int, float]]:
    """Yield each split with the share of rows that reach it; halves if the model has no covers."""
    shares = [1.0] * len(tree)
    for node in range(len(tree)):  # children come after their parent
        if tree.is_leaf(node):
            continue
        yield node, shares[node]
        for child in (tree.left[node], tree.right[node]):
            shares[child] = shares[node] * (tree.cover[child] / tree.cover[node] if tree.cover[node] > 0 else 0.5)


def _step(column: FeatureColumn, conditions: _Conditions) -> str:
    """Return the index of the step that contains a row's value."""
    ordered = [(key, weight) for key, (weight, *_) in conditions.items() if not (key is None or isinstance(key, tuple))]
    if ordered:
        tests = [column.is_below(threshold) for threshold in _quantiles(sorted(ordered))]
    else:
        heaviest = sorted(conditions.values(), key=lambda condition: -condition[0])[: _SORT_STEPS - 1]
        # The one that names most categories comes last, for it may have the categories of all others.
        heaviest.sort(key=lambda condition: len(condition[1].categories[condition[2]] or ()))
        tests = [column.test(tree, node)[0] for _, tree, node in heaviest]
    whens = " ".join(f"WHEN {test} THEN {step}" for step, test in enumerate(filter(None, tests)))
    return f"CASE {whens} ELSE {len(tests)} END"


def _quantiles(weighed: Sequence[tuple[Physical, float]]) -> list[Physical]:
    """Return up to four of the sorted thresholds that divide their weight into equal parts."""
    total, before = sum(weight for _, weight in weighed), 0.0
    cuts: list[Physical] = []
    for threshold, weight in weighed:
        before += weight
        if len(cuts) < _SORT_STEPS - 1 and before >= total * (len(cuts) + 1) / _SORT_STEPS:
            cuts.append(threshold)
    return cuts
