"""Ranking metrics, each as one SQL aggregate over windows by query, by XGBoost's names: ``ndcg@5``, ``map@3-``.

As in XGBoost 3.2 (``src/metric/rank_metric.cc``): without an @ the first 32 rows of a query count. A query without
relevant rows has the value 1, or 0 if the name ends with a minus.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.ranking_terms import OverQuery
from frameboost.losses.loss import Term
from frameboost.losses.ranking import DEFAULT_TRUNCATION, discount, ideal_terms
from frameboost.metrics.metric import Metric

__all__ = ["RANKING_METRICS", "base_name", "is_ranking", "ranking_metric"]

RANKING_METRICS = ("ndcg", "map", "pre")
_NAME = re.compile(r"(ndcg|map|pre)(?:@([1-9][0-9]{0,8}))?(-?)")


def ranking_metric(name: str, parameters: Mapping[str, Any]) -> Metric | None:
    """Return the metric of that name, None if it is no ranking metric.

    Raises
    ------
    ParameterError
        If no number of rows follows the @.
    """
    if name.partition("@")[0].removesuffix("-") not in RANKING_METRICS:
        return None
    match = _NAME.fullmatch(name)
    if match is None:
        raise ParameterError(
            f"eval_metric {shown(name)}: after the @ comes a number of rows, 1 or more, and then perhaps a minus"
        )
    kind, at, minus = match.groups()
    truncation = int(at or DEFAULT_TRUNCATION)
    terms, row, is_relevant = _ROWS[kind](truncation, exponential=parameters["ndcg_exp_gain"])
    place = f"{kind}_place"
    empty = 0 if minus else 1
    gained = f"CASE WHEN {place} < {truncation} THEN weight * ({row}) ELSE 0 END"
    total = f"CASE WHEN {is_relevant} THEN {gained} WHEN {place} = 0 THEN weight * {empty} ELSE 0 END"
    of_queries = f"SUM({total}) / SUM(CASE WHEN {place} = 0 THEN weight ELSE 0 END)"
    every_row: dict[str, Term] = {place: OverQuery("rank", Expression("prediction", ("prediction",)))}
    return Metric(name, f"LEAST({of_queries}, 1)", maximize=True, terms=every_row | terms)


def base_name(metric: Metric) -> str:
    """Return the name of a ranking metric in `RANKING_METRICS`."""
    return metric.name.partition("@")[0].removesuffix("-")


def is_ranking(metric: object) -> bool:
    """Whether a metric is a ranking metric, which needs queries."""
    return isinstance(metric, Metric) and any(isinstance(term, OverQuery) for term in metric.terms.values())


def _ndcg(truncation: int, *, exponential: bool) -> tuple[dict[str, Term], str, str]:
    terms = ideal_terms("ndcg_", truncation, exponential=exponential)
    row = f"ndcg_gain / ndcg_best * ({discount('ndcg_place')}) / ndcg_ideal"
    return terms, row, "ndcg_ideal > 0"


def _mean_average_precision(truncation: int, *, exponential: bool) -> tuple[dict[str, Term], str, str]:
    label, place = Expression("label", ("label",)), Expression("map_place", ("map_place",))
    terms: dict[str, Term] = {
        "map_hits": OverQuery("running", label, place, on_grid=True),
        "map_relevant": OverQuery("sum", label, on_grid=True),
    }
    return terms, f"label * map_hits / (map_place + 1) / LEAST(map_relevant, {truncation})", "map_relevant > 0"


def _precision(truncation: int, *, exponential: bool) -> tuple[dict[str, Term], str, str]:
    terms: dict[str, Term] = {"pre_last": OverQuery("max", Expression("pre_place", ("pre_place",)))}
    return terms, f"label / LEAST(pre_last + 1, {truncation})", "pre_last >= 0"


_ROWS = {"ndcg": _ndcg, "map": _mean_average_precision, "pre": _precision}
