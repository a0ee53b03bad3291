"""Gradient boosting in any SQL database, by SELECT and CREATE TABLE AS alone; only histograms leave it.

The rows are one table, the *state*: the codes of all features, the roles, margins, and g and h of each output. Rows
have neither ids nor order, and nothing is updated in place. The table is rewritten once per round, with new margins and
gradients; within a tree a row's node is a CASE over its codes, from the root.

1. `bin_columns` creates the state from the user's table.
2. `compute_gradients` replaces it, with the leaf values that were added since.
3. `histograms` sums g and h of a level by node and code of each feature, in one query, in the fastest shape for the
   database (`SHAPES`).

The summed g and h are multiples of a step (`frameboost.expressions.grid`), so that sums of DOUBLE are exact in every
database, in any order, and the trees equal those of the other engines. Sums leave the database as whole numbers of
steps, which no driver rounds. The step depends only on the power of two of the largest gradient, which seldom changes
between rounds. So rows store unrounded gradients, and the root query uses the last step and reports whether it is still
right.
"""

from __future__ import annotations

import itertools
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.checks.messages import listed, reason
from frameboost.data.database_table import DatabaseTable
from frameboost.dialects.columns import DatabaseColumn
from frameboost.dialects.draws import draw_query
from frameboost.engines.contract import Capabilities, Cumulative, EngineRequest, QueryWindow, Sample
from frameboost.engines.fixed_terms import FixedTerms, Term, names_used, terms_apart, used_terms
from frameboost.engines.sql.columns import TableColumns
from frameboost.engines.sql.ranking import query_window, ranked_rows, sums_over_pairs, with_pair_sums
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import (
    Aggregate,
    Aggregator,
    Rounded,
    Scalar,
    grid_offset,
    grid_range,
)
from frameboost.losses.loss import PAIR_SUMS, RankingPairs
from frameboost.runtime.interrupts import LeftBehindError
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

__all__ = ["SHAPES", "SqlEngine"]

_INT64, _FLOAT64 = FeatureType("int64"), FeatureType("float64")
# The most queries of a level.
_MAX_PARTS = 5
# The most trees of one margin that a query adds up, as of a checkpoint, and the most characters of these.
_MOST_ADDED, _LONGEST_ADDED = 4, 2**15
# The numbers of tables that another fit may have to drop; more than there are at once.
_NUMBERS = range(1, 9)
# Sums of as many numbers of magnitude 1 as there are, in two orders, differ by less than this share of them.
_ROUNDING = 1e-9
# What sums on a grid are at most, in steps.
_MOST_STEPS = 2.0**53
_Name = TypeVar("_Name", str, int)
# Features, keys of nodes and codes, and the sums of g and h of each output in each, (keys, 2 · outputs).
_Sums = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]


