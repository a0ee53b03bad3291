"""A loss as data: SQL expressions for gradient, hessian, prediction and start.

Second-order boosting needs the gradient g = ∂l/∂ŷ and the hessian h = ∂²l/∂ŷ² of a loss l(y, ŷ) at the current margin ŷ
(Chen & Guestrin 2016, section 2.2). Row weights multiply both and are not part of the expressions.

An `Offset` is columns of the data that are added to the margins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import counted, shown
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import weighted
from frameboost.schema.types import Feature, FeatureType, column

__all__ = [
    "CLASS_WEIGHT",
    "EXPOSURE",
    "PAIR_SUMS",
    "ArrayFunction",
    "Change",
    "Derivatives",
    "Loss",
    "Offset",
    "OverQuery",
    "RankingPairs",
    "Ratio",
    "RunningSum",
    "Start",
    "Term",
    "Transform",
    "argmax_class",
    "family_of",
    "largest_margin",
    "margin_names",
    "multi_target_loss",
    "offset_of",
    "prediction_names",
]

FloatArray = npt.NDArray[np.float64]
# The term that is the factor of a row's class.
CLASS_WEIGHT = "class_weight"
# Classes of which each margin is compared with all later ones; of more with the largest.
_MAX_COMPARED = 16


@dataclass(frozen=True, slots=True)
class Derivatives:
    """Gradient and hessian of one output, over the row's roles, the margins and the loss's terms.

    They exclude the row's weight, unless ``are_weighted``.
    """

    gradient: Expression
    hessian: Expression
    are_weighted: bool = False


@dataclass(frozen=True, slots=True)
class RunningSum:
    """A prefix sum: ``value``, 0 or more, summed over the rows up to this one by ``order``, ties included.

    In SQL: ``SUM(value) OVER (ORDER BY order)``, with DESC if ``descending``.
    """

    value: Expression
    order: Expression
    descending: bool = False


# The columns that sums over pairs become (see `RankingPairs`).
PAIR_SUMS = ("pair_g", "pair_h", "pair_size")

Change = Literal["pairwise", "ndcg", "map"]


@dataclass(frozen=True, slots=True)
class OverQuery:
    """A window function over the rows of a query.

    ``function`` is one of

    - ``rank``: the row's rank by ``value`` from 0, in descending order; ties are in row order, as in XGBoost;
    - ``sum``, ``min``, ``max`` of ``value``;
    - ``running``: the prefix sum of ``value`` by ``order``, which is distinct within a query.

    Sums are exact: values are rounded to a grid first, unless they are already ``on_grid``.
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


# |ΔZ|, the change of the metric if the two rows swap ranks.
_DELTA = {
    "pairwise": "1",
    "ndcg": "ABS((gain_share_i - gain_share_j) * (discount_i - discount_j))",
    "map": (
        "ABS(CASE WHEN label_i < label_j"
        " THEN hits_j / (rank_j + 1) - (hits_i + 1) / (rank_i + 1)"
        " - ((credit_j - label_j / (rank_j + 1)) - credit_i)"
        " ELSE hits_i / (rank_i + 1) - hits_j / (rank_j + 1)"
        " + ((credit_j - label_j / (rank_j + 1)) - credit_i) END / relevant_i)"
    ),
}
_COLUMNS = {
    "pairwise": ("label", "margin", "rank", "highest", "lowest"),
    "ndcg": ("label", "margin", "rank", "highest", "lowest", "gain_share", "discount"),
    "map": ("label", "margin", "rank", "highest", "lowest", "hits", "credit", "relevant"),
}
# The probability that the pair is in the wrong order, 1 − σ(s_high − s_low).
_CHANCE = "(1 / (1 + EXP(CASE WHEN label_i > label_j THEN margin_i - margin_j ELSE margin_j - margin_i END)))"


