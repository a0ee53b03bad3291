"""The comment at the head of a model's SQL file: what it is, what it reads, and which model it was made of."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence

from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.errors import ParameterError

__all__ = ["fingerprint", "header"]


def fingerprint(model_file: str) -> str:
    """Return the SHA-256 of a model file's text, in hexadecimal digits."""
    return hashlib.sha256(model_file.encode("utf-8")).hexdigest()


def header(
    model_file: str,
    objective: str,
    n_trees: int,
    columns: Sequence[FeatureColumn],
    names: Mapping[str, str],
    dialect: str,
    trained: object,
) -> str:
    """Return lines of comment; ``names`` has the columns that are called otherwise than the feature.

    Names go through JSON with nothing but ASCII in it, so that none of them can end its line.

    Raises
    ------
    ParameterError
        If ``trained`` is neither a date, a text of one line, nor None.
    """
    trees = f"{n_trees:,} tree{'s' if n_trees > 1 else ''}"
    lines = [
        f"A gradient boosted model: {json.dumps(objective)}, {trees}, as SQL for {dialect}.",
        f"model    sha256 {fingerprint(model_file)}",
    ]
    if trained is not None:
        text = trained.isoformat() if isinstance(trained, dt.date) else trained
        if not isinstance(text, str) or not text.isprintable():
            raise ParameterError(f"trained must be a date or a line of text, not {shown(trained)}")
        lines.append(f"trained  {text}")
    lines.append("reads    column: type in training, column type here")
    for column in columns:
        kind = column.feature.type
        name = names.get(column.feature.name, column.feature.name)
        lines.append(f"         {json.dumps(name)}: {kind}, {column.dialect.type_of(kind)}")
    return "".join(f"-- {line}\n" for line in lines)
