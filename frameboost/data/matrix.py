"""Rows of numbers in one array, as estimators get them and as a frame of pandas holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import polars as pl

__all__ = ["Matrix"]


@dataclass(frozen=True, eq=False)
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

    @property
    def dtypes(self) -> list[pl.DataType]:
        """The types of the columns."""
        return [pl.Series(self.values[:0].ravel()).dtype] * len(self.columns)

    def __getitem__(self, rows: slice) -> Matrix:
        """Return some of the rows."""
        return Matrix(self.values[rows], self.columns)

    def rows(self) -> list[list[Any]]:
        """Return each row as Python's numbers."""
        rows: list[list[Any]] = self.values.tolist()
        return rows

    def frame(self) -> pl.DataFrame:
        """Return the rows as a frame, NaN as NULL."""
        return pl.DataFrame(self.values, schema=self.columns, orient="row", nan_to_null=True)
