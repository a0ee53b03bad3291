"""What a model says of a row as SQL over its margins: one expression, or a list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.checks.messages import shown
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.losses.outputs import Output

__all__ = ["check_names", "named_columns", "output_columns", "output_sql", "uses_margins_once", "values_sql"]


def uses_margins_once(output: Output) -> bool:
    """Whether no margin is used twice, so that each value can be one expression of them."""
    if output.stages:  # as softmax has; to count the uses of each class by each other one would take long
        return False
    return all(sum(value.uses(margin) for value in output.values) <= 1 for margin in output.inputs)


def output_sql(output: Output, margins: Sequence[str], dialect: Dialect, starts: Sequence[str] = ()) -> str:
    """Return what the output says of rows with those margins: a number, a class, a list of them, or a struct by label.

    ``starts`` has for each margin the condition under which it is known, if there is an offset.

    Raises
    ------
    ParameterError
        If that takes more than one expression in the dialect.
    """
    by_name = dict(zip(output.inputs, margins, strict=True))
    array, lambda_ = dialect.expressions.array, dialect.expressions.lambda_
    if len(output.values) == 1 and uses_margins_once(output):
        return values_sql(output, by_name, dialect, starts)[0]
    if lambda_ is None:
        if not output.stages and array is not None and all(v.uses(m) <= 1 for v in output.values for m in by_name):
            return array.format(v=", ".join(values_sql(output, by_name, dialect, starts)))
        what = "several values" if len(output.values) > 1 else "a value that uses the margin several times"
        raise ParameterError(f"the output is {what}, which is no single expression in {dialect.name}; take model.query")
    # A lambda's parameter m is computed once, however often it is used; each stage hands a longer list to the next:
    # list_transform([list_transform([[a, b]], lambda m: [m[1], m[2], m[1] + m[2]])[1]], lambda m: m[1] / m[3])[1].
    names, steps = list(output.inputs), []
    for stage in output.stages:
        known = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
        steps.append([*known.values(), *(e.to_sql(known, dialect) for e in stage.values())])
        names += stage
    last = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
    sql = f"[{', '.join(margins)}]"
    for step in steps:
        sql = lambda_.format(x=f"[{sql}]", value=f"[{', '.join(step)}]")
    values = values_sql(output, last, dialect, starts)
    return lambda_.format(x=f"[{sql}]", value=_together(output, values, dialect))


def _together(output: Output, values: Sequence[str], dialect: Dialect) -> str:
    """Return the values as one: a struct if they have names, or a list."""
    struct = dialect.expressions.struct
    if not output.names or struct is None:
        return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
    check_names(output.names, dialect)
    fields = (f"{dialect.string(name)}: {value}" for name, value in zip(output.names, values, strict=True))
    return struct.format(v=", ".join(fields))


def values_sql(
    output: Output, known: Mapping[str, str], dialect: Dialect, starts: Sequence[str] = ()
) -> list[str]:  # fmt: skip
    """Return the values as the user gets them, over ``known`` margins and stages: a class as an integer or its label.

    ``starts`` are as in `output_sql`. Where one does not hold, the margin is NULL, and so are the values that depend on
    it: a comparison with NULL would take ELSE, and GREATEST and LEAST pass over NULL in PostgreSQL and Redshift.
    """
    labels = {name: dialect.label(label) for name, label in output.labels.items()}
    typed = [value.to_sql({**known, **labels}, dialect) for value in output.values]
    if output.is_class and not labels:
        typed = [dialect.cast(value, "int64") for value in typed]
    if not starts:
        return typed
    behind = output.margins_behind()
    return [
        value if expression.text in output.margins else _where_known(value, [starts[k] for k in numbers])
        for value, expression, numbers in zip(typed, output.values, behind, strict=True)
    ]


def _where_known(value: str, starts: Sequence[str]) -> str:
    known = " AND ".join(start for start in dict.fromkeys(starts) if start)
    return f"CASE WHEN {known} THEN {value} END" if known else value


def output_columns(output: Output, name: str) -> list[str]:
    """Return the names of the values' columns: the name alone, or with numbers from 0 or with labels behind it."""
    if len(output.values) == 1:
        return [name]
    return [f"{name}_{which}" for which in output.names or range(len(output.values))]


def named_columns(output: Output, values: Sequence[str], name: str, dialect: Dialect) -> dict[str, str]:
    """Return the values by the names of their columns.

    Raises
    ------
    ParameterError
        If the database can't have columns named by these labels.
    """
    columns = output_columns(output, name)
    if output.names:
        check_names(columns, dialect)
    return dict(zip(columns, values, strict=True))


def check_names(names: Sequence[str], dialect: Dialect) -> None:
    """Raise `ParameterError` if names that end in labels can't be names in the database."""
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
