"""A sparse matrix with named columns, and columns beside it: as a frame, and as a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.data.sources import FrameSource
from frameboost.errors import DataError
from frameboost.runtime.storage import available_memory
from frameboost.schema.types import FeatureType

__all__ = ["SparseFrame", "SparseSource"]

Array = npt.NDArray[Any]

_BYTES_OF_BINS = 2  # for each value, besides the dense value itself: its bin, and a copy in another order


@dataclass(frozen=True)
class SparseFrame:
    """Columns of a sparse matrix of SciPy's, and columns of a frame beside them, with the methods of a frame.

    An entry that is not stored is 0; a NaN that is stored is missing.

    Attributes
    ----------
    matrix
        By columns (CSC, of canonical format: no entry twice, rows ascending), of a type that polars has.
    names
        The names of its columns.
    others
        The other columns, as many rows.
    """

    matrix: Any
    names: tuple[str, ...]
    others: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*self.names, *self.others.columns]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self), len(self.names) + self.others.width

    def __len__(self) -> int:
        """Return the number of rows."""
        n_rows: int = self.matrix.shape[0]
        return n_rows

    @property
    def dtype(self) -> pl.DataType:
        """The type of the matrix's columns."""
        return pl.Series(self.matrix.data[:0]).dtype

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The type of each column."""
        return dict.fromkeys(self.names, self.dtype) | dict(self.others.schema)

    def types(self) -> dict[str, FeatureType | None]:
        """Return the type of each column as of a feature (see `FrameSource.types`)."""
        matrix_type = FeatureType.from_polars(self.dtype)
        of_others = {name: FeatureType.from_polars(dtype) for name, dtype in self.others.schema.items()}
        return dict.fromkeys(self.names, matrix_type) | of_others

    def filter(self, mask: pl.Series) -> SparseFrame:
        """Return the rows where a Boolean series is true."""
        others = self.others.filter(mask) if self.others.width else self.others
        return replace(self, matrix=self.matrix[np.flatnonzero(mask.to_numpy())], others=others)

    def with_columns(self, columns: Sequence[pl.Series]) -> SparseFrame:
        """Return the frame with more columns."""
        return replace(self, others=pl.DataFrame([*self.others, *columns]))

    def to_dense(self, names: Sequence[str]) -> pl.DataFrame:
        """Return some columns as a frame with all zeros.

        Raises
        ------
        DataError
            If they and their bins take more memory than there is.
        """
        index_of = {name: index for index, name in enumerate(self.names)}
        needed = len(self) * len(index_of.keys() & set(names)) * (self.matrix.dtype.itemsize + _BYTES_OF_BINS)
        available = available_memory()
        if available is not None and needed > available:
            n_rows, n_columns = self.matrix.shape
            raise DataError(
                f"X is a sparse matrix of {n_rows:,} rows and {n_columns:,} columns, which would take "
                f"{needed / 1e9:,.1f} GB of memory as a dense frame, and {available / 1e9:,.1f} GB are free; choose "
                "fewer columns (max_features of a vectorizer, SelectKBest) or combine them (TruncatedSVD)"
            )
        return pl.DataFrame([
            self.dense(index_of[name]) if name in index_of else self.others[name] for name in names
        ])  # fmt: skip

    def stored(self, index: int) -> tuple[npt.NDArray[np.int32], Array]:
        """Return the rows of a column's entries, ascending, and their values."""
        start, stop = self.matrix.indptr[index : index + 2]
        return self.matrix.indices[start:stop], self.matrix.data[start:stop]

    def dense(self, index: int) -> pl.Series:
        """Return a column with its zeros."""
        rows, values = self.stored(index)
        column = np.zeros(len(self), self.matrix.dtype)
        column[rows] = values
        return pl.Series(self.names[index], column)

    def with_values(self) -> list[str]:
        """Return the names of the matrix's columns that have a value."""
        return [name for name, count in zip(self.names, self.count_missing(), strict=True) if count < len(self)]

    def count_missing(self) -> list[int]:
        """Return the number of NaN in each column of the matrix."""
        if self.matrix.dtype.kind != "f":
            return [0] * len(self.names)
        missing = np.append(0, np.cumsum(np.isnan(self.matrix.data)))
        counts: list[int] = np.diff(missing[self.matrix.indptr]).tolist()
        return counts


@dataclass(frozen=True)
class SparseSource(FrameSource):
    """A sparse matrix and the columns beside it, of which ``frame`` has only these.

    Attributes
    ----------
    table
        All columns.
    """

    table: SparseFrame = field(kw_only=True)

    def names(self) -> list[str]:
        """See `FrameSource.names`."""
        return self.table.columns

    def types(self) -> dict[str, FeatureType | None]:
        """See `FrameSource.types`."""
        return self.table.types()

    def type_names(self) -> dict[str, str]:
        """See `FrameSource.type_names`."""
        return {name: str(dtype) for name, dtype in self.table.schema.items()}

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """See `FrameSource.to_frame`; columns of the matrix become dense."""
        return self.table.to_dense(names).lazy()
