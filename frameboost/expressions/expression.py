"""Scalar SQL expressions: a loss, a metric or a link is written once, and every engine computes it.

An expression is a string such as ``"1 / (1 + EXP(-margin)) - label"``. It is parsed once, and every node of its syntax
tree is checked against an allowlist of functions that all engines compute alike; anything else is an error and never
reaches a database. The tree is folded, from the leaves up, into SQL, a polars expression or a number (`value_of`). All
numbers are float64.

To allow another function, add its sqlglot node to `_UNARY` or `_BINARY`, its polars function to `_POLARS`, its name to
`_SUPPORTED`, and its instruction to `frameboost.engines.programs`. Dialects write its standard name unless they define
another.

sqlglot is slow to import, and is imported only to parse.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import polars as pl

from frameboost.checks.messages import reason, shortened, shown
from frameboost.errors import ParameterError

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "DUCKDB_WRITER", "Expression", "Folder", "InSql", "SqlWriter", "case_parts", "float_literal", "split_aggregates",
    "value_of",
]  # fmt: skip

T = TypeVar("T")


# --- how numbers and calls are written --------------------------------------------------------------------------------


def float_literal(value: float) -> str:
    """Return ``value`` as a SQL literal of type DOUBLE that reads back as the same float64.

    >>> float_literal(0.1), float_literal(1e-320), float_literal(float("-inf"))
    ('0.1e0', '1e-320', "CAST('-Infinity' AS DOUBLE)")
    """
    if value in (float("inf"), float("-inf")):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"  # without an exponent it would be a DECIMAL


class SqlWriter(Protocol):
    """Writes numbers and calls in a database's SQL; dialects implement it (`frameboost.dialects`)."""

    def number(self, value: float) -> str:
        """Return a literal of type DOUBLE."""

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of a function by its standard name."""


class _DuckDBWriter:
    def number(self, value: float) -> str:
        return float_literal(value)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        text = f"{function}({', '.join(arguments)})"
        return f"CAST({text} AS DOUBLE)" if function == "SIGN" else text  # DuckDB's SIGN returns a TINYINT


DUCKDB_WRITER = _DuckDBWriter()


# --- expressions ------------------------------------------------------------------------------------------------------

# By sqlglot's nodes, the name of a function or an operator in SQL; unary minus is NEG.
_UNARY: dict[str, str] = {
    "Neg": "NEG",
    "Not": "NOT",
    "Sign": "SIGN",
    "Exp": "EXP",
    "Ln": "LN",
    "Abs": "ABS",
    "Sqrt": "SQRT",
    "Floor": "FLOOR",
}
_BINARY: dict[str, str] = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "EQ": "=",
    "NEQ": "<>",
    "And": "AND",
    "Or": "OR",
    "Pow": "POWER",
}
_OPERATORS = set(_BINARY.values()) - {"POWER"}
_COMPARISONS = {"<", "<=", ">", ">=", "=", "<>"}
_AGGREGATES: dict[str, str] = {
    "Sum": "sum",
    "Avg": "avg",
    "Min": "min",
    "Max": "max",
    "Count": "count",
}
_SUPPORTED = "numbers, + - * /, comparisons, AND OR NOT, CASE, IS NULL, EXP LN ABS SQRT FLOOR SIGN POWER GREATEST LEAST"


@dataclass(frozen=True)
class Expression:
    """A scalar SQL expression over named columns, parsed and validated.

    Parameters
    ----------
    text
        The expression. Arithmetic, comparisons, ``CASE`` and a handful of functions.
    columns
        The allowed names.

    Raises
    ------
    ParameterError
        If it is not a single SQL expression, or uses another name or an unsupported function.

    Examples
    --------
    >>> half = Expression("margin / 2", columns=("margin",))
    >>> half.to_sql({"margin": "(m + 1)"})
    '((m + 1) / 2.0e0)'
    >>> pl.select(half.to_polars({"margin": pl.lit(3.0)})).item()
    1.5
    """

    text: str
    columns: tuple[str, ...] = ("label", "margin", "weight")

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ParameterError(f"a SQL expression must be a string, not {shown(self.text)}")
        if self.text in self.columns or self.text in ("0", "1"):  # frequent, and nothing to parse
            return
        try:
            self.is_condition  # noqa: B018  # walks the whole tree, and so checks every node
        except RecursionError:
            raise ParameterError(f"the expression {shown(self.text[:40])}... is nested too deeply") from None

    @cached_property
    def _root(self) -> exp.Expression:
        return _parsed(self.text)

    def to_sql(self, columns: Mapping[str, str], writer: SqlWriter = DUCKDB_WRITER) -> str:
        """Return the expression as SQL, by default DuckDB's, with names replaced by their SQL in ``columns``."""
        return self.fold(InSql(columns, writer))

    def to_polars(self, columns: Mapping[str, pl.Expr] | None = None) -> pl.Expr:
        """Return the expression for polars, with names replaced by ``columns`` (by default columns)."""
        return self.fold(_InPolars(columns or {name: pl.col(name) for name in self.columns}))

    def renamed(self, names: Mapping[str, str]) -> Expression:
        """Return the expression with the names in ``names`` replaced; other names stay."""
        if all(names.get(name, name) == name for name in self.columns):
            return self
        from sqlglot import exp

        def rename(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column):
                return exp.column(names.get(self._name(node), self._name(node)))
            return node

        text = self._root.copy().transform(rename).sql(dialect="duckdb")
        return Expression(text, tuple(names.get(name, name) for name in self.columns))

    @cached_property
    def is_condition(self) -> bool:
        """Whether the expression is Boolean rather than a number; `ParameterError` if one is used as the other."""
        return self.fold(_IsCondition(self.text))

    def required_number(self, what: str) -> Expression:
        """Return the expression; raise `ParameterError` if it is a condition; ``what`` names it in the message."""
        if self.is_condition:
            raise ParameterError(f"{what} {shown(self.text)} is true or false, not a number")
        return self

    def uses(self, name: str) -> int:
        """Return the number of occurrences of a column."""
        return self._uses[name]

    @cached_property
    def _uses(self) -> Counter[str]:
        from sqlglot import exp

        return Counter(node.name.lower() for node in self._root.find_all(exp.Column))

    def fold(self, folder: Folder[T]) -> T:
        """Fold the syntax tree from the leaves up (see `Folder`)."""
        return self._fold(self._root, folder)

    def _unsupported(self, node: exp.Expression) -> ParameterError:
        from sqlglot import exp

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
                f"the expression {shown(self.text)} has {shown(node.this)}, which is not a number"
            ) from error
        if not math.isfinite(value):
            raise ParameterError(
                f"the expression {shown(self.text)} has the number {shortened(node.this)}, which is beyond any float64"
            )
        return value

    def _fold(self, node: exp.Expression, folder: Folder[T]) -> T:
        from sqlglot import exp

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
        if (name := type(node).__name__) in _UNARY:
            return folder.apply(_UNARY[name], walk(node.this))
        if name in _BINARY:
            return folder.apply(_BINARY[name], walk(node.this), walk(node.expression))
        raise self._unsupported(node)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> exp.Expression:
    """Return the syntax tree of one SQL expression (not to be changed), or raise `ParameterError`."""
    import sqlglot

    try:
        statements = sqlglot.parse(text, read="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        # `reason` keeps the first line; the lines after it are the text, with colours for a terminal.
        raise ParameterError(f"{shown(text)} is not a SQL expression: {reason(error)}") from error
    if len(statements) != 1 or statements[0] is None:
        raise ParameterError(f"{shown(text)} is not one SQL expression")
    return cast("exp.Expression", statements[0])


# --- folds: from the leaves of a syntax tree up -----------------------------------------------------------------------


class Folder(Protocol[T]):
    """A fold over a syntax tree: computes the result of a node from those of its children.

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

        The arguments of ``CASE`` are a condition and a value for each branch, then the value of ELSE, if any.
        """


# What Python's numbers and polars' expressions have alike. Without division: polars has a value for one by zero.
_ALIKE: Mapping[str, Callable[..., Any]] = {
    "NEG": operator.neg,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
    "AND": operator.and_,
    "OR": operator.or_,
}


class InSql:
    """Writes an expression as SQL (see `Folder`)."""

    def __init__(self, columns: Mapping[str, str], writer: SqlWriter) -> None:
        self._columns = columns
        self._writer = writer

    def column(self, name: str) -> str:
        """Return the SQL of a column."""
        return self._columns[name]

    def number(self, value: float) -> str:
        """Return a literal."""
        return self._writer.number(value)

    def apply(self, function: str, *arguments: str) -> str:
        """Return a call or an operation."""
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
    """Checks types: databases differ in the numbers of conditions, so none may be used as a number."""

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

    def _require(self, takes_conditions: bool, are_conditions: Iterable[bool], function: str) -> None:
        if any(is_condition is not takes_conditions for is_condition in are_conditions):
            takes, has = ("a condition", "a number") if takes_conditions else ("a number", "a condition")
            raise ParameterError(
                f"the expression {shown(self._text)} has {has} in {function}, which takes {takes}; write "
                + ("a comparison" if takes_conditions else "CASE WHEN ... THEN 1 ELSE 0 END")
            )


class _InPolars:
    """Builds a polars expression."""

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
    """Return the quotient. Polars multiplies by 1 / constant, which rounds twice, so constants become columns."""
    if not divisor.meta.is_literal():
        return value / divisor
    number = pl.select(divisor).item()
    is_power_of_two = abs(math.frexp(number)[0]) == 0.5
    return value / (number if is_power_of_two else value.clip(number, number))  # clipped to the number in every row


def _sign(value: pl.Expr) -> pl.Expr:
    """Return the sign as DuckDB does: 0.0 of -0.0 and of NaN."""
    return pl.when(value == 0).then(0.0).otherwise(value.sign().fill_nan(0.0))


_POLARS: dict[str, Callable[..., pl.Expr]] = {
    **_ALIKE,
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


# --- the value for one number of each name: arithmetic in Python, without a query of polars ---------------------------

_Program = Callable[[Mapping[str, float]], Any]


def value_of(expression: Expression, numbers: Mapping[str, float]) -> float | None:
    """Evaluate an expression, bitwise equal to polars; None for NULL.

    >>> value_of(Expression("SQRT(total / n)", ("total", "n")), {"total": 18.0, "n": 2.0})
    3.0
    """
    try:
        return float(_program(expression)(numbers))
    except (ArithmeticError, ValueError, LookupError):  # values that Python lacks, or may round otherwise
        result = pl.select(expression.to_polars({name: pl.lit(value) for name, value in numbers.items()})).item()
        return None if result is None else float(result)


@lru_cache(maxsize=256)
def _program(expression: Expression) -> _Program:
    return expression.fold(_InPython())


class _InPython:
    """Evaluates numbers in Python; raises an exception for NaN, or for an unknown function."""

    def column(self, name: str) -> _Program:
        return lambda numbers: _number(numbers[name])

    def number(self, value: float) -> _Program:
        return lambda _: value

    def apply(self, function: str, *arguments: _Program) -> _Program:
        return lambda numbers: _number(_FUNCTIONS[function](*[argument(numbers) for argument in arguments]))


def _number(value: Any) -> Any:
    if value != value:
        raise ValueError
    return value


def _case_of_numbers(*arguments: Any) -> Any:
    if len(arguments) % 2 == 0:  # no ELSE, which is NULL
        raise ValueError
    branches = zip(arguments[:-1:2], arguments[1::2], strict=True)
    return next((value for condition, value in branches if condition), arguments[-1])


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **_ALIKE,
    "NOT": operator.not_,
    "ABS": abs,
    "SQRT": math.sqrt,
    "EXP": math.exp,  # the C library's function, as in polars
    "LN": math.log,
    "/": operator.truediv,
    "GREATEST": max,
    "LEAST": min,
    "CASE": _case_of_numbers,
}


# --- metrics: aggregates, and an expression over them -----------------------------------------------------------------


@lru_cache(maxsize=1024)
def split_aggregates(text: str) -> tuple[dict[str, tuple[str, str]], str]:
    """Return the aggregates of a metric by name, each a function and its argument, and the expression over these names.

    Results are cached; callers must not modify them.

    >>> split_aggregates("SQRT(SUM(weight * label) / SUM(weight))")
    ({'aggregate_0': ('sum', 'weight * label'), 'aggregate_1': ('sum', 'weight')}, 'SQRT(aggregate_0 / aggregate_1)')
    """
    from sqlglot import exp

    tree = _parsed(text).copy()
    aggregates: dict[str, tuple[str, str]] = {}
    kinds = [getattr(exp, name) for name in _AGGREGATES]
    outermost = [n for n in tree.find_all(*kinds) if not n.find_ancestor(*kinds)]
    if not outermost:
        raise ParameterError(f"the metric {shown(text)} is not an aggregate; write SUM(...), AVG(...), MIN or MAX")
    for node in outermost:
        name = f"aggregate_{len(aggregates)}"
        if isinstance(node, exp.Count) and not isinstance(node.this, exp.Star):
            raise ParameterError(f"the metric {shown(text)} counts values; only COUNT(*) can be used")
        more = [value for key, value in node.args.items() if key not in ("this", "big_int")]
        if any(more) or isinstance(node.this, exp.Distinct):
            raise ParameterError(f"the metric {shown(text)} has an aggregate of something else than one expression")
        aggregates[name] = (
            _AGGREGATES[type(node).__name__],
            "1" if isinstance(node, exp.Count) else node.this.sql("duckdb"),
        )
        column = exp.column(name)
        if node is tree:
            tree = column
        else:
            node.replace(column)
    return aggregates, tree.sql(dialect="duckdb")