@dataclass(frozen=True, slots=True)
class RankingPairs:
    """LambdaMART's sums over the pairs of a query's rows (Burges 2010, section 7).

    A pair is a row i among the first ``truncation`` ranks, and a row j with another label at a later rank; with a
    ``seed``, any row i and each of ``truncation`` rows j with other labels that are drawn for it. Its λ pulls the more
    relevant of the two up and pushes the other down, by |λ|, ``size``. Each row gets the terms

    - ``pair_g``: the sum of |λ| over the pairs that push it down, less that over those that pull it up;
    - ``pair_h``: the sum of the second derivatives, ``curvature``;
    - ``pair_size``: the sum of |λ|.

    Attributes
    ----------
    change
        The metric that defines |ΔZ|: NDCG, MAP, or ``pairwise``, where it is 1.
    truncation
        XGBoost's ``lambdarank_num_pair_per_sample``.
    by_difference
        Whether |ΔZ| is divided by the difference of the scores (``lambdarank_score_normalization``).
    seed
        The seed of the draws of XGBoost's method ``mean``; None for its method ``topk``.
    """

    change: Change
    truncation: int
    by_difference: bool
    seed: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row that pairs read; `size` and `curvature` read each as ``_i`` and ``_j``."""
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


@dataclass(frozen=True, eq=False, slots=True)
class ArrayFunction:
    """Columns computed by a function from arrays of all rows, in the order of the data.

    Attributes
    ----------
    function
        A function from writable float64 arrays of shape (rows,), by the names of ``reads``, to arrays of that shape, by
        the names of the columns.
    reads
        Roles, margins and terms before this one.
    """

    function: Callable[[Mapping[str, FloatArray]], Mapping[str, FloatArray]]
    reads: tuple[str, ...]


# What a loss's or a metric's terms may be.
Term = Expression | RunningSum | OverQuery | Ratio | RankingPairs | ArrayFunction


@dataclass(frozen=True, slots=True)
class Start:
    """The initial margins of a fit.

    Each is a prediction, which `Loss.margin_of` converts to a margin:

    - ``mean``: the weighted mean label;
    - ``newton``: one Newton step from margin 0;
    - ``newton from mean``: one Newton step from the weighted mean label;
    - ``quantiles``: quantiles of the labels, one for each output;
    - ``frequencies``: the centred logarithms of the shares of the classes;
    - ``moments``: margins from ``margins_of`` the mean and the variance of ``label``; the user's ``mean`` overrides the
      former;
    - ``margins``: ``margins``, one for each output.
    """

    kind: Literal["mean", "newton", "newton from mean", "quantiles", "frequencies", "moments", "margins"] = "mean"
    margins: tuple[float, ...] = ()
    mean: float | None = None
    label: Expression | None = None
    margins_of: Callable[[float, float], tuple[float, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Transform:
    """A monotone function T of the labels to fit (see `frameboost.losses.transforms`).

    Attributes
    ----------
    name
        Its name.
    function
        T of a number.
    of_label, inverse
        T and T⁻¹ as SQL, over ``label`` and ``margin``.
    smeared
        The mean of T⁻¹ over the errors, over ``margin`` and the numbers ``{0}``, ``{1}``.
    errors
        The terms that these numbers are means of, over ``fitted`` and ``margin``.
    neutral
        The numbers for no errors.
    condition, requirement
        The domain of T, as a condition on ``label``, and in words.
    lowest
        The lower bound of these labels.
    """

    name: str
    function: Callable[[float], float]
    of_label: str
    inverse: str
    smeared: str
    errors: tuple[str, ...]
    neutral: tuple[float, ...]
    condition: str = ""
    requirement: str = ""
    lowest: float = -math.inf


@dataclass(frozen=True)
class Loss:
    """A loss.

    Attributes
    ----------
    name
        XGBoost's name for it, or ``"custom"``.
    outputs
        The derivatives of each output. Margins are named ``margin``, or for several ``margin_0``, ``margin_1``, ...
    links
        The predictions, on the scale of the target, as functions of the margins.
    metric
        The name of the default metric.
    terms
        Subexpressions of the derivatives, by name; each may use earlier ones.
    link_terms
        Subexpressions of the links, in stages; each may use the margins and earlier stages.
    evaluated
        The links for metrics; None if they are the predictions.
    margin_of
        The inverse of the link, for the base score; with a ``transform`` from the fitted label.
    start
        The first margins of a fit.
    renewal
        The quantile of the residuals that replaces −G/(H+λ) in the leaves, for each output.
    renewal_weight
        A factor of the row weight in these quantiles; None for 1.
    label_condition, label_requirement
        A condition on valid labels, and its text in error messages.
    score_range
        The open interval of valid ``base_score``.
    classes
        The number of classes, labelled 0, 1, ...; 0 for a regression.
    roles
        Further columns, by role: ``upper``, ``qid``.
    definition
        The entry in the model file, for an `Objective` and for the loss of an imported model.
    is_trainable
        Whether its derivatives are known, which may not hold for the loss of an imported model.
    labels
        The names of the labels: one, or one for each output.
    spread
        The standard deviation of labels that the loss implies, up to a factor, over the margin; None if it is constant
        or unknown.
    transform, fitted, smearing
        The transform of the labels, if any; the terms of transformed labels, in order; and the numbers that smear the
        links.
    class_weights
        The class weights; empty if they are 1.
    threshold
        The probability above which the second of two classes is predicted.
    """

    name: str
    outputs: tuple[Derivatives, ...]
    links: tuple[Expression, ...]
    metric: str
    terms: Mapping[str, Term] = field(default_factory=dict)
    link_terms: tuple[Mapping[str, Expression], ...] = ()
    evaluated: tuple[Expression, ...] | None = None
    margin_of: Callable[[float], float] = float
    start: Start = Start()
    renewal: tuple[float, ...] = ()
    renewal_weight: Expression | None = None
    label_condition: Expression | None = None
    label_requirement: str = ""
    score_range: tuple[float, float] = (-math.inf, math.inf)
    classes: int = 0
    roles: tuple[str, ...] = ()
    definition: Mapping[str, Any] | None = None
    is_trainable: bool = True
    labels: tuple[str, ...] = ("label",)
    spread: Expression | None = None
    transform: Transform | None = None
    fitted: Mapping[str, Expression] = field(default_factory=dict)
    smearing: tuple[float, ...] | None = None
    class_weights: tuple[float, ...] = ()
    threshold: float = 0.5

    @cached_property
    def gradients(self) -> Mapping[str, Expression]:
        """The g and h of every output, weighted: ``g_0``, ``h_0``, ``g_1`` and so on."""
        named = {}
        for output, derivatives in enumerate(self.outputs):
            for name, value in zip("gh", (derivatives.gradient, derivatives.hessian), strict=True):
                of_class = self.times_factor(value)
                named[f"{name}_{output}"] = of_class if derivatives.are_weighted else weighted(of_class)
        return named

    @cached_property
    def class_factor(self) -> Mapping[str, Expression]:
        """The term for the class weight of a row, over its label; None without class weights."""
        if not self.class_weights:
            return {}
        cases = "".join(f" WHEN label = {k} THEN {factor!r}" for k, factor in enumerate(self.class_weights))
        return {CLASS_WEIGHT: Expression(f"CASE{cases} ELSE 1 END", ("label",))}

    def times_factor(self, value: Expression) -> Expression:
        """Return a value times the class weight of the row, if there is one."""
        if not self.class_weights:
            return value
        return Expression(f"({value.text}) * {CLASS_WEIGHT}", tuple(dict.fromkeys((*value.columns, CLASS_WEIGHT))))

    def counted(self, value: Expression) -> Expression:
        """Return a value times the total weight of its row: row weight and class weight."""
        return weighted(self.times_factor(value))

    @cached_property
    def residuals(self) -> Mapping[str, Expression]:
        """The residuals for `renewal`: ``residual_0`` and so on; empty without a renewal."""
        named = {}
        for output, margin in enumerate(self.margins if self.renewal else ()):
            label = self.label_of(output)
            named[f"residual_{output}"] = Expression(f"{label} - {margin}", (label, margin))
        return named

    def weights_of_quantiles(self, output: int, *, is_weighted: bool) -> Expression | None:
        """Return the row weights for the quantiles of an output; None if all are equal."""
        weight = Expression("weight", ("weight",))
        if self.renewal_weight is None:
            return weight if is_weighted else None
        return weighted(self.renewal_weight.renamed({"label": self.label_of(output)}))

    def label_of(self, output: int) -> str:
        """Return the name of the label of an output, one of ``fitted`` if the labels are transformed."""
        labels = tuple(self.fitted) or self.labels
        return labels[output] if len(labels) > 1 else labels[0]

    @property
    def is_of_arrays(self) -> bool:
        """Whether a function over arrays computes its derivatives."""
        return any(isinstance(term, ArrayFunction) for term in self.terms.values())

    @property
    def family(self) -> str:
        """The kind of target, from the name: ``reg``, ``binary``, ``multi``, ``count``, ``rank``, ``survival``."""
        return self.name.partition(":")[0]

    @property
    def has_probabilities(self) -> bool:
        """Whether it predicts class probabilities; hinge losses have classes without them."""
        return self.classes > 0 and self.name != "binary:hinge"

    @property
    def has_quantiles(self) -> bool:
        """Whether the outputs are several quantiles of one target."""
        return self.name == "reg:quantileerror" and self.n_outputs > 1 and len(self.labels) == 1

    @property
    def n_outputs(self) -> int:
        """The number of margins, and of trees per round."""
        return len(self.outputs)

    @property
    def n_predictions(self) -> int:
        """The number of values of a prediction; a class, or the mean of a distribution, is one for several margins."""
        return len(self.links)

    @property
    def has_margin_of_each_class(self) -> bool:
        """Whether each class has a margin; two classes may share one, the log-odds."""
        return self.classes > 0 and self.classes == self.n_outputs and len(self.labels) == 1

    @property
    def is_distribution(self) -> bool:
        """Whether the margins determine the mean and the standard deviation of a row's label."""
        return self.n_outputs > 1 and self.spread is not None

    @cached_property
    def margins(self) -> tuple[str, ...]:
        """The names of the margins."""
        return margin_names(self.n_outputs)


