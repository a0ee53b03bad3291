"""What a model says of a row as SQL over its margins: one expression, or a list of them."""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.losses.outputs import Output

__all__ = ["cast_values", "named_columns", "output_sql", "uses_margins_once"]


def uses_margins_once(output: Output) -> bool:
    """Whether no margin is used twice, so that each value can be one expression of them."""
    uses = [sum(value.uses(margin) for value in output.values) for margin in output.margins]
    return not output.stages and max(uses) <= 1


def output_sql(output: Output, margins: Sequence[str], dialect: Dialect, starts: Sequence[str] = ()) -> str:
    """Return what the output says of rows with those margins: a number, an integer class, or a list of numbers.

    ``starts`` has the columns that margins start from, quoted, if they do.

    Raises
    ------
    ParameterError
        If that takes more than one expression in the dialect.
    """
    by_name = dict(zip(output.margins, margins, strict=True))
    array, lambda_ = dialect.expressions.array, dialect.expressions.lambda_
    if len(output.values) == 1 and uses_margins_once(output):
        return cast_values(output, [value.to_sql(by_name, dialect) for value in output.values], dialect, starts)[0]
    if lambda_ is None:
        if not output.stages and array is not None and all(v.uses(m) <= 1 for v in output.values for m in by_name):
            values = [value.to_sql(by_name, dialect) for value in output.values]
            return array.format(v=", ".join(cast_values(output, values, dialect, starts)))
        what = "several values" if len(output.values) > 1 else "a value that uses the margin several times"
        raise ParameterError(f"the output is {what}, which is no single expression in {dialect.name}; take model.query")
    # A lambda's parameter m is computed once, however often it is used; each stage hands a longer list to the next:
    # list_transform([list_transform([[a, b]], lambda m: [m[1], m[2], m[1] + m[2]])[1]], lambda m: m[1] / m[3])[1].
    names, steps = list(output.margins), []
    for stage in output.stages:
        known = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
        steps.append([*known.values(), *(e.to_sql(known, dialect) for e in stage.values())])
        names += stage
    last = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
    sql = f"[{', '.join(margins)}]"
    for step in steps:
        sql = lambda_.format(x=f"[{sql}]", value=f"[{', '.join(step)}]")
    values = cast_values(output, [v.to_sql(last, dialect) for v in output.values], dialect, starts)
    return lambda_.format(x=f"[{sql}]", value=values[0] if len(values) == 1 else f"[{', '.join(values)}]")


def cast_values(output: Output, values: Sequence[str], dialect: Dialect, starts: Sequence[str] = ()) -> list[str]:
    """Return the values with the type that the user gets: a class as an integer.

    ``starts`` are as in `output_sql`. Where one is NULL, so are the values that depend on it: a comparison with NULL
    would take ELSE, and GREATEST and LEAST pass over NULL in PostgreSQL and Redshift.
    """
    typed = [dialect.cast(value, "int64") for value in values] if output.is_class else list(values)
    if not starts:
        return typed
    behind = output.margins_behind()
    return [
        value if expression.text in output.margins else _where_known(value, [starts[k] for k in numbers])
        for value, expression, numbers in zip(typed, output.values, behind, strict=True)
    ]


def _where_known(value: str, starts: Sequence[str]) -> str:
    known = " AND ".join(f"{start} IS NOT NULL" for start in dict.fromkeys(starts))
    return f"CASE WHEN {known} THEN {value} END" if starts else value


def named_columns(values: Sequence[str], name: str) -> dict[str, str]:
    """Return the values by the names of their columns: the name alone, or with numbers from 0 behind it."""
    return {name: values[0]} if len(values) == 1 else {f"{name}_{i}": value for i, value in enumerate(values)}
