"""Syntax trees of scalar SQL expressions: parsed by sqlglot, checked, and folded into SQL or polars expressions.

To allow another function, add its sqlglot node to `_UNARY` or `_BINARY`, its polars function to `_POLARS`, its name to
`_SUPPORTED`, and its instruction to `frameboost.engines.memory.programs.kernels`. Dialects write it by its standard
name unless they have another one.

This module is imported only when there is something to parse, because importing sqlglot takes long.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from typing import Protocol, TypeVar, cast

import polars as pl
import sqlglot
from sqlglot import exp

from frameboost.checks.messages import reason, shortened, shown
from frameboost.errors import ParameterError
from frameboost.expressions.operators import OPERATORS
from frameboost.expressions.sql_writer import SqlWriter

__all__ = ["ExpressionTree", "Folder", "case_parts", "split_aggregates"]

_UNARY: dict[type[exp.Expression], str] = {
    exp.Neg: "NEG",
    exp.Not: "NOT",
    exp.Sign: "SIGN",
    exp.Exp: "EXP",
    exp.Ln: "LN",
    exp.Abs: "ABS",
    exp.Sqrt: "SQRT",
    exp.Floor: "FLOOR",
}
_BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.And: "AND",
    exp.Or: "OR",
    exp.Pow: "POWER",
}
_OPERATORS = set(_BINARY.values()) - {"POWER"}
_COMPARISONS = {"<", "<=", ">", ">=", "=", "<>"}
_AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Count: "count",
}
_SUPPORTED = "numbers, + - * /, comparisons, AND OR NOT, CASE, IS NULL, EXP LN ABS SQRT FLOOR SIGN POWER GREATEST LEAST"


@lru_cache(maxsize=1024)
def _parsed(text: str) -> exp.Expression:
    """Return the syntax tree of one SQL expression (not to be changed), or raise `ParameterError`."""
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        # `reason` keeps the first line; the lines after it are the text, with colours for a terminal.
        raise ParameterError(f"{shown(text)} is not a SQL expression: {reason(error)}") from error
    if len(statements) != 1 or statements[0] is None:
        raise ParameterError(f"{shown(text)} is not one SQL expression")
    return cast("exp.Expression", statements[0])


T = TypeVar("T")


class Folder(Protocol[T]):
    """A fold over a syntax tree: computes a node's result from the results of its children.

    >>> from frameboost.expressions.expression import Expression
    >>> class Depth:
    ...     def column(self, name): return 1
    ...     def number(self, value): return 1
    ...     def apply(self, function, *arguments): return 1 + max(arguments)
    >>> Expression("EXP(-margin) + label").fold(Depth())
    4
    """

    def column(self, name: str) -> T:
        """Return the result of a column."""

    def number(self, value: float) -> T:
        """Return the result of a constant."""

    def apply(self, function: str, *arguments: T) -> T:
        """Return the result of a function or an operator, named as in SQL (unary minus is NEG).

        The arguments of ``CASE`` are a condition and a value for each branch, then the value of ELSE if there is one.
        """


class ExpressionTree:
    """The parsed text of an `Expression`; ``to_sql`` refuses what is not supported."""

    def __init__(self, text: str, columns: tuple[str, ...]) -> None:
        self.text = text
        self.columns = columns
        self._root = _parsed(text)

    def to_sql(self, columns: Mapping[str, str], writer: SqlWriter) -> str:
        """See `frameboost.expressions.expression.Expression.to_sql`."""
        return self.fold(_InSql(columns, writer))

    def to_polars(self, columns: Mapping[str, pl.Expr]) -> pl.Expr:
        """See `frameboost.expressions.expression.Expression.to_polars`."""
        return self.fold(_InPolars(columns))

    def fold(self, folder: Folder[T]) -> T:
        """Return the result of the root."""
        return self._fold(self._root, folder)

    def renamed(self, names: Mapping[str, str]) -> str:
        """Return the text with names replaced by those given for them; other names stay."""

        def rename(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column):
                return exp.column(names.get(self._name(node), self._name(node)))
            return node

        return self._root.copy().transform(rename).sql(dialect="duckdb")

    def is_condition(self) -> bool:
        """Whether it is Boolean rather than a number; raise `ParameterError` where one stands in the other's place."""
        return self.fold(_IsCondition(self.text))

    def uses(self, name: str) -> int:
        """Return how often the expression names that column."""
        return self._uses[name]

    @cached_property
    def _uses(self) -> Counter[str]:
        return Counter(node.name.lower() for node in self._root.find_all(exp.Column))

    def _unsupported(self, node: exp.Expression) -> ParameterError:
        if isinstance(node, exp.Column):
            return ParameterError(
                f"the expression {shown(self.text)} uses {shown(node.sql())}; it may use {', '.join(self.columns)}"
            )
        return ParameterError(
            f"the expression {shown(self.text)} uses {shown(node.sql(dialect='duckdb'))}, which not every engine has; "
            f"it may use {_SUPPORTED}"
        )

    def _name(self, node: exp.Column) -> str:
        name = str(node.name).lower()
        if name not in self.columns or len(node.parts) > 1:
            raise self._unsupported(node)
        return name

    def _number(self, node: exp.Literal) -> float:
        if node.is_string:
            raise self._unsupported(node)
        try:
            value = float(node.this)
        except ValueError as error:  # sqlglot reads "1e" as a number
            raise ParameterError(
                f"the expression {shown(self.text)} has {shown(node.this)}, which is no number"
            ) from error
        if not math.isfinite(value):
            raise ParameterError(
                f"the expression {shown(self.text)} has the number {shortened(node.this)}, which is beyond any float64"
            )
        return value

    def _fold(self, node: exp.Expression, folder: Folder[T]) -> T:
        def walk(child: exp.Expression) -> T:
            return self._fold(child, folder)

        match node:
            case exp.Column():
                return folder.column(self._name(node))
            case exp.Literal():
                return folder.number(self._number(node))
            case exp.Paren():
                return walk(node.this)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return folder.apply("IS NULL", walk(node.this))
            case exp.Case() if node.this is None:
                parts = [part for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
                default = node.args.get("default")
                return folder.apply("CASE", *map(walk, parts if default is None else [*parts, default]))
            case exp.Greatest() | exp.Least() if (
                not node.expressions
            ):  # one is itself; MAX of one is an aggregate in SQLite
                if node.this is None:
                    raise self._unsupported(node)
                return walk(node.this)
            case exp.Greatest() | exp.Least():
                return folder.apply(type(node).__name__.upper(), *map(walk, (node.this, *node.expressions)))
        # Such as the digits of FLOOR(label, 1).
        more = [value for key, value in node.args.items() if key not in ("this", "expression")]
        if any(isinstance(value, exp.Expression) for value in more):
            raise self._unsupported(node)
        if type(node) in _UNARY:
            return folder.apply(_UNARY[type(node)], walk(node.this))
        if type(node) in _BINARY:
            return folder.apply(_BINARY[type(node)], walk(node.this), walk(node.expression))
        raise self._unsupported(node)


class _InSql:
    """Writes an expression as SQL."""

    def __init__(self, columns: Mapping[str, str], writer: SqlWriter) -> None:
        self._columns = columns
        self._writer = writer

    def column(self, name: str) -> str:
        return self._columns[name]

    def number(self, value: float) -> str:
        return self._writer.number(value)

    def apply(self, function: str, *arguments: str) -> str:
        match function:
            case "NEG":
                return f"(-{arguments[0]})"
            case "NOT":
                return f"(NOT {arguments[0]})"
            case "IS NULL":
                return f"({arguments[0]} IS NULL)"
            case "CASE":
                branches, default = case_parts(arguments)
                cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
                return f"CASE {cases}{'' if default is None else f' ELSE {default}'} END"
        if function in _OPERATORS:
            return f"({arguments[0]} {function} {arguments[1]})"
        return self._writer.call(function, arguments)


class _IsCondition:
    """Checks types: databases differ in the number that a condition is, so none may stand where a number must."""

    def __init__(self, text: str) -> None:
        self._text = text

    def column(self, name: str) -> bool:
        return False

    def number(self, value: float) -> bool:
        return False

    def apply(self, function: str, *arguments: bool) -> bool:
        match function:
            case "CASE":
                branches, default = case_parts(arguments)
                values = [value for _, value in branches] + ([] if default is None else [default])
                self._require(True, (condition for condition, _ in branches), "WHEN")
                self._require(values[0], values, "THEN and ELSE" if values[0] else "CASE")
                return values[0]
            case "IS NULL":
                return True
            case "NOT" | "AND" | "OR":
                self._require(True, arguments, function)
                return True
        self._require(False, arguments, function)
        return function in _COMPARISONS

    def _require(self, wanted: bool, found: Iterable[bool], function: str) -> None:
        if any(is_condition is not wanted for is_condition in found):
            takes, has = ("a condition", "a number") if wanted else ("a number", "a condition")
            raise ParameterError(
                f"the expression {shown(self._text)} has {has} in {function}, which takes {takes}; write "
                + ("a comparison" if wanted else "CASE WHEN ... THEN 1 ELSE 0 END")
            )


class _InPolars:
    """Makes a polars expression."""

    def __init__(self, columns: Mapping[str, pl.Expr]) -> None:
        self._columns = columns

    def column(self, name: str) -> pl.Expr:
        return self._columns[name]

    def number(self, value: float) -> pl.Expr:
        return pl.lit(value, dtype=pl.Float64)

    def apply(self, function: str, *arguments: pl.Expr) -> pl.Expr:
        return _POLARS[function](*arguments)


def case_parts(arguments: Sequence[T]) -> tuple[list[tuple[T, T]], T | None]:
    """Return the branches of a CASE from the arguments of `Folder.apply`, and the value of ELSE or None.

    >>> case_parts(("a > 0", "1", "a < 0", "-1", "0"))
    ([('a > 0', '1'), ('a < 0', '-1')], '0')
    """
    n_branches = len(arguments) // 2
    branches = [(arguments[2 * i], arguments[2 * i + 1]) for i in range(n_branches)]
    return branches, arguments[-1] if len(arguments) % 2 else None


def _case(*arguments: pl.Expr) -> pl.Expr:
    branches, default = case_parts(arguments)
    ending = pl.lit(None, dtype=pl.Float64) if default is None else default
    return reduce(lambda otherwise, b: pl.when(b[0]).then(b[1]).otherwise(otherwise), reversed(branches), ending)


def _quotient(value: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """Return the quotient. Polars multiplies by 1 / constant, which rounds twice; so a constant becomes a column."""
    if not divisor.meta.is_literal():
        return value / divisor
    number = pl.select(divisor).item()
    is_power_of_two = abs(math.frexp(number)[0]) == 0.5
    return value / (number if is_power_of_two else value.clip(number, number))  # clipped to the number in every row


def _sign(value: pl.Expr) -> pl.Expr:
    """Return the sign as DuckDB does: 0.0 of -0.0 and of NaN."""
    return pl.when(value == 0).then(0.0).otherwise(value.sign().fill_nan(0.0))


_POLARS: dict[str, Callable[..., pl.Expr]] = {
    **OPERATORS,
    "NOT": operator.invert,
    "IS NULL": pl.Expr.is_null,
    "SIGN": _sign,
    "EXP": pl.Expr.exp,
    "LN": pl.Expr.log,
    "ABS": pl.Expr.abs,
    "SQRT": pl.Expr.sqrt,
    "FLOOR": pl.Expr.floor,
    "/": _quotient,
    "POWER": pl.Expr.pow,
    # The same but for NaN, which SQL takes for the largest number; no label, weight or margin is NaN.
    "GREATEST": pl.max_horizontal,
    "LEAST": pl.min_horizontal,
    "CASE": _case,
}


@lru_cache(maxsize=1024)
def split_aggregates(text: str) -> tuple[dict[str, tuple[str, str]], str]:
    """Return the aggregates of a metric by name, each as function and argument, and the expression over those names.

    Results are cached; callers must not change them.

    >>> split_aggregates("SQRT(SUM(weight * label) / SUM(weight))")
    ({'aggregate_0': ('sum', 'weight * label'), 'aggregate_1': ('sum', 'weight')}, 'SQRT(aggregate_0 / aggregate_1)')
    """
    tree = _parsed(text).copy()
    found: dict[str, tuple[str, str]] = {}
    outermost = [n for n in tree.find_all(*_AGGREGATES) if not n.find_ancestor(*_AGGREGATES)]
    if not outermost:
        raise ParameterError(f"the metric {shown(text)} is not an aggregate; write SUM(...), AVG(...), MIN or MAX")
    for node in outermost:
        name = f"aggregate_{len(found)}"
        if isinstance(node, exp.Count) and not isinstance(node.this, exp.Star):
            raise ParameterError(f"the metric {shown(text)} counts values; only COUNT(*) can be used")
        more = [value for key, value in node.args.items() if key not in ("this", "big_int")]
        if any(more) or isinstance(node.this, exp.Distinct):
            raise ParameterError(f"the metric {shown(text)} has an aggregate of something else than one expression")
        found[name] = (_AGGREGATES[type(node)], "1" if isinstance(node, exp.Count) else node.this.sql("duckdb"))
        place = exp.column(name)
        if node is tree:
            tree = place
        else:
            node.replace(place)
    return found, tree.sql(dialect="duckdb")