def margin_names(n: int) -> tuple[str, ...]:
    """Return the names of ``n`` margins in expressions."""
    return ("margin",) if n == 1 else tuple(f"margin_{i}" for i in range(n))


def prediction_names(n: int) -> tuple[str, ...]:
    """Return the names of ``n`` predictions in the expressions of metrics."""
    return ("prediction",) if n == 1 else tuple(f"prediction_{i}" for i in range(n))


def largest_margin(classes: int) -> Expression:
    """Return the largest of the margins, which terms and stages name ``largest``."""
    margins = margin_names(classes)
    return Expression(f"GREATEST({', '.join(margins)})", margins)


def argmax_class(classes: int, names: Sequence[str] = ()) -> Expression:
    """Return argmax of the margins, ties to the first, as an index or as one of the ``names``.

    For many classes each margin is compared with a column ``largest`` (see `largest_margin`), because comparisons with
    all later ones are quadratic.

    >>> argmax_class(3).text
    'CASE WHEN margin_0 >= GREATEST(margin_1, margin_2) THEN 0 WHEN margin_1 >= margin_2 THEN 1 ELSE 2 END'
    >>> argmax_class(2, ["late", "early"]).text
    'CASE WHEN margin_0 >= margin_1 THEN late ELSE early END'
    >>> argmax_class(30).text[:71], argmax_class(30).columns[-1]
    ('CASE WHEN margin_0 >= largest THEN 0 WHEN margin_1 >= largest THEN 1 WH', 'largest')
    """
    margins = margin_names(classes)
    values = names or [str(k) for k in range(classes)]
    if classes == 1:  # of as many rows as the margin
        return Expression(f"CASE WHEN {margins[0]} IS NOT NULL THEN {values[0]} END", (*margins, *names))
    has_largest = classes > _MAX_COMPARED
    cases = []
    for k, margin in enumerate(margins[:-1]):
        later = margins[k + 1 :]
        largest = "largest" if has_largest else later[0] if len(later) == 1 else f"GREATEST({', '.join(later)})"
        cases.append(f"WHEN {margin} >= {largest} THEN {values[k]}")
    columns = (*margins, *names, *["largest"] * has_largest)
    return Expression(f"CASE {' '.join(cases)} ELSE {values[-1]} END", columns)


