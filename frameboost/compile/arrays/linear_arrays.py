"""Linear leaves as flat arrays, and the numbers of rows that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.arrays.flat_trees import FloatArray, IntArray, TreeArrays
from frameboost.schema.polars_columns import column
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import LinearLeaf

__all__ = ["CHUNK", "LinearArrays"]

# Rows whose leaves are found together.
CHUNK = 1 << 12
_TERM = "slope", "offset", "shift", "low", "high"


@dataclass(frozen=True)
class LinearArrays:
    """The linear leaves of an ensemble.

    Attributes
    ----------
    names
        The features that leaves have slopes of.
    linear_at, constant, starts, places, terms
        See `add_linear_trees`.
    """

    names: tuple[str, ...]
    linear_at: IntArray
    constant: FloatArray
    starts: IntArray
    indices: IntArray
    terms: FloatArray

    @classmethod
    def compile(
        cls, arrays: TreeArrays, leaves: Sequence[Mapping[int, LinearLeaf]], features: Sequence[Feature]
    ) -> LinearArrays:
        """Flatten the linear leaves of each tree, by node."""
        found = [(root + node, leaf) for root, own in zip(arrays.roots.tolist(), leaves, strict=True)
                 for node, leaf in own.items()]  # fmt: skip
        linear_at = np.full(len(arrays.value), -1, np.int64)
        linear_at[[node for node, _ in found]] = np.arange(len(found))
        terms = [term for _, leaf in found for term in leaf.terms]
        asked = sorted({term.feature for term in terms})
        return cls(
            tuple(features[number].name for number in asked),
            linear_at,
            np.array([leaf.constant for _, leaf in found]),
            np.cumsum([0, *(len(leaf.terms) for _, leaf in found)], dtype=np.int64),
            np.array([asked.index(term.feature) for term in terms], np.int64),
            np.array([[getattr(term, name) for name in _TERM] for term in terms]),
        )

    def read(
        self, arrays: TreeArrays, frame: pl.LazyFrame, types: Mapping[str, FeatureType]
    ) -> tuple[npt.NDArray[np.unsignedinteger], FloatArray]:
        """Return the codes of rows, (rows, features), and their numbers, float64 (names, rows)."""
        numbers = [column(name).cast(pl.Float64).alias(f"number {i}") for i, name in enumerate(self.names)]
        read = frame.select(*arrays.code_exprs(types), *numbers).collect()  # once: the rows keep their order
        n_codes = read.width - len(numbers)
        codes = np.ascontiguousarray(read[:, :n_codes].to_numpy())
        values = np.empty((len(numbers), len(read)))
        for index, column_ in enumerate(read[:, n_codes:].iter_columns()):
            values[index] = column_.to_numpy()  # NULL becomes NaN
        return codes, values
