"""The history of a fit or of a cross-validation as a long frame."""

from __future__ import annotations

import re

import polars as pl

__all__ = ["long_history"]

_SET = re.compile(r"(train|valid|validation_\d+)_(.+)", re.DOTALL)


def long_history(history: pl.DataFrame) -> pl.DataFrame:
    """Return one row per round, evaluation set and metric.

    Parameters
    ----------
    history
        `frameboost.Model.history`, or a result of `frameboost.cv`.

    Returns
    -------
    polars.DataFrame
        ``metric``, ``set`` ("train", "valid", ...; empty for a column without a set), ``round``, ``value``, and
        ``std``, the standard deviation over the folds (null for a fit).

    Examples
    --------
    >>> long_history(pl.DataFrame({"round": [1, 2], "train_rmse": [3.0, 2.0]})).rows()
    [('rmse', 'train', 1, 3.0, None), ('rmse', 'train', 2, 2.0, None)]
    """
    parts = [pl.DataFrame(schema=_SCHEMA)]
    for name in history.columns:
        if name == "round" or (name.endswith("_std") and f"{name[:-4]}_mean" in history.columns):
            continue
        of_folds = name.endswith("_mean") and f"{name[:-5]}_std" in history.columns
        stem = name[:-5] if of_folds else name
        match = _SET.fullmatch(stem)
        std = history[f"{stem}_std"] if of_folds else pl.Series([None] * len(history), dtype=pl.Float64)
        columns = {
            "metric": [match[2] if match else stem] * len(history),
            "set": [match[1] if match else ""] * len(history),
            "round": history["round"].cast(pl.Int64),
            "value": history[name].cast(pl.Float64),
            "std": std.cast(pl.Float64),
        }
        parts.append(pl.DataFrame(columns, schema=_SCHEMA))
    return pl.concat(parts)


_SCHEMA = {"metric": pl.String, "set": pl.String, "round": pl.Int64, "value": pl.Float64, "std": pl.Float64}