def family_of(objective: Any) -> str:
    """Return the kind of target of an objective, from its name or its link: ``binary``, ``multi``, ``reg``.

    >>> import frameboost as fb
    >>> family_of("binary:hinge"), family_of(fb.Objective("margin - label"))
    ('binary', 'reg')
    """
    return str(getattr(objective, "family", "")) or str(objective).partition(":")[0]


def multi_target_loss(loss: Loss, n: int) -> Loss:
    """Return the loss over ``n`` labels, ``label_0`` and so on, with an output for each.

    Raises
    ------
    ParameterError
        If it has several outputs, or reads more than the label of a row.
    """
    if loss.n_outputs > 1 or loss.terms or loss.roles:
        raise ParameterError(f"objective {shown(loss.name)} takes one target, not {n}")
    names = [{"label": f"label_{k}", "margin": f"margin_{k}"} for k in range(n)]
    return replace(
        loss,
        outputs=tuple(
            Derivatives(derivatives.gradient.renamed(name), derivatives.hessian.renamed(name))
            for derivatives in loss.outputs
            for name in names
        ),
        links=tuple(link.renamed(name) for link in loss.links for name in names),
        evaluated=None if loss.evaluated is None else tuple(e.renamed(n) for e in loss.evaluated for n in names),
        renewal=loss.renewal * n,
        labels=tuple(name["label"] for name in names),
    )


