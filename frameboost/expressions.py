"""Scalar SQL expressions: how a loss, a metric or a link is written once and read by every engine.

An expression is a string such as ``"1 / (1 + EXP(-margin)) - label"``. It is parsed once and checked against a short
list of what every engine computes alike; then it becomes SQL text or a polars expression. All numbers in it are
float64. Nothing else in the string can reach a database: what is not on the list is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Protocol, cast

import polars as pl
import sqlglot
from sqlglot import exp

from frameboost.errors import ParameterError

__all__ = ["IN_DUCKDB", "Expression", "Speller", "float_literal", "parsed"]

_BINARY: dict[type[exp.Expression], tuple[str, Callable[[pl.Expr, pl.Expr], pl.Expr]]] = {
    exp.Add: ("+", lambda a, b: a + b),
    exp.Sub: ("-", lambda a, b: a - b),
    exp.Mul: ("*", lambda a, b: a * b),
    exp.Div: ("/", lambda a, b: a / b),
    exp.LT: ("<", lambda a, b: a < b),
    exp.LTE: ("<=", lambda a, b: a <= b),
    exp.GT: (">", lambda a, b: a > b),
    exp.GTE: (">=", lambda a, b: a >= b),
    exp.EQ: ("=", lambda a, b: a == b),
    exp.NEQ: ("<>", lambda a, b: a != b),
    exp.And: ("AND", lambda a, b: a & b),
    exp.Or: ("OR", lambda a, b: a | b),
}
_FUNCTIONS: dict[type[exp.Expression], tuple[str, Callable[[pl.Expr], pl.Expr]]] = {
    exp.Exp: ("EXP", pl.Expr.exp),
    exp.Ln: ("LN", pl.Expr.log),
    exp.Abs: ("ABS", pl.Expr.abs),
    exp.Sqrt: ("SQRT", pl.Expr.sqrt),
    exp.Floor: ("FLOOR", pl.Expr.floor),
}
_SUPPORTED = "numbers, + - * /, comparisons, AND OR NOT, CASE, IS NULL, EXP LN ABS SQRT FLOOR SIGN POWER GREATEST LEAST"


def float_literal(value: float) -> str:
    """Return ``value`` as a SQL literal of type DOUBLE that reads back as the same float64.

    >>> float_literal(0.1), float_literal(1e-320), float_literal(float("-inf"))
    ('0.1e0', '1e-320', "CAST('-Infinity' AS DOUBLE)")
    """
    if value in (float("inf"), float("-inf")):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"  # without an exponent, SQL reads a DECIMAL


@lru_cache(maxsize=1024)
def parsed(text: str) -> exp.Expression:
    """Return the syntax tree of one SQL expression (not to be changed), or raise `ParameterError`."""
    if not isinstance(text, str):
        raise ParameterError(f"a SQL expression must be a string, not {text!r}")
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        reason = str(error).partition("\n")[0]  # what follows is the text with colours for a terminal
        raise ParameterError(f"{text!r} is not a SQL expression: {reason}") from error
    if len(statements) != 1 or statements[0] is None:
        raise ParameterError(f"{text!r} is not one SQL expression")
    return cast("exp.Expression", statements[0])


class Speller(Protocol):
    """How a database writes numbers and calls (see `frameboost.dialects`)."""

    def number(self, value: float) -> str:
        """Return a literal of type DOUBLE."""

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of the function with that standard name."""


class _InDuckDB:
    def number(self, value: float) -> str:
        return float_literal(value)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        text = f"{function}({', '.join(arguments)})"
        return f"CAST({text} AS DOUBLE)" if function == "SIGN" else text  # its sign is a TINYINT


IN_DUCKDB = _InDuckDB()


