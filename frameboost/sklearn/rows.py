"""Rows to train and validate on: a frame of features, and the other columns beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.sources import FrameSource, with_types_of_nulls
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import DataError
from frameboost.schema.types import FeatureType
from frameboost.sklearn.targets import Array

__all__ = ["Rows", "role_columns", "with_roles", "with_types_of"]

# The names of the columns of target, weights and queries, which are added to those of X.
_NAMES = {"target": "y", "weight": "sample_weight", "group": "qid"}


class Rows(NamedTuple):
    """Features, and the other columns by keyword of `frameboost.fit`; a target of several columns is an array."""

    frame: pl.DataFrame | SparseFrame
    roles: dict[str, Array]


def role_columns(rows: Rows) -> dict[str, list[str]]:
    """Return the names of the columns that the roles have beside the features: of several targets y0, y1, ..."""
    taken, found = set(rows.frame.columns), {}
    for role, values in rows.roles.items():
        names = [_NAMES[role]] if values.ndim == 1 else [f"{_NAMES[role]}{i}" for i in range(values.shape[1])]
        found[role] = [_free_name(name, taken) for name in names]
        taken.update(found[role])
    return found


def with_roles(rows: Rows, columns: Mapping[str, Sequence[str]]) -> pl.DataFrame | SparseFrame:
    """Return the features and the columns of the roles, of which weights and queries are 1 by default."""
    frame, roles = rows
    for role, names in columns.items():
        values = np.atleast_2d(roles[role].T) if role in roles else np.ones((1, len(frame)))
        frame = frame.with_columns([pl.Series(name, column) for name, column in zip(names, values, strict=True)])
    return frame


def with_types_of(frame: pl.DataFrame | SparseFrame, features: Sequence[str], held_out: Sequence[Rows]) -> list[Rows]:
    """Return the rows of ``eval_set``, in which columns without a value have the types that they have in X.

    Raises
    ------
    DataError
        If a column has another type than in X.
    """
    own, found = frame.schema, []
    types = {name: kind for name in features if (kind := FeatureType.from_polars(own[name])) is not None}
    for i, (other, roles) in enumerate(held_out):
        if not isinstance(other, SparseFrame):
            other = with_types_of_nulls(FrameSource(other.lazy()), types, exactly=True).frame.collect()
        others = other.schema
        for name in features:
            if own[name] != others[name] and types.get(name) != FeatureType.from_polars(others[name]):
                raise DataError(
                    f"column {shown(name)} has type {others[name]} in X of eval_set[{i}], but {own[name]} in X; give "
                    "it the same type"
                )
        found.append(Rows(other, roles))
    return found


def _free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with underscores appended until no feature has it."""
    while name in taken:
        name += "_"
    return name
