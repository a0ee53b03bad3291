"""Terms of ranking: aggregates over a row's query, and LambdaMART's sums over pairs of rows.

A query is a group of rows that are ranked against each other (XGBoost's ``qid``), not a SQL query.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from frameboost.expressions.expression import Expression

__all__ = ["PAIR_SUMS", "Change", "OverQuery", "RankingPairs", "Ratio"]

# The columns that sums over pairs become (see `RankingPairs`).
PAIR_SUMS = ("pair_g", "pair_h", "pair_size")

Change = Literal["pairwise", "ndcg", "map"]


@dataclass(frozen=True, slots=True)
class OverQuery:
    """A window function over the rows of a row's query.

    ``function`` is one of

    - ``rank``: the row's place by ``value`` from 0, in descending order; equals are in the order of the rows, as in
      XGBoost;
    - ``sum``, ``min``, ``max`` of ``value``;
    - ``running``: the prefix sum of ``value`` by ``order``, which is distinct within a query.

    Sums are exact: values are rounded to a grid first, unless ``on_grid`` says that they lie on one.
    """

    function: Literal["rank", "sum", "min", "max", "running"]
    value: Expression
    order: Expression | None = None
    on_grid: bool = False


@dataclass(frozen=True, slots=True)
class Ratio:
    """The sum of one value over all rows divided by the sum of another: the same number for every row."""

    numerator: Expression
    denominator: Expression


# |ΔZ|, the change of the metric if the two rows swap places.
_DELTA = {
    "pairwise": "1",
    "ndcg": "ABS((gain_share_i - gain_share_j) * (discount_i - discount_j))",
    "map": (
        "ABS(CASE WHEN label_i < label_j"
        " THEN hits_j / (place_j + 1) - (hits_i + 1) / (place_i + 1)"
        " - ((credit_j - label_j / (place_j + 1)) - credit_i)"
        " ELSE hits_i / (place_i + 1) - hits_j / (place_j + 1)"
        " + ((credit_j - label_j / (place_j + 1)) - credit_i) END / relevant_i)"
    ),
}
_COLUMNS = {
    "pairwise": ("label", "margin", "place", "highest", "lowest"),
    "ndcg": ("label", "margin", "place", "highest", "lowest", "gain_share", "discount"),
    "map": ("label", "margin", "place", "highest", "lowest", "hits", "credit", "relevant"),
}
# The probability that the pair is in the wrong order, 1 − σ(s_high − s_low).
_CHANCE = "(1 / (1 + EXP(CASE WHEN label_i > label_j THEN margin_i - margin_j ELSE margin_j - margin_i END)))"


@dataclass(frozen=True, slots=True)
class RankingPairs:
    """LambdaMART's sums over the pairs of a query's rows (Burges 2010, section 7).

    A pair is a row i among the first ``truncation`` places, and a row j of another label at a later place. Its λ pulls
    the more relevant of the two up and pushes the other down, by |λ|, ``size``. Each row gets the terms

    - ``pair_g``: the sum of |λ| over the pairs that push it down, less that over those that pull it up;
    - ``pair_h``: the sum of the second derivatives, ``curvature``;
    - ``pair_size``: the sum of |λ|.

    Attributes
    ----------
    change
        The metric whose change is |ΔZ|: NDCG, MAP, or ``pairwise``, for 1 in every pair.
    truncation
        XGBoost's ``lambdarank_num_pair_per_sample`` of the method ``topk``.
    by_difference
        Whether |ΔZ| is divided by the difference of the scores (``lambdarank_score_normalization``).
    """

    change: Change
    truncation: int
    by_difference: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row that pairs read; `size` and `curvature` have each of them as ``_i`` and ``_j``."""
        return _COLUMNS[self.change]

    @property
    def size(self) -> Expression:
        """|λ| of a pair."""
        return _of_pair(self.columns, f"{_CHANCE} * ({self._weight})")

    @property
    def curvature(self) -> Expression:
        """The second derivative, with XGBoost's factor 2 and floor."""
        return _of_pair(self.columns, f"2 * GREATEST({_CHANCE} * (1 - {_CHANCE}), 1e-16) * ({self._weight})")

    @property
    def _weight(self) -> str:
        delta = _DELTA[self.change]
        if not self.by_difference:
            return delta
        return f"{delta} / (CASE WHEN highest_i > lowest_i THEN ABS(margin_i - margin_j) + 0.01 ELSE 1 END)"

    @property
    def bound(self) -> float:
        """An upper bound of |λ| and of the second derivative: |ΔZ| ≤ 1, and (1 − σ(d)) / (|d| + 0.01) ≤ 50."""
        return 50.0 if self.by_difference else 1.0


@cache
def _of_pair(columns: tuple[str, ...], text: str) -> Expression:
    return Expression(text, tuple(f"{name}_{side}" for side in "ij" for name in columns))
