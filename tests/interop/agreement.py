"""What every model of another library's must do, whichever library it is."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl

import frameboost as fb

__all__ = [
    "ODD", "TOWNS", "assert_close", "assert_consistent", "assert_same_leaves", "near", "numbers", "rows_near",
    "same_leaves", "towns",
]  # fmt: skip

_ZERO = 1.0000000180025095e-35
ODD = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, _ZERO, -_ZERO,
    math.nextafter(_ZERO, 1), math.nextafter(-_ZERO, -1), 5e-324, -5e-324, 1e300, -1e300,
    1.7976931348623157e308, -1.7976931348623157e308,
]  # fmt: skip


def numbers(seed: int, n: int, tiny: float, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of few and of many values, of tiny and of large ones, and a target."""
    rng = np.random.default_rng(seed)
    X = np.c_[
        rng.normal(size=n), rng.choice([0.0, 1.0, -1.0], n), rng.normal(size=n).round(1),
        rng.normal(size=n) * tiny, rng.integers(0, 2**26, n) + 0.25,
    ]  # fmt: skip
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 4] / 2**26 + rng.normal(size=n) / 4
    if missing:
        X[rng.random(n) < 0.2, 0] = np.nan
        X[rng.random(n) < 0.1, 2] = np.nan
    return X, y


TOWNS = ["Ürümqi", "b's", 'q"uote', "a", "Zürich", "z,1", "="]


def towns(seed: int, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return categories that are odd names and odd numbers beside numbers, some of them missing, and a target."""
    rng = np.random.default_rng(seed)
    town, code = rng.choice(TOWNS, n), rng.choice([70, -3, 11, 900, 5], n)
    frame = pd.DataFrame({"x": rng.normal(size=n), "town": pd.Categorical(town), "wide name": rng.normal(size=n),
                          "code": pd.Categorical(code)})  # fmt: skip
    frame.loc[rng.random(n) < 0.1, "town"] = np.nan
    frame.loc[rng.random(n) < 0.1, "x"] = np.nan
    y = frame["town"].cat.codes % 3 + frame["code"].cat.codes % 2 * frame["x"].fillna(1) + rng.normal(size=n)
    return frame, y.to_numpy()


def near(model: fb.Model, feature: int, rng) -> np.ndarray:
    """Return the odd numbers and the feature's thresholds, with the numbers right below and above, shuffled."""
    found = np.array([t for tree in model.ensemble.trees for f, t in zip(tree.feature, tree.threshold, strict=True)
                      if f == feature and t is not None], dtype=np.float64)  # fmt: skip
    with np.errstate(over="ignore"):
        below, above = np.nextafter(found, -np.inf), np.nextafter(found, np.inf)
        return rng.permutation(np.concatenate([found, below, np.nextafter(below, -np.inf), above, ODD]))


def rows_near(model: fb.Model, n_rows: int, seed: int, *, single: bool = True) -> np.ndarray:
    """Return rows of such numbers; of ``single`` ones also those on both sides of the float32 on both sides of each."""
    rng, columns = np.random.default_rng(seed), []
    for feature in range(len(model.features)):
        values = near(model, feature, rng)
        if single:
            with np.errstate(over="ignore"):
                rounded = values.astype(np.float32)
                more = [np.nextafter(rounded, np.float32(side)).astype(float) for side in (-np.inf, np.inf)]
            values = np.concatenate([values, rounded.astype(float), *more])
        columns.append(rng.choice(values, n_rows))
    return np.stack(columns, axis=1)


def assert_close(model: fb.Model, frame: pl.DataFrame, theirs: np.ndarray, single: bool = False) -> None:
    """The margins are the library's but for rounding: of its sums, of float32 if ``single``, and of leaves to the grid.

    Sums of float32 have a last bit of 6e-8 of the sum, once for each tree.
    """
    scale = sum(max(abs(tree.value[leaf]) for leaf in tree.leaves()) for tree in model.ensemble.trees)
    within = {"rtol": 1e-12, "atol": 5e-15 * scale}
    if single:
        within = {"rtol": 0, "atol": 1e-6 * (scale + np.abs(model.base_margin).max())}
    np.testing.assert_allclose(model.predict(frame, "margin").to_numpy(), theirs, **within)


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