# --- offsets ----------------------------------------------------------------------------------------------------------


# The role of the column of exposures in training.
EXPOSURE = "exposure"


@dataclass(frozen=True, slots=True)
class Offset:
    """Columns that are added to the margins of each row.

    The margin is the exact sum of base margin and leaf values, plus the offset, added last: the same bits in every
    engine and language.

    Attributes
    ----------
    kind
        ``"base_margin"`` adds columns unchanged; ``"exposure"`` adds the logarithm of a column, NULL if it is not above
        0. NaN counts as NULL in both.
    columns
        The column for each margin; None if nothing is added.
    """

    kind: Literal["base_margin", "exposure"]
    columns: tuple[str | None, ...]

    def __str__(self) -> str:
        return f"{self.kind} {', '.join(map(shown, self.names))}"

    @property
    def names(self) -> list[str]:
        """The columns, each once."""
        return list(dict.fromkeys(name for name in self.columns if name is not None))

    @property
    def features(self) -> list[Feature]:
        """The columns with name and type, for readers of files and databases."""
        return [Feature(name, FeatureType("float64")) for name in self.names]

    @property
    def arguments(self) -> dict[str, str | list[str]]:
        """The argument of `frameboost.fit` that defines the offset, as in the model file."""
        names = self.names if self.kind == EXPOSURE else [name for name in self.columns if name is not None]
        return {self.kind: names[0] if len(names) == 1 else names}

    def exprs(self) -> list[pl.Expr | None]:
        """Return the offset of each margin as polars expressions, null for NULL and NaN."""
        return [
            None if name is None else self._expr(column(name).cast(pl.Float64).fill_nan(None)) for name in self.columns
        ]

    def _expr(self, values: pl.Expr) -> pl.Expr:
        return pl.when(values > 0).then(values.log()) if self.kind == EXPOSURE else values

    def check(self, rows: pl.DataFrame) -> None:
        """Raise `DataError` if the offset is not finite in some rows."""
        for name, expr in zip(self.columns, self.exprs(), strict=True):
            if expr is not None and (wrong := len(rows) - rows.select(expr.is_finite().sum()).item()):
                raise DataError(self.message(str(name), wrong, len(rows)))

    def message(self, name: str, wrong: int, n_rows: int) -> str:
        """Return the message for rows with an invalid offset."""
        if self.kind == EXPOSURE:
            return (
                f"exposure {shown(name)} is 0, negative, NULL, NaN or infinite in {wrong:,} of {n_rows:,} rows; set "
                "an exposure above 0 in every row"
            )
        return (
            f"base_margin {shown(name)} is NULL, NaN or infinite in {wrong:,} of {n_rows:,} rows; set a finite "
            "margin in every row"
        )

    def in_training(self, margins: Sequence[str]) -> dict[str, Expression]:
        """Return the offset of margins of these names, over the roles of an engine's rows."""
        return {
            margin: Expression(f"LN({EXPOSURE})", (EXPOSURE,))
            if self.kind == EXPOSURE
            else Expression(f"base_{margin}", (f"base_{margin}",))
            for margin, name in zip(margins, self.columns, strict=True)
            if name is not None
        }

    def roles(self, margins: Sequence[str]) -> dict[str, str]:
        """Return the columns by the roles that `in_training` reads."""
        if self.kind == EXPOSURE:
            return {EXPOSURE: self.names[0]}
        return {f"base_{margin}": str(name) for margin, name in zip(margins, self.columns, strict=True)}


