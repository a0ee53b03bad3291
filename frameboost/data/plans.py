"""Facts from query plans, without running the queries: DuckDB's of relations, polars' of lazy frames.

A relation is read several times; its rows must be the same each time, and in the same order if they are drawn by
position. A lazy frame that only reads files can be read in slices. The steps of a plan show all of this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import duckdb
import polars as pl

from frameboost.checks.arguments import once_in_call
from frameboost.runtime.interrupts import when_free

__all__ = ["Step", "estimated_rows", "is_repeatable", "plan_of", "plan_steps", "scanned_formats", "step_without_order"]


_CARDINALITY = "Estimated Cardinality"
# Steps that hold their rows, or have them by definition, and those that read DuckDB's files or Parquet.
_IN_MEMORY = frozenset(["COLUMN_DATA_SCAN", "DUMMY_SCAN", "EMPTY_RESULT", "GENERATE_SERIES", "RANGE"])
_PARQUET = frozenset(["PARQUET_SCAN", "READ_PARQUET"])
_TABLES = frozenset(["SEQ_SCAN", "TABLE_SCAN"])
_DATABASE = re.compile(r'"((?:[^"]|"")*)"|([^.]+)')  # the first part of a qualified name
# Steps that keep the order of rows ("Order preservation" in DuckDB's manual); after a join or a GROUP BY the order
# depends on its threads.
_IN_ORDER = _IN_MEMORY | _PARQUET | _TABLES | frozenset([
    "ARROW_SCAN", "FILTER", "LIMIT", "PANDAS_SCAN", "PROJECTION", "PYTHON_ARROW_SCAN", "READ_CSV", "READ_CSV_AUTO",
    "READ_JSON", "READ_JSON_AUTO", "READ_NDJSON", "READ_NDJSON_AUTO", "STREAMING_LIMIT", "UNION", "UNNEST",
])  # fmt: skip
# Steps whose rows are the same each time, but for their order, if their inputs and their functions are. Not so of what
# takes the first of several rows, as LIMIT, windows and DISTINCT ON do, nor of sums of floats, whose last bits depend
# on the order of additions. A table function that is not named here may read anything.
_REPEATABLE = _IN_MEMORY | _PARQUET | _TABLES | frozenset([
    "BLOCKWISE_NL_JOIN", "CROSS_PRODUCT", "CTE", "CTE_SCAN", "FILTER", "HASH_JOIN", "IE_JOIN", "NESTED_LOOP_JOIN",
    "ORDER_BY", "PIECEWISE_MERGE_JOIN", "PROJECTION", "UNION", "UNNEST",
])  # fmt: skip


class Step(NamedTuple):
    """A step of a plan: its name, for a scan the database of the table, and its estimated number of rows.

    Samples are named ``SAMPLE``, whatever the step.
    """

    name: str
    database: str | None
    has_filter: bool
    n_rows: int

    @property
    def is_whole_table(self) -> bool:
        """Whether it reads all rows of a table, without filter or sample."""
        return self.name in _TABLES and not self.has_filter


def plan_of(relation: duckdb.DuckDBPyRelation) -> str:
    """Return DuckDB's plan of a relation as JSON, cached within a public call."""

    def made() -> tuple[str, object]:
        plan = when_free(partial(relation.explain, "standard", "json"))
        return plan, relation  # which is kept, so that no other one gets its id

    return once_in_call(("plan", id(relation)), made)[0]


def plan_steps(plan: str) -> list[Step]:
    """Return the steps of a plan of EXPLAIN (FORMAT json), the last one first."""
    return [_step(node) for node in _nodes(json.loads(plan))]


