"""Reason codes: the features with the largest contributions to each row.

`frameboost.database.explanations` writes the same as SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.checks.messages import did_you_mean, shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.expressions.grid import OFFSET_STEPS, bit_step
from frameboost.prediction.contributions import contribution_values
from frameboost.trees.node_means import leaf_slopes
from frameboost.trees.tree import Tree

__all__ = ["check_no_reasons", "check_reasons", "reason_frame", "rounding_shift"]

# Bits of a sum of Shapley values, by which they are compared: rounding errors are smaller, so equal ones stay equal.
_COMPARED_BITS = 44


def reason_frame(
    ensemble: Ensemble, data: object, output: int | str | None, top: int, sign: int | None,
    texts: Mapping[str, str] | None, *, approx: bool,
) -> pl.DataFrame:  # fmt: skip
    """Return the columns ``reason_1``, ``contribution_1``, ... of `frameboost.Model.explain`."""
    names = ensemble.feature_names
    check_reasons(top, sign, texts, names)
    values = contribution_values(ensemble, data, output, approx=approx)
    if not approx and (shift := rounding_shift(ensemble.trees_of(ensemble.margin_number(output)))):
        values = (values + shift) - shift
    called = [(texts or {}).get(name, name) for name in names]
    reasons = list(dict.fromkeys(called))  # in the order of their first features
    sums = np.zeros((len(values), len(reasons)))
    for i, text in enumerate(called):
        sums[:, reasons.index(text)] += values[:, i]
    sizes = np.abs(sums) if sign is None else sums * sign
    order, rows = np.argsort(-sizes, axis=1, kind="stable"), np.arange(len(values))
    columns: dict[str, pl.Series] = {}
    for k in range(top):
        at = order[:, min(k, len(reasons) - 1)]
        holds = (sizes[rows, at] > 0.0) | (sign is None) if k < len(reasons) else np.zeros(len(rows), dtype=np.bool_)
        known = {"reason": pl.Series(reasons, dtype=pl.String).gather(at), "contribution": pl.Series(sums[rows, at])}
        for name, column in known.items():
            columns[f"{name}_{k + 1}"] = column.zip_with(pl.Series(holds), pl.Series([None], dtype=column.dtype))
    return pl.DataFrame(columns)


def rounding_shift(trees: Sequence[Tree]) -> float:
    """Return the number to add and subtract to round Shapley values; 0 if these are all 0."""
    largest = sum(max(tree.value) - min(tree.value) for tree in trees)
    largest += sum(max((leaf.largest() for leaf in leaf_slopes(tree).values()), default=0.0) for tree in trees)
    return OFFSET_STEPS * bit_step(largest, _COMPARED_BITS) if largest else 0.0


def check_no_reasons(top: object, sign: object, texts: object) -> None:
    """Raise `ParameterError` if options of reasons are passed without ``top``."""
    for name, value in (("sign", sign), ("texts", texts)):
        if top is None and value is not None:
            raise ParameterError(f"{name} is for reason codes; set top, their number per row")


def check_reasons(top: object, sign: object, texts: object, names: Sequence[str]) -> None:
    """Raise `ParameterError` if an option of reasons is invalid; ``names`` are the features'."""
    if not isinstance(top, int) or isinstance(top, bool) or not 1 <= top <= len(names):
        raise ParameterError(f"top must be an integer from 1 to {len(names)}, the number of features, not {shown(top)}")
    if sign is not None and (isinstance(sign, bool) or sign not in (-1, 1)):
        raise ParameterError(
            "sign must be 1, for reasons that raise the margin only, -1, for those that lower it, or None, not "
            f"{shown(sign)}"
        )
    if texts is None:
        return
    if not isinstance(texts, Mapping):
        raise ParameterError(f"texts must be a dict of texts by feature, not {shown(texts)}")
    for name, text in texts.items():
        if name not in names:
            raise ParameterError(
                f"texts names {shown(name)}, which is not a feature of the model{did_you_mean(name, names)}"
            )
        if not isinstance(text, str):
            raise ParameterError(f"texts must have a string for feature {shown(name)}, not {shown(text)}")
