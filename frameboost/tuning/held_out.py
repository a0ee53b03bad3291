"""The margins of a model on the rows that its fit held out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.data.opening import open_source
from frameboost.ensemble.ensemble import Ensemble
from frameboost.prediction.predictor import Predictor

__all__ = ["margins_of"]


def margins_of(ensemble: Ensemble, rows: pl.DataFrame) -> Iterator[npt.NDArray[np.float64]]:
    """Return the margins of rows, by output; for one call flat arrays are compiled in the least time."""
    from frameboost.compile.arrays.flat_trees import TreeArrays  # late, as numba comes with it

    types, predictor = ensemble.find_in(open_source(rows)), Predictor(ensemble)
    if ensemble.is_linear:
        sums = predictor.sums(rows.lazy(), types, ensemble.base_margins)
    else:
        arrays = TreeArrays.compile(ensemble.trees, ensemble.features)
        sums = list(arrays.margins(arrays.codes(rows.lazy(), types), ensemble.base_margins, in_parallel=False))
    for margin in predictor.with_offset(rows, sums):
        yield np.asarray(margin)