class SqlEngine:
    """`VectorEngine` over a database table."""

    layout: SlotLayout
    summed: list[tuple[str, float]]  # what is added up by bin: values over the state, and the steps of their grids
    _tree: list[Rounded]  # g and h of each output of the tree, over columns of the state
    _root: _Sums  # of the tree

    def __init__(self, request: EngineRequest, source: DatabaseTable) -> None:
        self.source = source
        self.dialect = source.dialect
        self.features = request.features
        self._columns = TableColumns(source, request.features)
        self._roles = {
            role: source.present(name) if role == "qid" else self._number(source, name)
            for role, name in request.roles.items()
        }
        self._terms: dict[str, Term] = {}
        self._fixed = FixedTerms(self._roles)
        self._has_positions = request.parameters.subsample < 1 or "qid" in self._roles
        self._check_scratch(reads_twice="qid" in self._roles)
        self._margins: list[str] = []
        self._gradients: list[str] = []  # and residuals
        self._offsets: dict[str, float] = {}  # of the grids of gradients
        self._unsettled: set[str] = set()  # gradients on the grids of the previous round
        self._checked: list[str] = []  # gradients with grids that the next query of sums checks
        self._added: dict[str, list[str]] = {}  # to each margin, since the state was written
        self._splits: dict[int, tuple[Split, int, int]] = {}  # of the tree
        self._ranked: str | None = None  # the table of the rows as `sum_pairs` reads them
        self._pair_sums = ""  # the query of these sums
        self._state: str | None = None
        self._open = ExitStack()
        self.connection = self._open.enter_context(source.connection.one_session())
        self._tables: list[str] = []  # that are there, or may be
        self._numbers: Iterator[int] = itertools.count(1)
        if source.scratch is None or request.name_tables is None:
            self._token = secrets.token_hex(6)
        else:
            self._numbers, self._token = itertools.cycle(_NUMBERS), request.name_tables(self._drop_too)

    def _check_scratch(self, *, reads_twice: bool) -> None:
        """Raise `ParameterError` if the database has no suitable temporary tables; ``reads_twice`` within a query."""
        statements = self.dialect.statements
        if self.source.scratch is not None:
            return
        if statements.scratch_table is None:
            raise ParameterError(
                f"{self.dialect.name} has no temporary tables of queries; name a schema for the tables of "
                "engine='sql': fb.table(..., scratch='my_schema')"
            )
        if reads_twice and statements.reads_scratch_once:
            raise ParameterError(
                f"a ranking joins a table of the fit with itself, and {self.dialect.name} reads a temporary table once "
                "in a query; name a schema for the tables of engine='sql': fb.table(..., scratch='my_schema')"
            )

    def _number(self, source: DatabaseTable, name: str) -> str:
        """Return a numeric or Boolean column as float64, missing values as NULL."""
        kind = source.types()[name]
        assert kind is not None
        column = DatabaseColumn(Feature(name, kind), self.dialect, source.sql(name))
        value, expressions = column.name, self.dialect.expressions
        if kind.family == "boolean":
            is_true, is_false = (test.format(x=value) for test in (expressions.is_true, expressions.is_false))
            value = f"CASE WHEN {is_true} THEN 1 WHEN {is_false} THEN 0 END"
        return f"CASE WHEN {column.is_present()} THEN {self.dialect.cast(value, 'float64')} END"

    def capabilities(self, n_trees: int) -> Capabilities:
        """See `Capabilities`."""
        return Capabilities(takes_batches=True)

    # --- rows ---------------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._columns.n_rows

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        return self._columns.n_missing

    def _quote(self, name: str) -> str:
        return self.dialect.quote(name)

    def _from(self, query: str, alias: str) -> str:
        return f"FROM ({query}) {self.dialect.statements.alias}{self._quote(alias)}"

    def _of_source(self, columns: Mapping[_Name, str]) -> tuple[str, dict[_Name, str]]:
        """Return a query of columns of the user's table, by their SQL, and their names in it."""
        aliased = {self.source.alias(f"frameboost_{name}"): sql for name, sql in columns.items()}
        return self.source.select(aliased), dict(zip(columns, aliased, strict=True))

    def _rows(self, expressions: Iterable[Scalar] = (), more: Iterable[str] = ()) -> tuple[str, dict[str, str]]:
        """Return a query of the rows, and the names in it that these expressions use; ``more`` are columns."""
        expressions = list(expressions)
        used = used_terms(self._terms, expressions)
        if self._state is None:
            query, names = self._of_source(self._roles)
        else:
            positions = ("position",) if self._has_positions else ()
            names = {name: self._quote(name) for name in (*self._roles, *positions, *self._gradients, *more)}
            codes = [name for name in self._kept() if name not in names.values()]
            margins = []
            for name in self._margins:
                value = self._quote(name)
                for added in self._added.get(name, ()):
                    value = f"({value} + {added})"
                margins.append(f"{value} AS {self._quote(f'{name}_now')}")
                names[name] = self._quote(f"{name}_now")
            query = f"SELECT {', '.join([*codes, *names_of(names, self._margins), *margins])} FROM {self._state}"
            if self._ranked is not None and not names_used(*expressions, *used.values()).isdisjoint(PAIR_SUMS):
                query = with_pair_sums(query, self._pair_sums, self.dialect)
                names |= {name: self._quote(name) for name in PAIR_SUMS}
            rounded = self._offsets.keys() & names_used(*expressions, *used.values())
            self._settle(self._unsettled & rounded)
            names |= {name: self._sql(self._on_grid(name)) for name in rounded}
        names.setdefault("weight", self.dialect.number(1.0))
        columns = {name: self._quote(f"term_{number}") for number, name in enumerate(used)}
        for number, group in enumerate(terms_apart(used)):
            added = ", ".join(f"{self._value(used[name], names)} AS {columns[name]}" for name in group)
            query = self.dialect.select_besides(query, added, f"before_{number}")
            names |= {name: columns[name] for name in group}
        return query, names

    def _value(self, term: Term, names: Mapping[str, str]) -> str:
        """Return the SQL of a term."""
        if isinstance(term, QueryWindow):
            return query_window(term, names, self.dialect)
        if not isinstance(term, Cumulative):
            return term.to_sql(names, self.dialect)
        order = f"{term.order.to_sql(names, self.dialect)} {'DESC' if term.descending else 'ASC'}"
        return f"SUM({term.value.to_sql(names, self.dialect)}) OVER (ORDER BY {order})"

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`; values that are constant over rounds are stored, for the state only."""
        if self._state is None:
            return self._aggregated_over_rows(aggregates)
        return self._fixed.aggregated(aggregates, self._aggregated_over_rows)

    def _aggregated_over_rows(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        query, names = self._rows(each.expression for each in aggregates.values())
        return self.aggregated(aggregates, names, self._from(query, "rows"))

    def aggregated(
        self, aggregates: Mapping[str, Aggregate], names: Mapping[str, str], rows: str
    ) -> dict[str, float | None]:  # fmt: skip
        """Return aggregates over the rest of a SELECT."""
        columns = [self._quote(f"a_{number}") for number in range(len(aggregates))]
        values = [
            f"{each.function.upper()}({each.expression.to_sql(names, self.dialect)}) AS {column}"
            for column, each in zip(columns, aggregates.values(), strict=True)
        ]
        query, kinds = f"SELECT {', '.join(values)} {rows}", dict.fromkeys(aggregates, _FLOAT64)
        sums = {name: each.expression for name, each in aggregates.items() if each.function == "sum"}
        steps = {name: each.step for name, each in sums.items() if isinstance(each, Rounded)}
        exact = [
            f"{self._in_steps(column, steps[name])} AS {column}" if name in steps else column
            for column, name in zip(columns, aggregates, strict=True)
        ]
        exactly = f"SELECT {', '.join(exact)} {self._from(query, 'aggregated')}"
        read = self.connection.frame(exactly, kinds | dict.fromkeys(steps, _INT64)).row(0, named=True)
        if any(read[name] is None for name in steps):  # of no rows, or not finite
            read = self.connection.frame(query, kinds).row(0, named=True)
            steps = {}
        read |= {name: read[name] * step for name, step in steps.items()}
        return {name: 0.0 if value is None and name in sums else value for name, value in read.items()}

    def _in_steps(self, total: str, step: float) -> str:
        """Return a sum on a grid as a whole number of steps, which no driver rounds; NULL if it is not finite."""
        most, scale = self.dialect.number(min(_MOST_STEPS * step, sys.float_info.max)), self.dialect.number(1 / step)
        return f"CASE WHEN ABS({total}) <= {most} THEN {self.dialect.cast(f'{total} * {scale}', 'int64')} END"

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`."""
        self._terms.update(terms)
        for name, term in terms.items():
            self._fixed.define(name, term)

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """See `Engine.by_score`."""
        return _Scores(self, score, positive, negative)

    def scores(self, score: Scalar, positive: Scalar, negative: Scalar) -> tuple[dict[str, str], str]:
        """Return the columns of the distinct scores (see `Engine.by_score`), and the rest of a SELECT of them."""
        query, names = self._rows((score, positive, negative))
        value = score.to_sql(names, self.dialect)
        windows: list[str] = []
        by_score, columns = self._quote("score"), {"score": value}
        sides = {"positive": positive, "negative": negative}
        columns |= {side: f"SUM({each.to_sql(names, self.dialect)})" for side, each in sides.items()}
        selected = ", ".join(f"{sql} AS {self._quote(name)}" for name, sql in columns.items())
        grouped = f"SELECT {selected} {self._from(query, 'rows')} GROUP BY {value}"
        for name in sides:
            side, above, total = map(self._quote, (name, f"{name}_above", f"{name}_total"))
            windows.append(f"SUM({side}) OVER (ORDER BY {by_score} DESC) - {side} AS {above}")
            windows.append(f"SUM({side}) OVER () AS {total}")
        running = f"SELECT {', '.join([*map(self._quote, columns), *windows])} {self._from(grouped, 'by_score')}"
        known = ["score", *(f"{side}{part}" for side in sides for part in ("", "_above", "_total"))]
        return {name: self._quote(name) for name in known}, self._from(running, "running")

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`; pairs are summed in the query that uses them, from a table of their inputs."""
        query, names = self._rows([Expression(name, (name,)) for name in pairs.columns])
        self._ranked = self._create(ranked_rows(pairs, query, names, self.dialect))
        self._pair_sums = sums_over_pairs(pairs, offset, self._ranked, self.dialect)

    # --- the state ----------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        return self._columns.propose_bins(max_bin, user_bins)

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`; columns with codes too large for one query are coded later."""
        self.layout = SlotLayout(bins)
        codes = [self._code(number) for number in range(len(bins))]
        first, *others = self._columns.in_groups(codes)
        raw = [self._quote(f"raw_{number}") for number in range(len(bins))]
        columns = {self._quote(f"code_{number}"): codes[number] for number in first}
        columns |= {raw[number]: self._columns.columns[number].name for group in others for number in group}
        kept = dict(self._roles)
        if self._has_positions:
            self.source.check_key()
            kept["position"] = self.source.position
        if "qid" in kept:  # integers are compared in less time, and by no collation
            kept["qid"] = f"DENSE_RANK() OVER (ORDER BY {kept['qid']} ASC)"
        columns |= {self._quote(name): sql for name, sql in kept.items()}
        # The names of the state are those of expressions, which columns of the table may have.
        query, names = self._of_source(dict(enumerate(columns.values())))
        named = ", ".join(f"{old} AS {new}" for old, new in zip(names.values(), columns, strict=True))
        before = self._facts(*self._of_source(kept))
        self._write(f"SELECT {named} {self._from(query, 'coded')}")
        after = self._facts(f"SELECT * FROM {self._state}", {name: self._quote(name) for name in kept})
        if not all(_are_close(a, b, tolerance) for (a, _), (b, tolerance) in zip(before, after, strict=True)):
            raise self.source.changed()
        for group in others:
            coded = {raw[n]: f"{self._code(n, raw[n])} AS {self._quote(f'code_{n}')}" for n in group}
            columns = {name: name for name in columns if name not in coded} | {
                self._quote(f"code_{n}"): coded[raw[n]] for n in group
            }
            self._write(f"SELECT {', '.join(columns.values())} FROM {self._state}")

    def _facts(self, query: str, names: Mapping[str, str]) -> list[tuple[float | None, float]]:
        """Return facts that identify the rows, each with a tolerance, as float sums depend on the order.

        They cover roles, and query numbers and positions relative to the first.
        """
        values = {name: sql for name, sql in names.items() if name not in ("qid", "position")}
        first = next(iter(values.values()))
        for name in [name for name in names if name not in values]:
            within = self.dialect.cast(self.dialect.expressions.mod.format(x=names[name], y=1009), "float64")
            values[name] = f"{first} * {within}"
        aggregates = {f"{f} {name}": f"{f}({sql})" for name, sql in values.items() for f in ("MIN", "MAX", "SUM")}
        kinds = {"n": _INT64, **dict.fromkeys(aggregates, _FLOAT64)}
        columns = [self.dialect.statements.count[0], *aggregates.values()]
        selected = ", ".join(f"{sql} AS {self._quote(f'f_{number}')}" for number, sql in enumerate(columns))
        n, *facts = self.connection.frame(f"SELECT {selected} {self._from(query, 'rows')}", kinds).row(0)
        ends = [max(abs(low or 0.0), abs(high or 0.0)) for low, high in zip(facts[::3], facts[1::3], strict=True)]
        return [(n, 0.0), *zip(facts, (t for end in ends for t in (0.0, 0.0, _ROUNDING * n * end)), strict=True)]

    def _code(self, number: int, name: str | None = None) -> str:
        """Return the SQL of the code of a feature's value, as a narrow type; ``name`` is its column elsewhere."""
        bins = self.layout.bins[number]
        return self.dialect.narrow(self._columns.code(number, bins, name), bins.count)

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        names = {role: self._quote(role) for role in self._roles} | {"weight": self.dialect.number(1.0)}
        names |= {"weight": self._quote("weight")} if "weight" in self._roles else {}
        started = [
            f"{self._present(expression.to_sql(names, self.dialect))} AS {self._quote(name)}"
            for name, expression in margins.items()
        ]
        self._write(f"SELECT {', '.join([*self._kept(), *started])} FROM {self._state}")
        self._margins, self._gradients = list(margins), []

    def _present(self, value: str) -> str:
        """Return a number as a non-NULL float64, if a type guarantees it: those are summed faster."""
        return f"CAST({value} AS {self.dialect.types.columns['float64']})"

    def _kept(self) -> list[str]:
        """Return the constant columns of the state: codes and roles."""
        codes = [f"code_{number}" for number in range(len(self.features))]
        return [self._quote(name) for name in (*codes, *(["position"] if self._has_positions else ()), *self._roles)]

    def _write(self, query: str) -> None:
        """Replace the state by a query, which may read it."""
        old = self._state
        self._state = self._create(query)
        if old is not None:
            self._drop(old)

    def _create(self, query: str) -> str:
        """Create a table from a query, and return its name."""
        names = (self._name_of(self._token, number) for number in self._numbers)
        name, statements = next(name for name in names if name not in self._tables), self.dialect.statements
        template = statements.scratch_table if self.source.scratch is None else statements.create_table
        assert template is not None
        self._tables.append(name)  # first, as the statement may be interrupted when the table is there
        self.connection.run(template.format(name=name, query=query))
        return name

    def _name_of(self, token: str, number: int) -> str:
        """Return the name of a table of a fit."""
        called = f"frameboost_{token}_{number}"
        in_schema = f"{self.source.scratch}.{called}"
        return self._quote(called) if self.source.scratch is None else self.dialect.quote_path(in_schema)

    def _drop_too(self, token: str) -> None:
        """Drop tables of a killed fit at the end of this one; the server may still be creating one until then."""
        self._tables += [self._name_of(token, number) for number in _NUMBERS]

    def _drop(self, name: str) -> None:
        self.connection.run(f"DROP TABLE IF EXISTS {name}")
        self._tables.remove(name)

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
    ) -> None:  # fmt: skip
        """See `Engine.compute_gradients`; gradients are stored unrounded."""
        self._gradients = []
        numbers = {**gradients, **others}
        query, names = self._rows(numbers.values())
        margins = [f"{names[name]} AS {self._quote(name)}" for name in self._margins]
        values = [
            f"{self._present(number.to_sql(names, self.dialect))} AS {self._quote(name)}"
            for name, number in numbers.items()
        ]
        self._write(f"SELECT {', '.join([*self._kept(), *margins, *values])} {self._from(query, 'rows')}")
        self._gradients, self._added = list(numbers), {}
        if self._ranked is not None:
            self._drop(self._ranked)
            self._ranked = None
        first, self._unsettled = gradients.keys() - self._offsets.keys(), set(gradients)
        self._offsets |= dict.fromkeys(first, grid_offset(1.0, self.n_rows))
        self._settle(first)

    def close(self) -> None:
        """See `Engine.close`."""
        self._state = None
        try:
            with self._open:
                for name in list(self._tables):
                    self._drop(name)
        except DataError as error:
            if self.source.scratch is not None:  # temporary tables go with the connection
                self._drop_from_elsewhere(error)

    def _drop_from_elsewhere(self, error: DataError) -> None:
        """Drop the tables over another connection, as the fit's may be lost; warn if that fails."""
        try:
            another = self.source.connection.another_session()
            if another is None:
                raise error
            with another as self.connection:
                for name in list(self._tables):
                    self._drop(name)
        except Exception as failure:
            left = f"tables of the fit may be left, to be dropped: {listed(self._tables, None)} ({reason(error)})"
            raise LeftBehindError(left) from failure

    # --- grids --------------------------------------------------------------------------------------------------------

    def _on_grid(self, name: str, offset: float | None = None) -> Rounded:
        """Return a column of the state on its grid, by default that of the gradient of the name."""
        return Rounded(Expression(name, (name,)), self._offsets[name] if offset is None else offset)

    def _sql(self, rounded: Rounded) -> str:
        """Return a column of the state on a grid as SQL."""
        return rounded.to_sql({name: self._quote(name) for name in names_used(rounded)}, self.dialect)

    def _grids(self, names: Sequence[str]) -> tuple[list[str], list[str], str]:
        """Return how to check the grids of gradients.

        The largest magnitude of each; an expression that is 0 for the right grid, 1 if the step must be larger, −1 if
        it must be smaller; and the rest of a SELECT of these.
        """
        largest, tests, values = [], [], []
        for number, name in enumerate(names):
            m, (low, high) = self._quote(f"m{number}"), grid_range(self._offsets[name], self.n_rows)
            largest.append(m)
            bounds = self.dialect.number(low), self.dialect.number(min(high, sys.float_info.max))
            tests.append(f"CASE WHEN {m} <= {bounds[0]} THEN -1 WHEN {m} <= {bounds[1]} THEN 0 ELSE 1 END")
            values.append(f"MAX(ABS({self._quote(name)})) AS {m}")
        return largest, tests, self._from(f"SELECT {', '.join(values)} FROM {self._state}", "largest")

    def _settle(self, gradients: Iterable[str]) -> None:
        """Find the grids of some gradients of this round.

        A driver may round a largest magnitude across a power of two, which the next query detects. If it is not finite,
        there is no grid and no sum.
        """
        names = sorted(gradients)
        for _ in range(3 if names else 0):
            largest, tests, rows = self._grids(names)
            named = [f"{test} AS {self._quote(f'e{number}')}" for number, test in enumerate(tests)]
            kinds = dict.fromkeys(largest, _FLOAT64) | dict.fromkeys(named, _INT64)
            row = self.connection.frame(f"SELECT {', '.join([*largest, *named])} {rows}", kinds).row(0)
            if not any(row[len(names) :]):
                break
            for name, magnitude, error in zip(names, row[: len(names)], row[len(names) :], strict=True):
                offset = grid_offset(magnitude or 0.0, self.n_rows) if error else self._offsets[name]
                is_rounded = error and offset == self._offsets[name]
                self._offsets[name] = offset * 2.0**error if is_rounded else offset
        self._unsettled -= set(names)

    # --- trees --------------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        return self._start([output], sample)[0]

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        return self._start(range(sum(name.startswith("g_") for name in self._gradients)), sample)

    def _start(self, outputs: Iterable[int], sample: Sample | None) -> list[Stats]:
        """Put all rows into the root of a tree for some outputs; return the sums of g and h of each."""
        names = [f"{name}_{output}" for output in outputs for name in "gh"]
        self.reset_nodes()
        if sample is not None:
            self._draw(sample, names)
            self._add_up_tree()
        self._root = self._sums_of_all(names) if sample is None else self._sums("0", 1)
        # The sums of all rows are those of the codes of any feature, and the root's histogram is needed next.
        features, _, sums = self._root
        return [Stats(G, H) for G, H in sums[features == 0].sum(axis=0).reshape(-1, 2).tolist()]

    def _sums_of_all(self, names: Sequence[str]) -> _Sums:
        """Return the sums of all rows, on the grids of the previous round if they are still right."""
        if self.source.scratch is None and self.dialect.statements.reads_scratch_once:
            self._settle(self._unsettled & set(names))
        self._checked = [name for name in names if name in self._unsettled]
        self._tree = [self._on_grid(name) for name in names]
        self._add_up_tree()
        features, keys, sums = self._sums("0", 1)
        self._checked = []
        if sums[features < 0].any():
            self._settle(self._unsettled & set(names))
            return self._sums_of_all(names)
        self._unsettled -= set(names)
        return features[features >= 0], keys[features >= 0], sums[features >= 0]

    def _add_up_tree(self) -> None:
        self.summed = [(self._sql(each), each.step) for each in self._tree]

    def _draw(self, sample: Sample, names: Sequence[str]) -> None:
        """Write the gradients of a sample beside those of all rows, 0 outside of the sample."""
        self._settle(self._unsettled & set(names))
        drawn = draw_query(f"SELECT * FROM {self._state}", self._quote("position"), sample.key, "draw", self.dialect)
        values, self._tree = [], []
        gradients = {name: self._sql(self._on_grid(name)) for name in names}
        for number, name in enumerate(names):
            first = number - number % 2
            value = (sample.g, sample.h)[number % 2]
            known = {**gradients, "draw": self._quote("draw")}
            known |= {x: gradients[name] for x, name in zip("gh", names[first : first + 2], strict=True)}
            values.append(f"{value.to_sql(known, self.dialect)} AS {self._quote(f'drawn_{number}')}")
            offset = value.offset if isinstance(value, Rounded) else self._offsets[name]
            self._tree.append(self._on_grid(f"drawn_{number}", offset))
        others = map(self._quote, (*self._margins, *self._gradients))
        self._write(f"SELECT {', '.join([*self._kept(), *others, *values])} {self._from(drawn, 'drawn')}")

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self._splits = {}

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self._splits.update(splits)

    def _walk(self, leaf: Callable[[int], str], node: int = 0) -> str:
        """Return the result of ``leaf`` for a row's node, as a CASE over its codes."""
        if node not in self._splits:
            return leaf(node)
        split, left, right = self._splits[node]
        sides = self._walk(leaf, left), self._walk(leaf, right)
        if sides[0] == sides[1]:
            return sides[0]
        return f"CASE WHEN {self._goes_left(split)} THEN {sides[0]} ELSE {sides[1]} END"

    def _goes_left(self, split: Split) -> str:
        column, missing = self._quote(f"code_{split.feature}"), self.layout.bins[split.feature].missing
        if split.categories is not None:
            return f"{column} {'NOT ' if split.missing_left else ''}IN ({', '.join(map(str, split.categories))})"
        return f"{column} < {split.bin}" + (f" OR {column} = {missing}" if split.missing_left else "")

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        value = self._walk(lambda node: self.dialect.number(values.get(node, 0.0)))
        added = self._added.get(margin, [])
        if added and (len(added) == _MOST_ADDED or sum(map(len, [*added, value])) > _LONGEST_ADDED):
            query, names = self._rows()
            margins = [f"{names[name]} AS {self._quote(name)}" for name in self._margins]
            others = map(self._quote, self._gradients)
            self._write(f"SELECT {', '.join([*self._kept(), *margins, *others])} {self._from(query, 'rows')}")
            self._added = {}
        self._added.setdefault(margin, []).append(value)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        quote, number = self._quote, self.dialect.number
        used = names_used(*self._tree)  # those of a sample are no gradients that expressions know
        query, names = self._rows((value,) if weight is None else (value, weight), used)
        node, v, w = map(quote, ("node", "v", "w"))
        weights = "" if weight is None else f", {weight.to_sql(names, self.dialect)} AS {w}"
        columns = f"{self._walk(str)} AS {node}, {value.to_sql(names, self.dialect)} AS {v}{weights}"
        rows = f"SELECT {columns} {self._from(query, 'rows')} WHERE {self._sql(self._tree[1])} > 0"
        by_node, low, high, quantile = f"PARTITION BY {node}", quote("low"), quote("high"), quote("quantile")
        floor = quote("floor")
        if weight is None:
            # At rank alpha (n + 1), between two neighbours, or the first or the last one.
            place, n = f"ROW_NUMBER() OVER ({by_node} ORDER BY {v} ASC)", f"COUNT(*) OVER ({by_node})"
            placed = (
                f"SELECT {node}, {v}, {place} AS {quote('place')}, {n} AS {quote('n')} {self._from(rows, 'valued')}"
            )
            count, at = self.dialect.cast(quote("n"), "float64"), self.dialect.cast(quote("place"), "float64")
            rank = f"({number(alpha)} * ({count} + {number(1.0)}))"
            # Without FLOOR, which not every SQLite has: the place that the rank is at or behind, and before the next.
            one = number(1.0)
            is_low = f"{at} <= {rank} AND {rank} < {at} + {one}"
            is_high = f"{at} - {one} <= {rank} AND {rank} < {at}"
            ends = (
                f"SELECT {node}, {quote('n')}, MIN({v}) AS {quote('first')}, MAX({v}) AS {quote('last')}, "
                f"MAX(CASE WHEN {is_low} THEN {v} END) AS {low}, MAX(CASE WHEN {is_high} THEN {v} END) AS {high}, "
                f"MAX(CASE WHEN {is_low} THEN {at} END) AS {floor} "
                f"{self._from(placed, 'placed')} GROUP BY {node}, {quote('n')}"
            )
            text = (
                f"SELECT {node}, CASE WHEN {number(alpha)} <= {one} / ({count} + {one}) THEN {quote('first')} "
                f"WHEN {number(alpha)} >= {count} / ({count} + {one}) THEN {quote('last')} "
                f"ELSE {low} + ({rank} - {one} - ({floor} - {one})) * ({high} - {low}) END AS {quantile} "
                f"{self._from(ends, 'ends')}"
            )
        else:
            reached = f"SUM({w}) OVER ({by_node} ORDER BY {v} ASC) AS {quote('reached')}"
            total = f"SUM({w}) OVER ({by_node}) AS {quote('total')}"
            running = f"SELECT {node}, {v}, {reached}, {total} {self._from(rows, 'valued')}"
            text = (
                f"SELECT {node}, MIN({v}) AS {quantile} {self._from(running, 'running')} "
                f"WHERE {quote('reached')} >= {quote('total')} * {number(alpha)} GROUP BY {node}"
            )
        read = self.connection.frame(text, {"node": _INT64, "quantile": _FLOAT64})
        return dict(zip(read["node"].to_list(), read["quantile"].to_list(), strict=True))

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        self.vector_histograms(nodes, out[:, np.newaxis], indices)

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `VectorEngine.vector_histograms`."""
        self._write_sums(self._sums_of_nodes(nodes) if self._splits else self._root, out, indices)

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        has_gradient = " OR ".join(f"{self._sql(each)} <> 0" for each in self._tree)
        one, zero = self.dialect.number(1.0), self.dialect.number(0.0)
        self.summed = [(f"CASE WHEN {has_gradient} THEN {one} ELSE {zero} END", 1.0)]
        features, keys, counts = self._sums_of_nodes(nodes)
        self._add_up_tree()
        self._write_sums((features, keys, np.pad(counts, ((0, 0), (0, 1)))), out[:, np.newaxis], indices)

    def _sums_of_nodes(self, nodes: Sequence[int]) -> _Sums:
        """Return the sums of some nodes, by several queries if that is faster."""
        most, stride = self.dialect.statements.most_keys, self.stride
        n_parts = 1 if most is None else -(-len(nodes) // max(1, most // stride))
        size = -(-len(nodes) // (n_parts if n_parts <= _MAX_PARTS else 1))
        parts = []
        for first in range(0, len(nodes), size):
            part = nodes[first : first + size]
            features, keys, sums = self._sums(self._first_keys(part), len(part))
            parts.append((features, keys + first * stride, sums))
        return _together(parts)

    def _first_keys(self, nodes: Sequence[int]) -> str:
        """Return the SQL of the first key of a row's node, among these nodes; larger than all keys elsewhere."""
        keys = {node: number * self.stride for number, node in enumerate(nodes)}
        return self._walk(lambda node: str(keys.get(node, len(nodes) * self.stride)))

    def _write_sums(self, sums_by_key: _Sums, out: FloatArray, indices: IntArray) -> None:
        """Write sums to the histograms of nodes, float64 (histograms, outputs or more, slots, 2)."""
        features, keys, sums = sums_by_key
        number, code = np.divmod(keys, self.stride)
        out[indices] = 0.0
        of_outputs = sums.reshape(len(sums), -1, 2)
        out[indices[number], : of_outputs.shape[1], self.layout.offsets[features] + code] = of_outputs

    def _sums(self, place: str, n_nodes: int) -> _Sums:
        """Return the sums of the rows in some nodes, from `_first_keys`."""
        return SHAPES[self.dialect.statements.histogram](self, place, n_nodes)

    @property
    def stride(self) -> int:
        """The number of keys of a node, for grouping: a code is added to its first one."""
        return max(bins.count + 1 for bins in self.layout.bins)

    # --- shapes of the query of a level -------------------------------------------------------------------------------

    def rows_of_level(self, place: str, n_nodes: int) -> str:
        """Return the query of the rows in a level's nodes: summed values, and the keys of all features.

        In this order, as row stores read columns up to the last one that a SELECT needs.
        """
        codes = [self._quote(f"code_{number}") for number in range(len(self.features))]
        summed = [f"{value} AS {name}" for name, (value, _) in zip(self.values, self.summed, strict=True)]
        p, keys, rows = self._quote("p"), codes, f"FROM {self._state}"
        if self._splits:
            walked = f"SELECT {', '.join([f'{place} AS {p}', *codes, *summed])} {rows}"
            rows, summed = f"{self._from(walked, 'walked')} WHERE {p} < {n_nodes * self.stride}", self.values
        if n_nodes > 1:
            last = n_nodes * self.stride - 1
            keys = [self.dialect.narrow(f"{p} + {code}", last) for code in codes]
        named = [f"{key} AS {self._quote(f'k{number}')}" for number, key in enumerate(keys)]
        return f"SELECT {', '.join([*summed, *named])} {rows}"

    def level(self, place: str, n_nodes: int) -> str:
        """Return `rows_of_level` as a FROM item."""
        return self._from(self.rows_of_level(place, n_nodes), "level")

    @property
    def values(self) -> list[str]:
        """The summed columns of a level."""
        return [self._quote(f"v{number}") for number in range(len(self.summed))]

    @property
    def sums(self) -> str:
        """The sums of a level."""
        return ", ".join(f"SUM({name}) AS {self._quote(f's{number}')}" for number, name in enumerate(self.values))

    def read(self, query: str, *integers: str) -> tuple[list[npt.NDArray[np.int64]], FloatArray]:
        """Return the result of a query of sums: some integer columns, and the sums.

        To check grids, there is one more row, of integers −1 and the result of `_grids`.
        """
        names, steps = [f"s{number}" for number in range(len(self.summed))], [step for _, step in self.summed]
        # The same types in both rows of a union.
        values = {name: self.dialect.cast(self._quote(name), "int64") for name in integers}
        values |= {name: self._in_steps(self._quote(name), step) for name, step in zip(names, steps, strict=True)}
        columns = [f"{value} AS {self._quote(name)}" for name, value in values.items()]
        text = f"SELECT {', '.join(columns)} {self._from(query, 'summed')}"
        if self._checked:
            tests, rows = self._grids(self._checked)[1:]
            tests += ["0"] * (len(names) - len(tests))
            text += f"\nUNION ALL\nSELECT {', '.join([*(['-1'] * len(integers)), *tests])} {rows}"
        read = self.connection.frame(text, dict.fromkeys([*integers, *names], _INT64))
        return [read[name].to_numpy() for name in integers], read.select(names).cast(pl.Float64).to_numpy() * steps

    def grouped(self, source: str) -> str:
        """Return a query that sums the rows of a level by each feature in turn."""
        keys = [self._quote(f"k{number}") for number in range(len(self.features))]
        f, k = self._quote("f"), self._quote("k")
        return "\nUNION ALL\n".join(
            f"SELECT {number} AS {f}, {key} AS {k}, {self.sums} FROM {source} GROUP BY {key}"
            for number, key in enumerate(keys)
        )

    def in_level_table(self, place: str, n_nodes: int) -> _Sums:
        """Return the sums of a level through a table of its rows."""
        table = self._create(self.rows_of_level(place, n_nodes))
        try:
            return _by_feature(self, self.grouped(table))
        finally:
            self._drop(table)


@dataclass(frozen=True)
class _Scores:
    """The distinct scores, computed by each aggregation; nothing is stored."""

    rows: SqlEngine
    score: Scalar
    positive: Scalar
    negative: Scalar

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        names, scores = self.rows.scores(self.score, self.positive, self.negative)
        return self.rows.aggregated(aggregates, names, scores)


def names_of(names: Mapping[str, str], without: Sequence[str]) -> list[str]:
    """Return the columns of some names, except those of others."""
    return [column for name, column in names.items() if name not in without]


def _are_close(a: float | None, b: float | None, tolerance: float) -> bool:
    """Whether two numbers are equal, up to a tolerance, or both missing."""
    return a == b or (a is not None and b is not None and abs(a - b) <= tolerance)


def _together(parts: Sequence[_Sums]) -> _Sums:
    features, keys, sums = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return features, keys, sums


def _by_feature(engine: SqlEngine, query: str) -> _Sums:
    (features, keys), sums = engine.read(query, "f", "k")
    return features, keys, sums


def _union(engine: SqlEngine, place: str, n_nodes: int) -> _Sums:
    """Sum by a SELECT for each feature over a common table expression, which is computed once."""
    level, select = engine.dialect.quote("level"), engine.rows_of_level(place, n_nodes).removeprefix("SELECT ")
    fenced = engine.dialect.statements.fenced_stage.format(name=level, select=select)
    return _by_feature(engine, f"WITH {fenced}\n{engine.grouped(level)}")


def _level_table(engine: SqlEngine, place: str, n_nodes: int) -> _Sums:
    """Sum by a SELECT for each feature over a table of the level."""
    return engine.in_level_table(place, n_nodes)


def _grouping_sets(engine: SqlEngine, place: str, n_nodes: int) -> _Sums:
    """Sum by GROUPING SETS, one per feature; as many at a time as the database allows."""
    quote, n_features = engine.dialect.quote, len(engine.features)
    most = engine.dialect.statements.most_sets or n_features
    parts = []
    for first in range(0, n_features, most):
        grouped = {number: quote(f"k{number}") for number in range(first, min(first + most, n_features))}
        f, k = engine.dialect.statements.set_and_key(grouped)
        sets = ", ".join(f"({key})" for key in grouped.values())
        query = (
            f"SELECT {f} AS {quote('f')}, {k} AS {quote('k')}, {engine.sums} {engine.level(place, n_nodes)} "
            f"GROUP BY GROUPING SETS ({sets})"
        )
        parts.append(_by_feature(engine, query))
    return _together(parts)


def _sets_of_a_node(engine: SqlEngine, place: str, n_nodes: int) -> _Sums:
    """Sum a single node by GROUPING SETS, as it has few sums in all, and several nodes by a SELECT for each feature."""
    return (_grouping_sets if n_nodes == 1 else _union)(engine, place, n_nodes)


def _unnest(engine: SqlEngine, place: str, n_nodes: int) -> _Sums:
    """Sum by one GROUP BY over unpivoted rows: a row for each feature."""
    quote, width = engine.dialect.quote, engine.stride * n_nodes
    keys = ", ".join(f"{number * width} + {quote(f'k{number}')}" for number in range(len(engine.features)))
    unpivoted = (
        f"SELECT {', '.join(engine.values)}, EXPLODE(ARRAY({keys})) AS {quote('k')} {engine.level(place, n_nodes)}"
    )
    rows = f"({unpivoted}) {engine.dialect.statements.alias}{quote('unpivoted')}"
    (k,), sums = engine.read(f"SELECT {quote('k')}, {engine.sums} FROM {rows} GROUP BY {quote('k')}", "k")
    features, keys_of_features = np.divmod(k, width)
    return features, keys_of_features, sums


# How a database adds up the rows of a level by the code of each feature: `Statements.histogram`.
SHAPES: dict[str, Callable[[SqlEngine, str, int], _Sums]] = {
    "union": _union,
    "level_table": _level_table,
    "grouping_sets": _grouping_sets,
    "sets_of_a_node": _sets_of_a_node,
    "unnest": _unnest,
}