def _nodes(plan: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in plan:
        chosen = _late_rows(node)
        if chosen is None:
            yield node
        yield from _nodes(node["children"] if chosen is None else [chosen])


def _late_rows(node: dict[str, Any]) -> dict[str, Any] | None:
    """Return the plan that chooses the rows of a late materialisation, None of any other step.

    DuckDB reads most columns of ``SELECT * FROM t LIMIT 9`` last: by a semi join of the table with the chosen row ids,
    in their order. The rows and their order are those that were chosen.
    """
    if node["name"].strip() != "ORDER_BY" or node["extra_info"].get("Order By") != "rowid ASC":
        return None
    join = node["children"][0]
    while join["name"].strip() == "PROJECTION":
        join = join["children"][0]
    kind = join["extra_info"].get("Join Type"), join["extra_info"].get("Conditions")
    if join["name"].strip() != "HASH_JOIN" or kind != ("SEMI", "rowid = rowid"):
        return None
    table, chosen = join["children"]
    scans = [each for each in _nodes([chosen]) if each["name"].strip() in _TABLES]
    is_of_table = [each["extra_info"].get("Table") for each in scans] == [table["extra_info"].get("Table")]
    return chosen if is_of_table and table["name"].strip() in _TABLES else None


def _step(node: dict[str, Any]) -> Step:
    name, more = node["name"].strip(), node["extra_info"]
    if any("sample" in key.lower() for key in more):
        name = "SAMPLE"
    table = more.get("Table", "")  # a list of lines, of a name that has several
    match = _DATABASE.match(table if isinstance(table, str) else "\n".join(table))
    database = None if match is None else match[2] or match[1].replace('""', '"')
    return Step(name, database, name == "FILTER" or "Filters" in more, int(more.get(_CARDINALITY, 0)))


def step_without_order(steps: Sequence[Step]) -> str:
    """Return the first step that does not guarantee the order of rows; empty if there is none."""
    return next((step.name for step in steps if step.name not in _IN_ORDER), "")


def is_repeatable(steps: Sequence[Step], *, tables: bool, files: bool) -> bool:
    """Whether a plan yields the same rows each time, if its functions do.

    ``tables`` and ``files`` tell whether its tables and Parquet files are constant.
    """
    repeatable = _REPEATABLE - (frozenset() if tables else _TABLES) - (frozenset() if files else _PARQUET)
    return all(step.name in repeatable for step in steps)


def estimated_rows(explain: Callable[[str], duckdb.DuckDBPyRelation | None], source: str) -> int | None:
    """Return the approximate number of rows of a DuckDB source, None if unknown.

    ``explain`` runs a statement, and ``source`` is the text after FROM. The planner knows the number of rows of tables,
    frames and Parquet files. Its guesses for filters (for ``x % 2 = 0``, two rows) are not used, nor the 0 or 1 that
    stand for no estimate, as for a lazy frame or after LIMIT.

    Examples
    --------
    >>> import duckdb
    >>> con = duckdb.connect()
    >>> _ = con.execute("CREATE TABLE t AS FROM range(5000) r(x)")
    >>> estimated_rows(con.sql, "t"), estimated_rows(con.sql, "t WHERE x % 2 = 0"), estimated_rows(con.sql, "no_table")
    (5000, None, None)
    """
    try:
        plan = explain(f"EXPLAIN (FORMAT json) FROM {source}")
        steps = plan_steps(plan.fetchall()[0][1]) if plan is not None else []
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.IOException):  # there is no such table yet
        return None
    if not steps or any(step.has_filter for step in steps):
        return None
    return steps[0].n_rows if steps[0].n_rows > 1 else None


_OF_POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)  # a panic is not even an Exception
_FRAME_STEPS = ("Scan", "SimpleProjection", "Select", "HStack", "Filter")
_OPERANDS = {
    "Column": (),
    "Literal": (),
    "Cast": ("expr",),
    "BinaryExpr": ("left", "right"),
    "Ternary": ("predicate", "truthy", "falsy"),
    "Function": ("input",),
}
_FUNCTIONS = frozenset([
    "abs", "arccos", "arcsin", "arctan", "arctan2", "as_struct", "cbrt", "ceil", "clip", "coalesce", "cos", "exp",
    "expm1", "fill_null", "floor", "hash", "log", "log1p", "max_horizontal", "min_horizontal", "negate", "pow",
    "replace", "replace_strict", "round", "round_sig_figs", "sign", "sin", "sqrt", "sum_horizontal", "tan", "tanh",
    "to_physical",
])  # fmt: skip
# Families of functions, by their names in polars: all functions of a family but these.
_BUT_OF_FAMILY = {
    "BooleanFunction": ("Any", "All", "IsFirstDistinct", "IsLastDistinct", "IsUnique", "IsDuplicated", "HasNulls"),
    # Strptime without a format infers it from the first value.
    "StringFunction": ("ConcatVertical", "Strptime"),
    "TemporalFunction": ("DatetimeFunction", "Duration"),
}


def scanned_formats(frame: pl.LazyFrame) -> frozenset[str] | None:
    """Return the formats of the files that a frame reads; None if it does more than row-wise computation.

    Read from polars' plan, with an allowlist of steps. Polars does not show plans with a Python function, a plugin, a
    source of another package, or an Arrow file.

    >>> scanned_formats(pl.LazyFrame({"x": [1]})) is None
    True
    """
    try:
        plan = frame._ldf.visit()  # of the optimised plan; no rows are read
        return frozenset(_formats(plan))
    except (AttributeError, NotImplementedError, OSError, *_OF_POLARS, _OtherStepError):
        # One that can't be shown, or not be run: who reads the frame will say why.
        return None


class _OtherStepError(Exception):
    """A plan has a step that is not known to be row-wise."""


def _formats(plan: Any) -> Iterator[str]:
    """Yield the format of each scan of a plan."""
    waiting = [plan.get_node()]
    while waiting:
        plan.set_node(waiting.pop())
        node = plan.view_current_node()
        if type(node).__name__ not in _FRAME_STEPS:
            raise _OtherStepError
        for expression in plan.get_exprs():
            _check_by_row(plan, expression.node)
        if type(node).__name__ == "Scan":
            yield str(node.scan_type[0])
        waiting += plan.get_inputs()


def _check_by_row(plan: Any, root: int) -> None:
    """Raise `_OtherStepError` if an expression is not known to be row-wise."""
    waiting = [root]
    while waiting:
        expression = plan.view_expression(waiting.pop())
        kind = type(expression).__name__
        if kind not in _OPERANDS:
            raise _OtherStepError
        if kind == "Literal" and type(expression.value).__name__ == "PySeries":
            raise _OtherStepError
        if kind == "Function" and not _is_by_row(expression.function_data[0]):
            raise _OtherStepError
        for name in _OPERANDS[kind]:
            operands = getattr(expression, name)
            waiting += operands if isinstance(operands, list) else [operands]


def _is_by_row(function: object) -> bool:
    if isinstance(function, str):
        return function in _FUNCTIONS
    family, _, name = str(function).partition(".")
    return family in _BUT_OF_FAMILY and name not in _BUT_OF_FAMILY[family]