@dataclass(frozen=True)
class Expression:
    """A scalar SQL expression over named columns, parsed and checked.

    Parameters
    ----------
    text
        The expression. Arithmetic, comparisons, ``CASE`` and a handful of functions.
    columns
        The names it may use.

    Raises
    ------
    ParameterError
        If it is not one SQL expression, uses another name, or something that not every engine has.

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
        try:
            self.to_sql({name: name for name in self.columns})  # walks, and so checks, every part of it
        except RecursionError:
            raise ParameterError(f"the expression {self.text[:40]!r}... is nested too deeply") from None

    @cached_property
    def _tree(self) -> exp.Expression:
        return parsed(self.text)

    def to_sql(self, columns: Mapping[str, str], speller: Speller = IN_DUCKDB) -> str:
        """Return the expression as SQL, by default DuckDB's, every name replaced by the SQL given for it."""
        return self._sql(self._tree, columns, speller)

    def to_polars(self, columns: Mapping[str, pl.Expr] | None = None) -> pl.Expr:
        """Return the expression for polars, every name replaced by the expression given (by default its column)."""
        return self._polars(self._tree, columns or {name: pl.col(name) for name in self.columns})

    def renamed(self, names: Mapping[str, str]) -> Expression:
        """Return the expression over other columns: each name replaced by the one given for it, if there is one."""

        def rename(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column):
                return exp.column(names.get(self._name(node), self._name(node)))
            return node

        text = self._tree.copy().transform(rename).sql(dialect="duckdb")
        return Expression(text, tuple(names.get(name, name) for name in self.columns))

    def uses(self, name: str) -> int:
        """Return how often the expression names that column."""
        return sum(node.name.lower() == name for node in self._tree.find_all(exp.Column))

    def _unsupported(self, node: exp.Expression) -> ParameterError:
        if isinstance(node, exp.Column):
            return ParameterError(
                f"the expression {self.text!r} uses {node.sql()!r}; it may use {', '.join(self.columns)}"
            )
        return ParameterError(
            f"the expression {self.text!r} uses {node.sql(dialect='duckdb')!r}, which not every engine has; "
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
        return float(node.this)

    def _sql(self, node: exp.Expression, columns: Mapping[str, str], speller: Speller) -> str:
        def walk(child: exp.Expression) -> str:
            return self._sql(child, columns, speller)

        match node:
            case exp.Column():
                return columns[self._name(node)]
            case exp.Literal():
                return speller.number(self._number(node))
            case exp.Paren():
                return walk(node.this)
            case exp.Neg():
                return f"(-{walk(node.this)})"
            case exp.Not():
                return f"(NOT {walk(node.this)})"
            case exp.Is() if isinstance(node.expression, exp.Null):
                return f"({walk(node.this)} IS NULL)"
            case exp.Case() if node.this is None:
                branches = [f"WHEN {walk(b.this)} THEN {walk(b.args['true'])}" for b in node.args["ifs"]]
                default = node.args.get("default")
                ending = f" ELSE {walk(default)}" if default is not None else ""
                return f"CASE {' '.join(branches)}{ending} END"
            case exp.Sign():
                return speller.call("SIGN", [walk(node.this)])
            case exp.Pow():
                return speller.call("POWER", [walk(node.this), walk(node.expression)])
            case exp.Greatest() | exp.Least():
                return speller.call(type(node).__name__.upper(), [walk(a) for a in (node.this, *node.expressions)])
        if type(node) in _BINARY:
            return f"({walk(node.this)} {_BINARY[type(node)][0]} {walk(node.expression)})"
        if type(node) in _FUNCTIONS:
            return speller.call(_FUNCTIONS[type(node)][0], [walk(node.this)])
        raise self._unsupported(node)

    def _polars(self, node: exp.Expression, columns: Mapping[str, pl.Expr]) -> pl.Expr:
        def walk(child: exp.Expression) -> pl.Expr:
            return self._polars(child, columns)

        match node:
            case exp.Column():
                return columns[self._name(node)]
            case exp.Literal():
                return pl.lit(self._number(node), dtype=pl.Float64)
            case exp.Paren():
                return walk(node.this)
            case exp.Neg():
                return -walk(node.this)
            case exp.Not():
                return ~walk(node.this)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return walk(node.this).is_null()
            case exp.Case() if node.this is None:
                default = node.args.get("default")
                ending = pl.lit(None, dtype=pl.Float64) if default is None else walk(default)
                return reduce(
                    lambda otherwise, b: pl.when(walk(b.this)).then(walk(b.args["true"])).otherwise(otherwise),
                    reversed(node.args["ifs"]),
                    ending,
                )
            case exp.Sign():
                value = walk(node.this)  # DuckDB's sign of -0.0 is 0.0, and so is that of NaN
                return pl.when(value == 0).then(0.0).otherwise(value.sign().fill_nan(0.0))
            case exp.Pow():
                return walk(node.this).pow(walk(node.expression))
            case exp.Greatest() | exp.Least():
                # Alike but for NaN, which no label, weight or margin is: SQL's is the largest number.
                choose = pl.max_horizontal if isinstance(node, exp.Greatest) else pl.min_horizontal
                return choose(*(walk(a) for a in (node.this, *node.expressions)))
        if type(node) in _BINARY:
            return _BINARY[type(node)][1](walk(node.this), walk(node.expression))
        if type(node) in _FUNCTIONS:
            return _FUNCTIONS[type(node)][1](walk(node.this))
        raise self._unsupported(node)
