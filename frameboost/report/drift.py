"""Drift: how far these rows are from those of training.

With the training rows it is the population stability index of each feature; without, what the model file knows of them.
"""

from __future__ import annotations

import polars as pl

from frameboost.checks.messages import shortened
from frameboost.data.shares import free_name
from frameboost.errors import DataError
from frameboost.evaluation.drift import drift_frame
from frameboost.report.conditions import in_words, path_to
from frameboost.report.markup import Raw, Section, bar, code, escaped, number, paragraph, percent, table
from frameboost.report.material import Material
from frameboost.report.training_shares import shares_by_leaf, stability_index, unseen_categories

__all__ = ["drift"]

_TOP = 20
_LEAVES = 8
_MUCH, _SOME = 0.25, 0.1


def drift(material: Material) -> Section:
    """Return the section."""
    parts = _unseen(material)
    parts += _of_leaves(material) if material.training_rows is None else _of_features(material)
    return Section("drift", "Drift since training", parts)


def _of_features(material: Material) -> list[Raw]:
    """Return the index of each feature, against the training rows."""
    rows = material.rows
    period = free_name("period", rows.columns)
    try:
        baseline = material.baseline
        assert baseline is not None
        found = drift_frame(material.ensemble, rows.with_columns(pl.lit(0).alias(period)), baseline, period)
    except DataError as error:  # such as a feature of another type than in training, of which bins are not known
        return [paragraph("The features can't be compared with those of training: ", error, ".", kind="note")]
    found = found.sort("psi", descending=True, maintain_order=True)
    largest = max(1e-9, float(found["psi"].max() or 0.0), _MUCH)  # type: ignore[arg-type]
    shown = [(name, number(psi, 3), bar(psi / largest), _level(psi)) for _, name, psi, _ in found.head(_TOP).rows()]
    more = len(found) - len(shown)
    text = (
        "The population stability index (PSI) of each feature: Σ (a − e) ln(a / e) over some ten bins, a and e the "
        f"shares of rows here and in training. Below {_SOME} is little, above {_MUCH} much."
    )
    note = [paragraph(f"{more:,} more features have less.", kind="note")] if more > 0 else []
    return [paragraph(text), table(("feature", "PSI", "", ""), shown, numbers=(1,)), *note]


def _level(psi: float) -> Raw:
    if psi > _MUCH:
        return Raw('<span class="bad">much</span>')
    return escaped("some" if psi >= _SOME else "little")


def _unseen(material: Material) -> list[Raw]:
    """Return the categories that training did not have."""
    found = unseen_categories(material.ensemble, material.rows)
    if found.is_empty():
        if not any(f.type.is_categorical and f.type.name != "codes" for f in material.ensemble.features):
            return []
        return [paragraph("Every category in these rows is known from training.")]
    rows = [
        (name, percent(share), Raw(", ".join(code(shortened(value, 40)) for value in examples)))
        for name, share, examples in found.head(_TOP).rows()
    ]
    text = "Categories that training did not have; they go where missing values go."
    return [paragraph(text), table(("feature", "share of rows", "such as"), rows, numbers=(1,))]


def _of_leaves(material: Material) -> list[Raw]:
    """Return the shares of rows by leaf of the first tree."""
    how = paragraph(
        "For the drift of each feature give the rows of training, ", code("training="), ".", kind="note"
    )  # fmt: skip
    shares = shares_by_leaf(material.model, material.rows)
    if shares is None:
        return [how]
    psi = stability_index(shares)
    tree, features = material.ensemble.trees[0], material.ensemble.features
    ordered = shares.sort((pl.col("here") - pl.col("training")).abs(), descending=True, maintain_order=True)
    rows = [
        (
            in_words(tree, path_to(tree, leaf), features, material.with_missing),
            percent(before),
            percent(here),
            f"{100 * (here - before):+.1f}",
        )
        for leaf, before, here in ordered.head(_LEAVES).rows()
    ]
    text = Raw(
        "The model file has the shares of the training rows in the leaves of its first tree. Against these, the rows "
        f"here have a population stability index of <strong>{number(psi, 3)}</strong> ({_level(psi)}): below {_SOME} "
        f"is little, above {_MUCH} much. The leaves that changed most:"
    )
    header = ("leaf", "in training", "here", "points")
    return [paragraph(text), table(header, rows, numbers=(1, 2, 3)), how]
