"""Codes of a few rows, value by value: to set up a query over columns takes longer than to look at some hundred values.

Only plain numbers and strings are coded here. Anything else (other types, a column that is not there, a NULL in a
column of another type) is left to `frameboost.prediction.predictor`, which also says what is wrong with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.arrays.flat_trees import TreeArrays
from frameboost.schema.types import Feature, Physical

__all__ = ["FewRows"]

# More rows than this, or more values in several rows, are faster by columns.
_MAX_ROWS, _MAX_VALUES = 16, 1 << 12
_NUMBERS, _TEXT = {float, int, np.float64, np.float32}, {str}
# What other columns of a dict may hold besides; a value of another type may be an error.
_OTHERS = {str, bool, type(None)}


class FewRows:
    """The codes of a few rows for an ensemble.

    Python compares integers and floats exactly, so thresholds stay as they are, whatever the types of the columns.

    Parameters
    ----------
    arrays
        The ensemble.
    features
        The features of the model. Rows must have all of them, also those that no tree asks about.
    """

    def __init__(self, arrays: TreeArrays, features: Sequence[Feature]) -> None:
        self._names = [feature.name for feature in features]
        self._dtype = arrays.code_dtype
        self._can_code = all(_can_code(feature) for feature in features)
        self._types = [_TEXT if feature.type.is_categorical else _NUMBERS for feature in features]
        self._all_types = set().union(*self._types)
        asked = zip(arrays.features, arrays.edges, arrays.missing.tolist(), strict=True)
        self._coders = [
            (self._names.index(feature.name), (_text if feature.type.is_categorical else _number)(edges, missing))
            for feature, edges, missing in asked
        ]
        # The columns of the last frame, and where the features are among them.
        self._last: tuple[list[str], list[int]] = [], []

    def codes(self, data: Any) -> npt.NDArray[np.unsignedinteger] | None:
        """Return the codes of rows, as `TreeArrays.codes` does; None if they must be read by columns.

        Parameters
        ----------
        data
            The rows: a frame, a dict for one row, or anything else, which is not read here.
        """
        if not self._can_code:
            return None
        if type(data) is dict:
            rows = self._of_dict(data)
        elif isinstance(data, pl.DataFrame) and 0 < data.height <= _MAX_ROWS:
            rows = self._of_frame(data)
        else:
            return None
        if rows is None:
            return None
        codes = [[code(row[i]) for i, code in self._coders] for row in rows]
        return np.array(codes, self._dtype).reshape(len(rows), len(self._coders))

    def _of_dict(self, row: dict[Any, Any]) -> list[list[Any]] | None:
        if set(map(type, row)) != _TEXT or not set(map(type, row.values())) <= _NUMBERS | _OTHERS:
            return None
        try:
            values = [row[name] for name in self._names]
        except KeyError:
            return None
        return [values] if self._are_plain(values, {type(None)}) else None

    def _of_frame(self, frame: pl.DataFrame) -> list[list[Any]] | None:
        columns = frame.columns
        if len(columns) * frame.height > _MAX_VALUES and frame.height > 1:
            return None
        last, indices = self._last
        if last != columns:
            index = {name: i for i, name in enumerate(columns)}
            if not index.keys() >= set(self._names):
                return None
            indices = [index[name] for name in self._names]
            self._last = columns, indices
        rows = [[row[i] for i in indices] for row in frame.rows()]
        if all(self._are_plain(row, set()) for row in rows):
            return rows
        # A NULL is missing, in a column of the feature's type.
        dtypes = frame.dtypes
        fit = all(
            dtypes[i] in (pl.String, pl.Enum, pl.Categorical) if types is _TEXT else dtypes[i].is_numeric()
            for i, types in zip(indices, self._types, strict=True)
        )
        return rows if fit and all(self._are_plain(row, {type(None)}) for row in rows) else None

    def _are_plain(self, values: Sequence[Any], more: set[type]) -> bool:
        """Whether all values have types that are coded here, or types in ``more``."""
        if not set(map(type, values)) <= self._all_types | more:
            return False
        if self._all_types == _NUMBERS:
            return True
        return all(type(value) in types | more for value, types in zip(values, self._types, strict=True))


def _can_code(feature: Feature) -> bool:
    kind = feature.type
    is_number = kind.is_float or kind.is_integer
    return (is_number and not kind.is_categorical and not feature.zero_is_missing) or kind.name == "string"


def _number(edges: Sequence[Physical], missing: int) -> Callable[[Any], int]:
    def code(value: Any) -> int:
        return missing if value is None or value != value else bisect_right(edges, value)

    return code


def _text(categories: Sequence[Physical], missing: int) -> Callable[[Any], int]:
    codes: dict[Any, int] = {name: i for i, name in enumerate(categories)} | {None: missing}
    return lambda value: codes.get(value, missing + 1)
