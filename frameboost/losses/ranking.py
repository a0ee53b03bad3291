"""The losses of learning to rank: LambdaMART, with a query's rows paired by XGBoost's method ``topk``.

Burges, From RankNet to LambdaRank to LambdaMART: an overview (2010); normalised as in XGBoost 3.2
(``src/objective/lambdarank_obj.cc``). Those of a pair: `frameboost.expressions.ranking_terms.RankingPairs`.
"""

from __future__ import annotations

from typing import Literal

from frameboost.expressions.expression import Expression
from frameboost.expressions.ranking_terms import Change, OverQuery, RankingPairs, Ratio
from frameboost.losses.loss import Derivatives, Loss, Start, Term

__all__ = ["DEFAULT_TRUNCATION", "discount", "ideal_terms", "label_check", "label_gain", "ranking_loss"]

# XGBoost's default for pairs, and for metrics without an @.
DEFAULT_TRUNCATION = 32

# 1 / log2(x) = ln 2 / ln x
_LN_2 = "0.6931471805599453"


def label_gain(*, exponential: bool) -> str:
    """Return the gain of a row by its label."""
    return "POWER(2, label) - 1" if exponential else "label"


def discount(place: str) -> str:
    """Return the discount of a place counted from 0, 1 / log2(place + 2)."""
    return f"{_LN_2} / LN({place} + 2)"


def ideal_terms(prefix: str, truncation: int, *, exponential: bool) -> dict[str, Term]:
    """Return terms that end with ``ideal``, the ideal DCG of a row's query, in units of its largest gain, ``best``.

    They begin with ``gain``, that of each row. Gains go up to 2^31 − 1. On a grid that holds the largest, the smaller
    ones would lose their bits, so each one is divided by the largest gain of its query.
    """
    gain, best, place = f"{prefix}gain", f"{prefix}best", f"{prefix}ideal_place"
    share = f"{gain} / {best} * ({discount(place)})"
    return {
        gain: Expression(label_gain(exponential=exponential), ("label",)),
        best: OverQuery("max", Expression(gain, (gain,))),
        place: OverQuery("rank", Expression("label", ("label",))),
        f"{prefix}ideal": OverQuery(
            "sum",
            Expression(f"CASE WHEN {best} > 0 AND {place} < {truncation} THEN {share} ELSE 0 END",
                       (gain, best, place)),
        ),
    }  # fmt: skip


def label_check(change: Literal["ndcg", "map"], *, exponential: bool) -> tuple[str, Expression]:
    """Return the requirement on labels, in words and as a condition."""
    if change == "map":
        return "0 and 1 (or false and true)", Expression("label = 0 OR label = 1", ("label",))
    if not exponential:
        return "numbers of 0 or more", Expression("label >= 0", ("label",))
    return (
        "the integers 0 to 31 (with ndcg_exp_gain=False any number of 0 or more)",
        Expression("label = FLOOR(label) AND label >= 0 AND label <= 31", ("label",)),
    )


def ranking_loss(
    change: Change,
    *,
    lambdarank_num_pair_per_sample: int | None,
    lambdarank_normalization: bool,
    lambdarank_score_normalization: bool,
    ndcg_exp_gain: bool,
) -> Loss:
    """Return the loss ``rank:<change>``."""
    truncation = lambdarank_num_pair_per_sample or DEFAULT_TRUNCATION
    margin = Expression("margin", ("margin",))
    terms: dict[str, Term] = {
        "place": OverQuery("rank", margin),
        "highest": OverQuery("max", margin),
        "lowest": OverQuery("min", margin),
        # Weights are divided by their mean over the queries: that of one row of each, the same in every round.
        "label_place": OverQuery("rank", Expression("label", ("label",))),
        "mean_weight": Ratio(
            Expression("CASE WHEN label_place = 0 THEN weight ELSE 0 END", ("label_place", "weight")),
            Expression("CASE WHEN label_place = 0 THEN 1 ELSE 0 END", ("label_place",)),
        ),
    }
    terms |= _change_terms(change, truncation, exponential=ndcg_exp_gain)
    terms["pairs"] = RankingPairs(change, truncation, lambdarank_score_normalization)
    scale = "1 / mean_weight"
    if lambdarank_normalization:
        # Each pair is counted in both of its rows, so this is twice the sum over pairs, as in XGBoost.
        terms["pull"] = OverQuery("sum", Expression("pair_size", ("pair_size",)), on_grid=True)
        scale = f"CASE WHEN pull > 0 THEN LN(1 + pull) / {_LN_2} / pull ELSE 1 END / mean_weight"
    terms["scale"] = Expression(scale, ("pull", "mean_weight"))
    derivatives = Derivatives(
        Expression("pair_g * scale", ("pair_g", "scale")), Expression("pair_h * scale", ("pair_h", "scale"))
    )
    words, condition = ("", None) if change == "pairwise" else label_check(change, exponential=ndcg_exp_gain)
    metric = f"{'map' if change == 'map' else 'ndcg'}@{truncation}"
    return Loss(
        f"rank:{change}", (derivatives,), (margin,), metric, terms, start=Start("value", 0.0), roles=("qid",),
        label_requirement=words, label_condition=condition,
    )  # fmt: skip


def _change_terms(change: Change, truncation: int, *, exponential: bool) -> dict[str, Term]:
    if change == "ndcg":
        share = "gain / best / ideal"
        return ideal_terms("", truncation, exponential=exponential) | {
            "gain_share": Expression(f"CASE WHEN ideal > 0 THEN {share} ELSE 0 END", ("gain", "best", "ideal")),
            "discount": Expression(discount("place"), ("place",)),
        }
    if change == "map":
        place = Expression("place", ("place",))
        label = Expression("label", ("label",))
        at_place = Expression("label / (place + 1)", ("label", "place"))
        return {
            "hits": OverQuery("running", label, place, on_grid=True),
            "credit": OverQuery("running", at_place, place),
            "relevant": OverQuery("sum", label, on_grid=True),
        }
    return {}