def offset_of(loss: Loss, arguments: Mapping[str, str | Sequence[str] | None]) -> Offset | None:
    """Return the offset of ``base_margin`` or ``exposure``; None if both are None.

    Raises
    ------
    ParameterError
        If both are passed, the number of base margins differs from that of margins, or the loss has no log link for an
        exposure.
    """
    base_margin, exposure = arguments.get("base_margin"), arguments.get(EXPOSURE)
    if base_margin is not None and exposure is not None:
        raise ParameterError(
            "exposure can't be combined with base_margin; add LN(exposure) to the column of base margins"
        )
    if base_margin is not None:
        columns = [base_margin] if isinstance(base_margin, str) else list(base_margin)
        if len(columns) != loss.n_outputs:
            raise ParameterError(
                f"base_margin names {counted(len(columns), 'column')}; objective {shown(loss.name)} has "
                f"{loss.n_outputs} margins"
            )
        return Offset("base_margin", tuple(columns))
    if exposure is None:
        return None
    if not (exposed := _exposed(loss)):
        raise ParameterError(
            f"exposure is for objectives with a log link, such as 'count:poisson', not for {shown(loss.name)}; an "
            "offset of another kind is a base_margin"
        )
    return Offset("exposure", tuple(str(exposure) if k in exposed else None for k in range(loss.n_outputs)))


def _exposed(loss: Loss) -> list[int]:
    """Return the margins with a log link: the prediction is proportional to their exponential.

    As a link may be any expression, this compares predictions: adding 1 to the margin multiplies them by e, or does not
    change them.
    """
    if loss.classes or loss.link_terms:
        return []
    points = [0.3, -1.1, 1.7]
    exposed = []
    for k in range(loss.n_outputs):
        scaled = False
        for link in loss.links:
            before, after = (
                pl.select(link.to_polars({
                    margin: pl.lit(pl.Series([at / (1 + j) + moved * (j == k) for at in points]))
                    for j, margin in enumerate(loss.margins)
                })).to_series().to_list()
                for moved in (0.0, 1.0)
            )  # fmt: skip
            if before == after:
                continue
            scaled = all(
                isinstance(a, float) and isinstance(b, float) and a != 0 and math.isclose(b, math.e * a, rel_tol=1e-9)
                for a, b in zip(before, after, strict=True)
            )
            if not scaled:
                break
        if scaled:
            exposed.append(k)
    return exposed
