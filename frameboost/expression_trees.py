"""The syntax trees of scalar SQL expressions: parsed and checked, then written as SQL or made polars expressions.

Apart from `frameboost.expressions`, as sqlglot, which parses, is imported when there is something to parse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Protocol, cast

import polars as pl
import sqlglot
from sqlglot import exp

from frameboost.errors import ParameterError
from frameboost.spelling import Speller

__all__ = ["ExpressionTree", "Folder", "split_aggregates"]

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


class Folder(Protocol):
    """Makes something of an expression, known by numbers, from the inside out."""

    def column(self, name: str) -> int:
        """Return the number of a column."""

    def number(self, value: float) -> int:
        """Return the number of a constant."""

    def apply(self, function: str, *arguments: int) -> int:
        """Return the number of what a function or an operator, by its name in SQL, says of others."""


class ExpressionTree:
    """What `frameboost.expressions.Expression` knows of its text; what is not supported is found out by ``to_sql``."""

    def __init__(self, text: str, columns: tuple[str, ...]) -> None:
        self.text = text
        self.columns = columns
        self._root = _parsed(text)

    def to_sql(self, columns: Mapping[str, str], speller: Speller) -> str:
        """See `frameboost.expressions.Expression.to_sql`."""
        return self._sql(self._root, columns, speller)

    def to_polars(self, columns: Mapping[str, pl.Expr]) -> pl.Expr:
        """See `frameboost.expressions.Expression.to_polars`."""
        return self._polars(self._root, columns)

    def fold(self, folder: Folder) -> int:
        """Return what ``folder`` makes of the whole, given what it makes of the parts."""
        return self._fold(self._root, folder)

    def renamed(self, names: Mapping[str, str]) -> str:
        """Return the text with each name replaced by the one given for it, if there is one."""

        def rename(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column):
                return exp.column(names.get(self._name(node), self._name(node)))
            return node

        return self._root.copy().transform(rename).sql(dialect="duckdb")

    def uses(self, name: str) -> int:
        """Return how often the expression names that column."""
        return sum(node.name.lower() == name for node in self._root.find_all(exp.Column))

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
            case exp.Div() if isinstance(node.expression, exp.Literal):
                value, number = walk(node.this), self._number(node.expression)
                # Polars would multiply by 1 / number, which may be another number; not so by a column that is all it.
                is_power_of_two = abs(math.frexp(number)[0]) == 0.5
                return value / (number if is_power_of_two else value.clip(number, number))
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

    def _fold(self, node: exp.Expression, folder: Folder) -> int:
        def walk(child: exp.Expression) -> int:
            return self._fold(child, folder)

        match node:
            case exp.Column():
                return folder.column(self._name(node))
            case exp.Literal():
                return folder.number(self._number(node))
            case exp.Paren():
                return walk(node.this)
            case exp.Neg() | exp.Not() | exp.Sign():
                return folder.apply(type(node).__name__.upper(), walk(node.this))
            case exp.Case() if node.this is None and node.args.get("default") is not None:
                value = walk(node.args["default"])
                for branch in reversed(node.args["ifs"]):
                    value = folder.apply("CASE", walk(branch.this), walk(branch.args["true"]), value)
                return value
            case exp.Pow():
                return folder.apply("POWER", walk(node.this), walk(node.expression))
            case exp.Greatest() | exp.Least():
                function = type(node).__name__.upper()
                return reduce(lambda a, b: folder.apply(function, a, walk(b)), node.expressions, walk(node.this))
        if type(node) in _BINARY:
            return folder.apply(_BINARY[type(node)][0], walk(node.this), walk(node.expression))
        if type(node) in _FUNCTIONS:
            return folder.apply(_FUNCTIONS[type(node)][0], walk(node.this))
        return folder.apply(type(node).__name__)  # what may be NULL


def split_aggregates(text: str) -> tuple[dict[str, tuple[str, str]], str]:
    """Return a metric's aggregates, by a name each: function and argument; and the text of what is made of them."""
    tree = _parsed(text).copy()
    found: dict[str, tuple[str, str]] = {}
    outermost = [n for n in tree.find_all(*_AGGREGATES) if not n.find_ancestor(*_AGGREGATES)]
    if not outermost:
        raise ParameterError(f"the metric {text!r} is not an aggregate; write SUM(...), AVG(...), MIN or MAX")
    for node in outermost:
        name = f"aggregate_{len(found)}"
        if isinstance(node, exp.Count) and not isinstance(node.this, exp.Star):
            raise ParameterError(f"the metric {text!r} counts values; only COUNT(*) can be used")
        more = [value for key, value in node.args.items() if key not in ("this", "big_int")]
        if any(more) or isinstance(node.this, exp.Distinct):
            raise ParameterError(f"the metric {text!r} has an aggregate of something else than one expression")
        found[name] = (_AGGREGATES[type(node)], "1" if isinstance(node, exp.Count) else node.this.sql("duckdb"))
        place = exp.column(name)
        if node is tree:
            tree = place
        else:
            node.replace(place)
    return found, tree.sql(dialect="duckdb")
