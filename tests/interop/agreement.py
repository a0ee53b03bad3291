"""What every model of another library's must do, whichever library it is."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import frameboost as fb

__all__ = ["ODD", "assert_close", "assert_consistent", "assert_same_leaves", "near", "same_leaves"]

_ZERO = 1.0000000180025095e-35
ODD = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, _ZERO, -_ZERO,
    math.nextafter(_ZERO, 1), math.nextafter(-_ZERO, -1), 5e-324, -5e-324, 1e300, -1e300,
    1.7976931348623157e308, -1.7976931348623157e308,
]  # fmt: skip


def near(model: fb.Model, feature: int, rng, single: bool = False) -> np.ndarray:
    """Return the odd numbers and the feature's thresholds, with the numbers right below and above, shuffled."""
    kind = np.float32 if single else np.float64
    with np.errstate(over="ignore"):
        found = np.array(
            [t for tree in model.ensemble.trees for f, t in zip(tree.feature, tree.threshold, strict=True)
             if f == feature and t is not None], dtype=kind,
        )  # fmt: skip
        below, above = np.nextafter(found, kind(-np.inf)), np.nextafter(found, kind(np.inf))
        values = [found, below, np.nextafter(below, kind(-np.inf)), above, np.array(ODD).astype(kind)]
    return rng.permutation(np.concatenate(values)).astype(np.float64)


def assert_close(model: fb.Model, frame: pl.DataFrame, theirs: np.ndarray, single: bool = False) -> None:
    """The margins are the library's but for rounding: of its sums, and of leaves to the grid (of its floats)."""
    scale = sum(max(abs(tree.value[leaf]) for leaf in tree.leaves()) for tree in model.ensemble.trees)
    ours = model.predict(frame, "margin").to_numpy()
    digits = 1e-6 if single else 1e-12
    np.testing.assert_allclose(ours, theirs, rtol=digits, atol=digits / 200 * scale)


def assert_consistent(model: fb.Model, frame: pl.DataFrame, *, sql: bool = True) -> None:
    """The file reads back to the same model, and SQL and polars say what `predict` says."""
    codes = [pl.col(f.name).fill_nan(None).cast(pl.Int64) for f in model.ensemble.features if f.type.name == "codes"]
    margins = model.predict(frame, "margin")
    frame = frame.with_columns(codes)  # the type of the feature, which SQL and polars need
    path = Path(tempfile.mkdtemp()) / "model.json"
    model.save(path)
    read = fb.load(path)
    assert read == model
    assert read.predict(frame, "margin").equals(margins)
    assert frame.select(model.expr("margin")).to_series().equals(margins)
    # SQL can't tell what zeros of such a feature are yet.
    if sql and not any(feature.zero_is_missing for feature in model.ensemble.features):
        with duckdb.connect() as con:
            con.register("rows_in", frame.with_row_index("row_number"))
            scored = con.execute(f'SELECT {model.sql("margin")} AS p FROM rows_in ORDER BY "row_number"').fetchnumpy()
        values = np.ma.stack(list(scored["p"])) if margins.dtype != pl.Float64 else scored["p"]
        assert np.array_equal(np.asarray(values, dtype=np.float64), margins.to_numpy())


def same_leaves(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two numberings of the leaves that rows end in (rows, trees) are the same but for names."""
    for a, b in zip(ours.T.astype(np.int64), theirs.T.astype(np.int64), strict=True):
        pairs = a * (b.max() + 1) + b  # one number for each pair
        if not len(np.unique(pairs)) == len(np.unique(a)) == len(np.unique(b)):
            return False
    return True


def assert_same_leaves(model: fb.Model, frame: pl.DataFrame, theirs: np.ndarray) -> None:
    """Every row ends in the same leaf of every tree."""
    ours = model.predict(frame, "leaf").to_numpy()
    assert same_leaves(ours, np.asarray(theirs).reshape(ours.shape))
