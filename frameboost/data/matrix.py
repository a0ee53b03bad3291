"""Rows of numbers in one array, as estimators get them and as a frame of pandas holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import polars as pl

__all__ = ["Matrix"]


@dataclass(eq=False, slots=True)  # frozen ones take a microsecond to make
class Matrix:
    """Numbers of one type that polars has, too, and the names of their columns.

    To make a frame of an array takes longer than to score its rows, so these are scored as they are.

    Attributes
    ----------
    values
        (rows, columns): NaN where a value is missing.
    columns
        The names.
    """

    values: npt.NDArray[Any]
    columns: list[str]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    def __getitem__(self, rows: slice) -> Matrix:
        """Return some of the rows."""
        return Matrix(self.values[rows], self.columns)

    def frame(self) -> pl.DataFrame:
        """Return the rows as a frame, NaN as NULL."""
        return pl.DataFrame(self.values, schema=self.columns, orient="row", nan_to_null=True)
