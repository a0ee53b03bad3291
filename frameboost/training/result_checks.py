"""Warnings of fits that have learned nothing, or have not come near the labels: each has the reason and a remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from frameboost.binning.bins import Bins
from frameboost.checks.messages import shown, warn
from frameboost.engines.contract import Rows
from frameboost.ensemble.tree_columns import TreeColumns
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, exact_sum, weighted
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters
from frameboost.trees.tree import LEAF, Tree

__all__ = ["check_result"]

# Losses whose steps do not grow with the distance from the label.
_SLOW = ("reg:squaredlogerror", "reg:pseudohubererror")
# How far ln(prediction + 1) is from ln(label + 1) on average where the prediction is out by a factor of seven.
_FAR_IN_LOGARITHMS = 2.0


def check_result(
    rows: Rows, loss: Loss, parameters: Parameters, trees: Sequence[Tree], bins: Sequence[Bins],
    min_gains: Sequence[float],
) -> None:  # fmt: skip
    """Warn of trees without a split, all or those of a target, and of predictions far from the labels.

    Parameters
    ----------
    rows, loss, parameters
        The fit, after its last round.
    trees
        The trees of the model.
    bins
        The bins of the features.
    min_gains
        For each output the gain that a split had to exceed.
    """
    if loss.name in _SLOW and parameters.base_score is None and _is_far(rows, loss):
        return
    columns = TreeColumns.of(trees)
    is_leaf = columns.nodes["feature"] == LEAF
    if is_leaf.all():
        if _is_constant(rows, loss, loss.labels):  # warned of before training
            return
        heaviest = float(columns.nodes["cover"][columns.roots].max())
        why = (
            _without_hessian(rows, loss)
            if heaviest == 0.0
            else _without_gain(parameters, bins, max(min_gains), heaviest)
        )
        warn(f"no tree has a split, so all rows have the same prediction: {why}")
    elif len(loss.labels) > 1:
        for output, label in enumerate(loss.labels):
            roots = columns.roots[columns.output == output]
            if is_leaf[roots].all() and not _is_constant(rows, loss, [label]):
                why = _without_gain(parameters, bins, min_gains[output], float(columns.nodes["cover"][roots].max()))
                warn(f"no tree of target {output + 1} has a split, so all rows have the same prediction of it: {why}")


def _is_constant(rows: Rows, loss: Loss, labels: Sequence[str]) -> bool:
    """Whether no label differs between rows that count."""
    ends: dict[str, Aggregate] = {}
    for name in labels:
        counted = Expression(f"CASE WHEN weight > 0 THEN {name} END", (name, "weight"))
        ends |= {f"{function}_{name}": Aggregate(function, counted) for function in ("min", "max")}
    results = rows.aggregate(ends)
    return "upper" not in loss.roles and all(results[f"min_{name}"] == results[f"max_{name}"] for name in labels)


def _without_hessian(rows: Rows, loss: Loss) -> str:
    """Return why all gradients are 0."""
    if "qid" in loss.roles:
        return "no query has two rows with different labels, so there are no pairs to rank"
    if loss.name == "survival:cox":
        last = rows.aggregate({"last": Aggregate("max", Expression("label", ("label",)))})["last"]
        if last is not None and last <= 0:
            return "every row of the target is censored, as negative times say"
    return "the hessians of all rows are 0"


def _without_gain(p: Parameters, bins: Sequence[Bins], min_gain: float, heaviest: float) -> str:
    """Return why no split is made; ``heaviest`` is the largest sum of hessians of a tree."""
    if heaviest < 2 * p.min_child_weight:
        return (
            f"the hessians of all rows (their weights, with squared error) sum to {heaviest:.3g}, and min_child_weight="
            f"{p.min_child_weight:g} asks for as much on each side of a split; give a smaller one, or larger weights"
        )
    if math.isinf(min_gain):
        return "the squares of gradients and weights are too small for float64; give a larger target"
    if p.tree_method == "hist" and all(each.count + each.has_missing < 2 for each in bins):
        return "no feature has two values"
    bound = f"gamma={p.gamma:g}" if p.gamma > min_gain else f"{min_gain:.3g}"
    penalty = f" with reg_lambda={p.reg_lambda:g}, which is more than the rows weigh ({heaviest:.3g})"
    within = " within the constraints" if p.monotone_constraints or p.interaction_constraints else ""
    return f"no split{within} gains more than {bound}{penalty if p.reg_lambda > heaviest else ''}"


def _is_far(rows: Rows, loss: Loss) -> bool:
    """Warn if the mean prediction is below or above all labels, or out by a factor, and return whether it is."""
    label = Expression("label", ("label",))
    ends = rows.aggregate({"low": Aggregate("min", label), "high": Aggregate("max", label)})
    logarithm = "LN(GREATEST({}, -1 + 1e-6) + 1)"
    distance = Expression(f"{logarithm.format('margin')} - {logarithm.format('label')}", ("margin", "label"))
    terms = {"prediction": Expression("margin", ("margin",)), "label": label}
    terms |= {"distance": distance} if loss.name == "reg:squaredlogerror" else {}
    one = Expression("1", ())
    sums = exact_sum(rows, {name: weighted(term) for name, term in {**terms, "weight": one}.items()})
    mean = {name: sums[name] / sums["weight"] for name in terms}
    low, high = ends["low"] or 0.0, ends["high"] or 0.0
    if low <= mean["prediction"] <= high and abs(mean.get("distance", 0.0)) < _FAR_IN_LOGARITHMS:
        return False
    slope = "" if loss.name == "reg:squaredlogerror" else " and a huber_slope as large as usual errors"
    predicted, known = f"{mean['prediction']:.6g}", f"{mean['label']:.6g}"
    warn(
        f"the mean prediction of the training rows is {predicted}, of the labels {known}: with objective "
        f"{shown(loss.name)} steps are short where labels are large; give base_score={mean['label']:.3g}{slope}, or "
        "train on smaller labels"
    )
    return True
