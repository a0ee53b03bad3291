"""Random columns, which can be written as Python literals in a script."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from frameboost.schema.types import FeatureType
from tests.support.hostile import HOSTILE_NAMES
from tests.support.random_models import NAMES, TYPES, random_values, to_polars

__all__ = ["Column", "as_frame", "random_columns", "shrink_columns"]

# Plain names, and names that need quoting or are used by the package itself.
_NAMES = list(dict.fromkeys([
    *filter(None, NAMES), *HOSTILE_NAMES, "x", "y_", "label", "margin", "weight", "prediction", "row", "node", "^x$",
    "*", "x0", "frameboost_", "é", "fold", "bias",
]))  # fmt: skip
_ZONES = ["Europe/Paris", "Asia/Kathmandu", "America/New_York", "UTC"]


@dataclass(frozen=True)
class Column:
    """A column as its physical values; ``cast`` is the text of a polars type to cast it to, or empty."""

    name: str
    type: str
    values: tuple
    cast: str = ""

    @property
    def kind(self) -> FeatureType:
        return FeatureType(self.type)

    def series(self) -> pl.Series:
        made = to_polars(self.kind, list(self.values), self.name)
        return made.cast(eval(self.cast, {"pl": pl})) if self.cast else made


def as_frame(columns: Sequence[Column]) -> pl.DataFrame:
    return pl.DataFrame([column.series() for column in columns])


def random_columns(rng: np.random.Generator, n_rows: int, most: int) -> list[Column]:
    """Draw columns of random types, whose names differ even if case is ignored."""
    python = random.Random(int(rng.integers(2**62)))
    n_columns = int(rng.integers(1, most + 1))
    names = python.sample(_NAMES, n_columns)
    columns: list[Column] = []
    for name in names:
        kind = FeatureType(python.choice(TYPES))
        if columns and python.random() < 0.1:  # a copy of another column
            columns.append(replace(python.choice(columns), name=name))
            continue
        values = _values(kind, n_rows, python)
        columns.append(Column(name, kind.name, tuple(values), _cast(kind, values, python)))
    return columns


def _values(kind: FeatureType, n_rows: int, rng: random.Random) -> list:
    drawn = random_values(kind, n_rows, rng)
    how = rng.choice(["any", "any", "few", "few", "smooth", "smooth", "constant", "one missing", "none"])
    if how == "none" and rng.random() < 0.7:
        how = "few"
    if how == "few":
        few = drawn[:4]
        return [rng.choice(few) for _ in drawn]
    if how == "constant":
        return [next((v for v in drawn if v is not None), None)] * n_rows
    if how == "one missing":
        value = next((v for v in drawn if v is not None), None)
        return [None, *([value] * (n_rows - 1))][:n_rows]
    if how == "none":
        return [None] * n_rows
    return _smooth(kind, n_rows, rng) if how == "smooth" else drawn


def _smooth(kind: FeatureType, n_rows: int, rng: random.Random) -> list:
    """Draw values from a small range, a tenth of them missing."""
    if kind.is_categorical:
        values: list = [f"c{rng.randrange(12)}" for _ in range(n_rows)]
    elif kind.is_float:
        values = [float(np.float32(rng.gauss(0, 1))) for _ in range(n_rows)]
    elif kind.family == "boolean":
        values = [rng.randrange(2) for _ in range(n_rows)]
    else:
        values = [rng.randrange(100) for _ in range(n_rows)]
        if kind.name == "duration[ns]":  # DuckDB's INTERVAL holds microseconds
            values = [value * 1000 for value in values]
    return [None if rng.random() < 0.1 else value for value in values]


def _cast(kind: FeatureType, values: list, rng: random.Random) -> str:
    if kind.is_categorical:
        known = sorted({v for v in values if v is not None})
        rng.shuffle(known)
        return rng.choice(["", "", "pl.Categorical", f"pl.Enum({known!r})"])
    if kind.family == "timestamptz" and rng.random() < 0.5:
        return f"pl.Datetime({kind.unit!r}, {rng.choice(_ZONES)!r})"
    return ""


def shrink_columns(columns: Sequence[Column], keep: Sequence[str] = ()) -> Iterator[list[Column]]:
    """Yield the columns without a range of rows (half of them, ..., one), then without one column not in ``keep``."""
    n_rows = len(columns[0].values)
    size = n_rows // 2
    while size:
        for start in range(0, n_rows, size):
            if n_rows > size:
                yield [replace(c, values=c.values[:start] + c.values[start + size :]) for c in columns]
        size //= 2
    for column in columns:
        if column.name not in keep and len(columns) > 1:
            yield [other for other in columns if other is not column]
