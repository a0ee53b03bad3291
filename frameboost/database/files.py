"""The header comment of SQL files: the identity of the model, and the columns that it reads."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence

from frameboost.checks.messages import counted, shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.model_file import model_hash
from frameboost.errors import ParameterError

__all__ = ["header"]


def header(
    ensemble: Ensemble, columns: Sequence[FeatureColumn], column_names: Mapping[str, str], dialect: str, trained: object
) -> str:
    """Return comment lines; ``column_names`` are the columns that differ from the feature's name.

    Raises
    ------
    ParameterError
        If ``trained`` is neither a date, a line of text, nor None.
    """
    trees = counted(len(ensemble.trees), "tree")
    lines = [
        f"A gradient boosted model: {_in_comment(ensemble.loss.name)}, {trees}, as SQL for {dialect}.",
        f"model    sha256 {model_hash(ensemble)}",
    ]
    about = ensemble.metadata
    named = {"name": about.name, "version": about.version}
    if title := ", ".join(f"{what} {_in_comment(text)}" for what, text in named.items() if text is not None):
        lines.append(f"called   {title}")
    text = trained.isoformat() if isinstance(trained, dt.date) else about.training if trained is None else trained
    if not isinstance(text, str) or not text.isprintable():
        raise ParameterError(f"trained must be a date or a line of text, not {shown(trained)}")
    if text:
        lines.append(f"trained  {text}")
    if about.tags:
        lines.append(
            "tags     " + ", ".join(f"{_in_comment(k)}: {_in_comment(v)}" for k, v in sorted(about.tags.items()))
        )
    lines.append("reads    column: type in training, column type here")
    offset = {} if ensemble.offset is None else dict.fromkeys(ensemble.offset.names, ensemble.offset.kind)
    for column in columns:
        kind = column.feature.type
        name = column_names.get(column.feature.name, column.feature.name)
        role = f", the {offset[column.feature.name]}" if column.feature.name in offset else ""
        lines.append(f"         {_in_comment(name)}: {kind}, {column.dialect.type_of(kind)}{role}")
    if ensemble.offset is not None:
        added = "LN(exposure)" if ensemble.offset.kind == "exposure" else "the base_margin"
        lines.append(f"offset   {added} is added to the margin; where it is NULL or NaN, the prediction is NULL")
    if fine := ensemble.needs_float64():
        names = ", ".join(_in_comment(column_names.get(name, name)) for name in fine)
        lines.append(f"note     as float32, {names} may take the other branch next to a threshold")
    return "".join(f"-- {line}\n" for line in lines)


# What clients replace or split at in comments too: variables of Spark, SQL*Plus and drivers, quotes, semicolons.
_REPLACED = re.compile(r"""["'`$&;{}%?@]|(?<!\w):(?=\w)""")


def _in_comment(name: str) -> str:
    r"""Return a name as ASCII JSON without characters that end the comment or mean something to a client.

    >>> print(_in_comment("reg:squarederror"), _in_comment("${env:USER}; DROP"), _in_comment("a\nb"))
    "reg:squarederror" "\u0024\u007benv:USER\u007d\u003b DROP" "a\nb"
    """
    replaced = {at.start() for at in _REPLACED.finditer(name)}
    return f'"{"".join(_escape_in_json(c) if at in replaced else json.dumps(c)[1:-1] for at, c in enumerate(name))}"'


def _escape_in_json(character: str) -> str:
    return f"\\u{ord(character):04x}"
