"""What a model file knows of the training rows: their categories, and their shares in the leaves of the first tree.

A cover is a sum of hessians. Before the first tree all rows have the same margin; if the hessian does not depend on the
label, it is the same for all rows, and covers are proportional to numbers of rows (or to sums of their weights).
"""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from frameboost.compile.sql.drift import SMALLEST_SHARE
from frameboost.ensemble.ensemble import Ensemble
from frameboost.model.model import Model
from frameboost.schema.polars_columns import column, known_expr, text_expr

__all__ = ["shares_by_leaf", "stability_index", "unseen_categories"]


def shares_by_leaf(model: Model, rows: pl.DataFrame) -> pl.DataFrame | None:
    """Return the shares of training rows and of these rows in the leaves of the first tree.

    Returns
    -------
    polars.DataFrame or None
        ``leaf`` (the node), ``training`` and ``here``; None if the covers of the tree are not in proportion to rows.
    """
    ensemble = model.ensemble
    if not ensemble.trees or not _covers_count_rows(ensemble):
        return None
    tree = ensemble.trees[0]
    leaves = list(tree.leaves())
    covers = [tree.cover[leaf] for leaf in leaves]
    if len(leaves) < 2 or not all(cover > 0 and math.isfinite(cover) for cover in covers):
        return None
    found = dict(model[:1].predict(rows, "leaf").arr.get(0).value_counts().rows())
    return pl.DataFrame({
        "leaf": leaves,
        "training": [cover / sum(covers) for cover in covers],
        "here": [found.get(leaf, 0) / len(rows) for leaf in leaves],
    })  # fmt: skip


def _covers_count_rows(ensemble: Ensemble) -> bool:
    loss = ensemble.loss
    if not loss.is_trainable or not loss.outputs:
        return False
    hessian = loss.outputs[0].hessian
    depends = [*loss.labels, *loss.roles, *loss.terms]
    return not any(name in hessian.columns and hessian.uses(name) for name in depends)


def stability_index(shares: pl.DataFrame) -> float:
    """Return Σ (a − e) ln(a / e) over the leaves, a the shares here and e those of training.

    >>> round(stability_index(pl.DataFrame({"training": [0.5, 0.5], "here": [0.25, 0.75]})), 6)
    0.274653
    """
    a, e = (shares[name].clip(lower_bound=SMALLEST_SHARE) for name in ("here", "training"))
    return float(((a - e) * (a / e).log()).sum())


def unseen_categories(ensemble: Ensemble, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the features that have categories here which training did not have, the most frequent first.

    Returns
    -------
    polars.DataFrame
        ``feature``, ``share`` of the rows with such a category, and ``examples``, at most three.
    """
    found = []
    for feature in ensemble.features:
        if not feature.type.is_categorical or feature.type.name == "codes":
            continue
        values = rows.select(known_expr(feature).alias(feature.name)).to_series()
        present = rows.select(text_expr(column(feature.name), feature.type).alias(feature.name)).to_series()
        unseen = present.filter(values.is_null() & present.is_not_null())
        if len(unseen):
            counts = unseen.value_counts(name="rows").sort(["rows", feature.name], descending=[True, False])
            found.append((feature.name, len(unseen) / len(rows), counts[feature.name].head(3).to_list()))
    schema: dict[str, Any] = {"feature": pl.String, "share": pl.Float64, "examples": pl.List(pl.String)}
    return pl.DataFrame(found, schema, orient="row").sort("share", descending=True, maintain_order=True)
