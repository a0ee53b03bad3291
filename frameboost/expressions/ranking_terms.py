"""Terms over the rows of a query, and pairs of them: what losses and metrics of ranking are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from frameboost.expressions.expression import Expression

__all__ = ["Change", "OverQuery", "Pairs", "Ratio"]

Change = Literal["pairwise", "ndcg", "map"]


@dataclass(frozen=True, slots=True)
class OverQuery:
    """A number from the rows of a row's query.

    ``function`` is one of

    - ``rank``: the row's place by ``value``, from 0, the largest first; of equals the first row, as in XGBoost;
    - ``sum``, ``min``, ``max`` of ``value``;
    - ``running``: the sum of ``value`` over the rows with no larger ``order``, which tells the rows of a query apart.

    Sums are exact: their values are put on a grid first, but if ``on_grid`` says that they lie on one.
    """

    function: Literal["rank", "sum", "min", "max", "running"]
    value: Expression
    order: Expression | None = None
    on_grid: bool = False


@dataclass(frozen=True, slots=True)
class Ratio:
    """The sum of one value over all rows divided by that of another: a number that is the same for every row."""

    numerator: Expression
    denominator: Expression


# How much a swap of the two rows would change what is optimised, |ΔZ|.
_DELTA = {
    "pairwise": "1",
    "ndcg": "ABS((worth_i - worth_j) * (discount_i - discount_j))",
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
    "ndcg": ("label", "margin", "place", "highest", "lowest", "worth", "discount"),
    "map": ("label", "margin", "place", "highest", "lowest", "hits", "credit", "relevant"),
}
# The probability that the pair is the wrong way round, 1 − σ(s_high − s_low).
_CHANCE = "(1 / (1 + EXP(CASE WHEN label_i > label_j THEN margin_i - margin_j ELSE margin_j - margin_i END)))"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sums over the pairs of a query's rows that LambdaMART takes (Burges 2010, section 7).

    A pair is row i at place ``place_i`` and row j behind it, of another label, with i among the first ``truncation``.
    It pulls the more relevant of the two up and pushes the other down, by ``size``, |λ|. Each row gets the terms

    - ``pair_g``: what its pairs push it down, less what they pull it up;
    - ``pair_h``: the sum of their second derivatives, ``curvature``;
    - ``pair_size``: the sum of their sizes.

    Attributes
    ----------
    change
        What |ΔZ| is the change of: nothing (1 for every pair), NDCG or MAP.
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
        """What pairs need of a row; `size` and `curvature` are over these, of row i and of row j."""
        return _COLUMNS[self.change]

    @property
    def size(self) -> Expression:
        """|λ| of a pair."""
        return _of_pair(self.columns, f"{_CHANCE} * ({self._weight})")

    @property
    def curvature(self) -> Expression:
        """The second derivative; XGBoost's has the factor 2, and the floor."""
        return _of_pair(self.columns, f"2 * GREATEST({_CHANCE} * (1 - {_CHANCE}), 1e-16) * ({self._weight})")

    @property
    def _weight(self) -> str:
        delta = _DELTA[self.change]
        if not self.by_difference:
            return delta
        return f"{delta} / (CASE WHEN highest_i > lowest_i THEN ABS(margin_i - margin_j) + 0.01 ELSE 1 END)"

    @property
    def bound(self) -> float:
        """No |λ| and no second derivative is larger: |ΔZ| is at most 1, and (1 − σ(d)) / (|d| + 0.01) at most 50."""
        return 50.0 if self.by_difference else 1.0


@cache
def _of_pair(columns: tuple[str, ...], text: str) -> Expression:
    return Expression(text, tuple(f"{name}_{side}" for side in "ij" for name in columns))
