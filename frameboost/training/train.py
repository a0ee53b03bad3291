"""A fit from the engines over checked data to an ensemble: the tree method, base margins, rounds, warnings.

To add a tree method, add it to ``_TREE_METHODS``, and its name to the parameter. If no contract of
`frameboost.engines.contract` fits, add one, and an opener to the engines that satisfy it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from frameboost.binning.bins import Bins, SlotLayout, with_thresholds
from frameboost.checks.messages import shown
from frameboost.engines.contract import (
    ColumnBlockEngine,
    Engine,
    FollowerEngine,
    HistogramEngine,
    LinearEngine,
    LinearVectorEngine,
    NodeBinningEngine,
    RebinningEngine,
    Rows,
    VectorEngine,
)
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, exact_sum, weighted
from frameboost.losses.loss import Loss, RunningSum
from frameboost.metrics.metric import define_predictions, define_terms
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.search import MIN_GAIN
from frameboost.splits.split import Penalties
from frameboost.training.approx_splitters import GlobalSplitter, LocalSplitter
from frameboost.training.boosting import Observer, Progress, boost
from frameboost.training.checkpoint import Checkpoint, SavedRound
from frameboost.training.data_checks import check_result, numbers_of_leaves
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.exact import ExactSplitter, GammaPruner
from frameboost.training.growths import FitEngines, choose_growth, weights_of_quantiles
from frameboost.training.open_nodes import Constraints, FeatureSampler
from frameboost.training.splitter import HistogramSplitter, SplitSearch, SplitSettings, Splitter
from frameboost.training.symmetric_splitter import SymmetricSplitter
from frameboost.training.vector_trees import SymmetricVectorSplitter, VectorSplitter

__all__ = [
    "Binning", "TreeMethod", "base_margins", "choose_tree_method", "h_counts_rows", "least_rows_as_weight", "min_gains",
    "plus", "start_margins", "train",
]  # fmt: skip


def train(
    engines: FitEngines, method: TreeMethod, loss: Loss, parameters: Parameters, user_bins: Mapping[int, Bins],
    log: EvaluationLog, workers: Workers, after_round: Sequence[Callable[[int], None]],
    checkpoint: Checkpoint | None = None,
) -> Ensemble:  # fmt: skip
    """Fit an ensemble; its leaf values are not yet on the grid of `frameboost.trees.tree`.

    Parameters
    ----------
    engines
        The engines over training and held-out rows.
    method
        The tree method that opened the engines.
    loss, parameters
        The loss, and all other settings.
    user_bins
        Bins from the user's ``cuts``, by feature number.
    log
        Evaluates metrics after each round, and stops early.
    workers
        Threads of the split search.
    after_round
        Functions to call after each round with the number of rounds.
    checkpoint
        The checkpoint to save rounds to and resume from.
    """
    training, p = engines.training, parameters
    is_counted = p.min_child_samples > 0 and h_counts_rows(p, loss, is_weighted=engines.is_weighted)
    if is_counted:
        p = least_rows_as_weight(p, training.features, loss)
    penalties = Penalties(
        p.reg_lambda, p.reg_alpha, p.max_delta_step or 0.0, p.min_child_weight,
        p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth, p.min_child_samples,
    )  # fmt: skip
    if penalties.least_rows is not None and hasattr(training, "histograms") and not hasattr(training, "row_counts"):
        raise ParameterError(
            f"min_child_samples needs an engine that counts rows, which {type(training).__name__} does not "
            "(frameboost.engines.contract.CountingEngine)"
        )
    weights = None
    if isinstance(p.feature_weights, Mapping):  # by names, once the features are known
        weights = [p.feature_weights.get(each.name, 1.0) for each in training.features]
    constraints, features = Constraints.of(p, training.features), FeatureSampler(len(training.features), p, weights)
    settings = SplitSettings(penalties, constraints, features, p.gamma, workers, loss.n_outputs, is_counted)
    search = method.prepare(training, engines.held_out, Binning(p.max_bin, user_bins), settings)
    base = start_margins(
        engines.all(), loss, engines.offsets, is_weighted=engines.is_weighted, continues=engines.initial is not None
    )
    least_gains, first = min_gains(training, loss), log.rounds_before
    replay = None if checkpoint is None else checkpoint.resume(engines, loss, parameters, search.bins, base, log)
    is_finished = replay is not None and replay.is_finished
    moved = () if is_finished else engines.all()
    growth = choose_growth(engines, search, settings, p, loss, least_gains, moved)
    progress, last_round = Progress(), first + p.n_estimators
    observers: list[Observer] = []
    if checkpoint is not None and replay is not None:
        last_round = first + replay.n_rounds
        checkpoint.repeat(replay, growth, loss, search.splitter.bin_of, moved, log, progress)

        def save(_: int, is_last: bool) -> None:
            stopped_at = p.n_estimators if log.stopped_by_callback else None
            checkpoint.end_round(SavedRound(progress.last_round(), log.last, stopped_at), loss.n_outputs, is_last)

        observers.append(save)
    observers += [_numbered_from(first, call) for call in after_round]
    boost(training, growth, loss, log, last_round, progress, observers)
    trees = progress.model_trees(growth.weights())
    if engines.initial is None:
        check_result(training, loss, parameters, trees, search.bins, least_gains)
    return Ensemble(loss, parameters.shaping(), tuple(b.feature for b in search.bins), base, trees)


def _numbered_from(first: int, call: Callable[[int], None]) -> Observer:
    """Return a function that calls another with the number of rounds of this fit."""
    return lambda round_, _: call(round_ + 1 - first)


def h_counts_rows(parameters: Parameters, loss: Loss, *, is_weighted: bool) -> bool:
    """Whether H is the number of rows with a gradient, as each hessian is 1."""
    is_drawn_by_size = parameters.sampling_method == "gradient_based" and parameters.subsample < 1
    return not is_weighted and not is_drawn_by_size and all(each.hessian.text == "1" for each in loss.outputs)


def least_rows_as_weight(parameters: Parameters, features: Sequence[Feature], loss: Loss) -> Parameters:
    """Return the parameters with ``min_child_samples`` merged into ``min_child_weight`` if H counts rows.

    Not if categories are sorted, as lighter ones would drop out of the order; nor in a tree for several outputs, where
    a child may weigh less in one of them.
    """
    is_vector = parameters.multi_strategy == "multi_output_tree" and loss.n_outputs > 1
    if is_vector or any(each.type.is_categorical for each in features):
        return parameters
    least = max(parameters.min_child_weight, float(parameters.min_child_samples))
    return replace(parameters, min_child_weight=least, min_child_samples=0)


# --- base margins, estimated as XGBoost does (its ``fit_intercept``) --------------------------------------------------


_WEIGHT = Expression("weight", ("weight",))
_ONE = Expression("1", ())
_SMALLEST_SHARE = 1e-6  # XGBoost's kRtEps; keeps the logarithm of an empty class finite
# The search for margins beside an offset: the most passes over the rows, and the step, as a share, that ends it.
_MAX_PASSES, _SMALLEST_STEP = 100, 1e-12
# Gradients within this share of what one of a step to margin 0 would be are rounding.
_ROUNDING = 2.0**-40
# Squares below have lost digits.
_SMALLEST_SQUARE = 1e-290
# Expressions of more characters take long to evaluate several times, as those of the likelihood of censored times do.
_LONGEST = 1000
_FLAT = 1e-9  # a change of the sum of gradients, as a share, that is none


def start_margins(
    rows: Sequence[Engine], loss: Loss, offsets: Mapping[str, Expression], *, is_weighted: bool, continues: bool
) -> tuple[float, ...]:
    """Set the initial margins and predictions of all rows; return the base margins.

    ``rows`` are training rows, then held-out rows. If the fit ``continues``, they start from the margins of a model, in
    the roles ``init_margin`` and so on.
    """
    if continues:
        base, firsts = (0.0,) * loss.n_outputs, [f"init_{name}" for name in loss.margins]
        starts = {name: Expression(first, (first,)) for name, first in zip(loss.margins, firsts, strict=True)}
    else:
        base = base_margins(rows[0], loss, offsets, is_weighted=is_weighted)
        starts = {name: Expression(repr(value), ()) for name, value in zip(loss.margins, base, strict=True)}
    for each in rows:
        each.start_margins({name: plus(start, offsets.get(name)) for name, start in starts.items()})
        define_predictions(each, loss)
    return base


def min_gains(rows: Rows, loss: Loss) -> tuple[float, ...]:
    """Return for each output the gain that rounding can cause: 10⁻⁶, or less if no row could gain 1.

    A row alone in a leaf gains g²/h, which measures the scale of targets and weights, unless gradients are only
    rounding, as those of a fitted model. If the squares underflow, no gain is enough. Losses with terms over other
    rows, such as those of rankings, have gradients of another scale.
    """
    by_default = (MIN_GAIN,) * loss.n_outputs
    if not all(isinstance(term, Expression) for term in loss.terms.values()):
        return by_default
    define_terms(rows, loss.terms)
    gains = {}
    for margin, each in zip(loss.margins, loss.outputs[: 1 if loss.classes else None], strict=False):
        g, h = f"({each.gradient.text})", f"({each.hessian.text})"
        if len(g) + len(h) > _LONGEST:
            return by_default
        names = dict.fromkeys((*each.gradient.columns, *each.hessian.columns, margin, "weight"))
        is_known = f"{h} > 0 AND ABS{g} > {_ROUNDING!r} * {h} * ABS({margin})"
        gains[margin] = Aggregate(
            "max", Expression(f"CASE WHEN {is_known} THEN weight * {g} * {g} / {h} END", tuple(names))
        )
    largest = rows.aggregate(gains)
    most = [1.0 if (value := largest.get(margin)) is None else value for margin in loss.margins]
    if loss.classes:  # the first one is for all
        most = most[:1] * loss.n_outputs
    return tuple(MIN_GAIN * min(each, 1.0) if each > _SMALLEST_SQUARE else math.inf for each in most)


def plus(start: Expression, offset: Expression | None) -> Expression:
    """Return the start of margins with any offset added."""
    if offset is None:
        return start
    return Expression(f"({start.text}) + {offset.text}", tuple(dict.fromkeys((*start.columns, *offset.columns))))


def base_margins(
    rows: Engine, loss: Loss, offsets: Mapping[str, Expression], *, is_weighted: bool
) -> tuple[float, ...]:
    """Return the margin before the first tree, for each output.

    Given an offset, it is the constant that minimises the loss.

    Parameters
    ----------
    rows
        Binned rows, before their margins are set.
    loss
        The loss, which has the base margin or determines its estimate.
    offsets
        The offset of each margin, by name, over the roles.
    is_weighted
        Whether rows have weights; weighted quantiles are defined differently.
    """
    n, start = loss.n_outputs, loss.start
    rows.add_columns({**loss.fitted, **loss.class_factor})
    if start.kind == "margins":
        return start.margins
    if offsets:
        return _beside(rows, loss, offsets, is_weighted=is_weighted)
    if start.kind == "moments":
        return _moments(rows, loss)
    if start.kind == "mean":
        return _means(rows, loss)
    if start.kind.startswith("newton") and (known := _of_constant_labels(rows, loss)) is not None:
        return known
    if start.kind == "newton from mean":
        return _newton_step(rows, loss, _means(rows, loss))
    if start.kind == "frequencies":
        return _centred_frequencies(rows, loss)
    if start.kind == "quantiles":
        return _quantiles(rows, loss, offsets, is_weighted=is_weighted)
    return _newton_step(rows, loss, (0.0,) * n)


def _of_constant_labels(rows: Rows, loss: Loss) -> tuple[float, ...] | None:
    """Return the margins for constant labels, which one Newton step may miss by far; None for others."""
    if loss.family != "reg" or loss.definition is not None:
        return None
    labels = dict.fromkeys(map(loss.label_of, range(loss.n_outputs)))
    counted = {name: Expression(f"CASE WHEN weight > 0 THEN {name} END", (name, "weight")) for name in labels}
    aggregates = {(f, name): Aggregate(f, label) for name, label in counted.items() for f in ("min", "max")}
    results = rows.aggregate({f"{f}_{name}": aggregate for (f, name), aggregate in aggregates.items()})
    if any(results[f"min_{name}"] != results[f"max_{name}"] for name in labels):
        return None
    return tuple(loss.margin_of(results[f"min_{loss.label_of(output)}"] or 0.0) for output in range(loss.n_outputs))


def _means(rows: Rows, loss: Loss) -> tuple[float, ...]:
    labels = {name: loss.counted(Expression(name, (name,))) for name in map(loss.label_of, range(loss.n_outputs))}
    sums = exact_sum(rows, {**labels, "weight": loss.counted(_ONE)})
    return tuple(loss.margin_of(sums[loss.label_of(output)] / sums["weight"]) for output in range(loss.n_outputs))


def _moments(rows: Rows, loss: Loss) -> tuple[float, ...]:
    """Return the margins of the mean label, or of the user's mean, and of the variance about it."""
    label, margins_of = loss.start.label, loss.start.margins_of
    assert label is not None
    assert margins_of is not None
    if loss.start.mean is None:
        sums = exact_sum(rows, {"label": weighted(label), "weight": _WEIGHT})
        mean = sums["label"] / sums["weight"]
    else:
        mean = float(pl.select(label.to_polars({"label": pl.lit(loss.start.mean)})).item())
    residual = f"({label.text} - ({mean!r}))"
    square = weighted(Expression(f"{residual} * {residual}", label.columns))
    sums = exact_sum(rows, {"square": square, "weight": _WEIGHT})
    return margins_of(mean, sums["square"] / sums["weight"])


def _of_classes(loss: Loss) -> dict[str, Expression]:
    """Return the total weight of each class, by index."""
    return {
        str(k): loss.counted(Expression(f"CASE WHEN label = {k} THEN 1 ELSE 0 END", ("label",)))
        for k in range(loss.classes)
    }


def _centred_frequencies(rows: Rows, loss: Loss) -> tuple[float, ...]:
    sums = exact_sum(rows, _of_classes(loss))
    total = math.fsum(sums.values())
    return tuple(_centred([math.log(max(sums[str(k)] / total, _SMALLEST_SHARE)) for k in range(loss.classes)]))


def _quantiles(rows: Engine, loss: Loss, offsets: Mapping[str, Expression], *, is_weighted: bool) -> tuple[float, ...]:
    rows.compute_gradients({"g_0": Expression("0", ()), "h_0": _ONE}, {})
    rows.start_tree(0)
    weights = weights_of_quantiles(rows, loss, is_weighted=is_weighted)
    return tuple(
        rows.node_quantiles(_less(loss.label_of(output), offsets.get(margin)), weights.get(output), alpha)[0]
        for output, (margin, alpha) in enumerate(zip(loss.margins, loss.renewal, strict=True))
    )


def _less(label: str, offset: Expression | None) -> Expression:
    return Expression(label, (label,)) if offset is None else Expression(
        f"{label} - ({offset.text})", (label, *offset.columns)
    )  # fmt: skip


def _newton_step(rows: Rows, loss: Loss, begins: tuple[float, ...]) -> tuple[float, ...]:
    """Return the margin of the prediction at b − G/H, one Newton step from the margin b, as XGBoost does."""
    rows.start_margins({name: Expression(repr(begin), ()) for name, begin in zip(loss.margins, begins, strict=True)})
    define_terms(rows, loss.terms)
    margins = []
    for output in range(loss.n_outputs):
        sums = exact_sum(rows, {name.upper(): loss.gradients[f"{name}_{output}"] for name in "gh"})
        step = begins[output] - (sums["G"] / sums["H"] if sums["H"] > 0 else 0.0)
        if not math.isfinite(step):
            at = f"{begins[output]:g}"
            raise DataError(f"the derivatives of {shown(loss.name)} are not finite at margin {at}; set base_score")
        if loss.definition is not None or loss.fitted:  # the inverse of a custom link is unknown
            margins.append(step)
            continue
        names = dict.fromkeys(loss.margins, pl.lit(step))
        prediction = float(pl.select(loss.links[output].to_polars(names)).item())
        margins.append(loss.margin_of(prediction))
    return tuple(margins)


# --- beside an offset -------------------------------------------------------------------------------------------------


def _beside(rows: Engine, loss: Loss, offsets: Mapping[str, Expression], *, is_weighted: bool) -> tuple[float, ...]:
    """Return the margins that minimise the loss given an offset: the gradients of each sum to 0.

    A quantile is that of the residuals. Classes are scaled in turn to their shares (Darroch & Ratcliff 1972,
    "Generalized iterative scaling for log-linear models"). Otherwise a bracketed secant method, which starts with a
    Newton step, searches for the root of the sum of gradients, output by output.
    """
    kind = loss.start.kind
    if kind == "quantiles":
        return _quantiles(rows, loss, offsets, is_weighted=is_weighted)
    if kind == "frequencies":
        return _scaled_frequencies(rows, loss, offsets)
    if kind == "moments":
        begins = _moments(rows, loss)
    else:
        begins = _means(rows, loss) if kind in ("mean", "newton from mean") else (0.0,) * loss.n_outputs
    added = {name: loss.counted(offset) for name, offset in offsets.items()}
    sums = exact_sum(rows, {"weight": loss.counted(_ONE), **added})
    first = 0 if loss.start.mean is None else 1
    margins = [
        begin - sums[name] / sums["weight"] if kind != "newton" and name in offsets and output >= first else begin
        for output, (name, begin) in enumerate(zip(loss.margins, begins, strict=True))
    ]
    passes, moved = 0, True
    while moved and passes < _MAX_PASSES:
        moved = False
        for output in range(first, loss.n_outputs):
            root, more = _root(rows, loss, margins, output, offsets)
            moved |= loss.n_outputs > max(1, len(loss.labels)) and not _is_close(root, margins[output])
            margins[output], passes = root, passes + more
    return tuple(margins)


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= _SMALLEST_STEP * (1.0 + abs(one))


def _sums_at(
    rows: Rows, loss: Loss, margins: Sequence[float], offsets: Mapping[str, Expression]
) -> list[tuple[float, float]]:
    """Return G and H of each output at these margins plus the offset."""
    starts = {name: Expression(repr(margin), ()) for name, margin in zip(loss.margins, margins, strict=True)}
    rows.start_margins({name: plus(start, offsets.get(name)) for name, start in starts.items()})
    define_terms(rows, loss.terms)
    sums = exact_sum(rows, loss.gradients)
    return [(sums[f"g_{output}"], sums[f"h_{output}"]) for output in range(loss.n_outputs)]


def _root(
    rows: Rows, loss: Loss, margins: Sequence[float], output: int, offsets: Mapping[str, Expression]
) -> tuple[float, int]:
    """Return the margin of an output where its gradients sum to 0, and the number of passes over the rows."""
    low, high = -math.inf, math.inf  # where the gradients' sum is below 0, and above
    at, last, step = margins[output], None, math.inf
    for number in range(1, _MAX_PASSES):
        G, H = _sums_at(rows, loss, [*margins[:output], at, *margins[output + 1 :]], offsets)[output]
        if not math.isfinite(G) or not math.isfinite(H):
            if last is None:
                raise DataError(
                    f"the derivatives of {shown(loss.name)} are not finite at margin {at:g} beside the offset; set a "
                    "base_score"
                )
            at = (at + last[0]) / 2
            continue
        is_flat = last is not None and abs(G - last[1]) <= _FLAT * abs(G)
        if is_flat and any(isinstance(term, RunningSum) for term in loss.terms.values()):
            return at, number  # a constant is of no matter to Cox's loss
        low, high = (max(low, at), high) if G < 0 else (low, min(high, at))
        slope = H if last is None or last[0] == at else (G - last[1]) / (at - last[0])
        if G == 0 or not slope > 0:
            slope = H
        step = 2.0 * step if is_flat else -G / slope if slope > 0 else 0.0
        following = at + step
        if not low < following < high and math.isfinite(low) and math.isfinite(high):
            following = low + (high - low) / 2
        if G == 0 or _is_close(following, at):
            return (at if G == 0 else following), number
        last, at = (at, G), following
    return at, _MAX_PASSES


def _scaled_frequencies(rows: Rows, loss: Loss, offsets: Mapping[str, Expression]) -> tuple[float, ...]:
    """Return centred margins at which each class has its share of the rows."""
    names = [str(k) for k in range(loss.classes)]
    counts = exact_sum(rows, _of_classes(loss))
    total = math.fsum(counts.values())
    weights = [max(counts[name], _SMALLEST_SHARE * total) for name in names]
    margins = _centred([math.log(count / total) for count in weights])
    for _ in range(_MAX_PASSES):
        sums = _sums_at(rows, loss, margins, offsets)
        expected = [max(G + counts[name], _SMALLEST_SHARE * total) for (G, _), name in zip(sums, names, strict=True)]
        steps = [math.log(count / of_margins) for count, of_margins in zip(weights, expected, strict=True)]
        if all(abs(step) <= _SMALLEST_STEP for step in steps):
            break
        margins = _centred([margin + step for margin, step in zip(margins, steps, strict=True)])
    return tuple(margins)


def _centred(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


# --- tree methods: the contract of an engine that each needs, and its search for splits -------------------------------


@dataclass(frozen=True, slots=True)
class Binning:
    """The settings of binning: the maximum number of bins, and the bins of the user's ``cuts`` by feature."""

    max_bin: int
    user_bins: Mapping[int, Bins]


@dataclass(frozen=True, slots=True)
class TreeMethod:
    """A way to propose and search splits, over engines that satisfy its contracts.

    Attributes
    ----------
    setting, summary
        The parameters that select it, for error messages, and a description of its splits.
    contract, held_out_contract
        The contracts required of the engines over training and held-out rows.
    prepare
        A function that makes the engines bin or sort their columns, and returns the split search over them.
    cuts_refusal
        The reason why the user's ``cuts`` have no effect; empty if they have.
    """

    setting: str
    summary: str
    contract: type[Any]
    prepare: Callable[[Any, Sequence[Any], Binning, SplitSettings], SplitSearch]
    held_out_contract: type[Any] = FollowerEngine
    cuts_refusal: str = ""

    def check_cuts(self, cuts: object) -> None:
        """Raise `ParameterError` if the user's cuts would have no effect."""
        if cuts is not None and self.cuts_refusal:
            raise ParameterError(f"cuts can't be combined with {self.setting}, {self.cuts_refusal}")

    def roles(self, roles: Mapping[str, str], features: Sequence[Feature]) -> dict[str, str]:
        """Return the columns by role that the engines read beside the features."""
        return {**roles, **(numbers_of_leaves(features) if self.contract in (LinearEngine, LinearVectorEngine) else {})}


# --- hist: bins at quantiles, once a fit; splits between bins, from histograms ----------------------------------------


def _by_node(
    training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning, settings: SplitSettings
) -> SplitSearch:
    bins = _binned(training, held_out, binning)
    return SplitSearch(HistogramSplitter(training, SlotLayout(bins), settings), bins)


def _by_level(
    training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning, settings: SplitSettings
) -> SplitSearch:
    bins = _binned(training, held_out, binning)
    return SplitSearch(SymmetricSplitter(training, SlotLayout(bins), settings), bins, needs_whole_levels=True)


def _for_all_outputs(
    training: VectorEngine, held_out: Sequence[VectorEngine], binning: Binning, settings: SplitSettings
) -> SplitSearch:
    return _of_all_outputs(training, held_out, binning, settings, VectorSplitter, _by_node)


def _levels_of_all_outputs(
    training: VectorEngine, held_out: Sequence[VectorEngine], binning: Binning, settings: SplitSettings
) -> SplitSearch:
    return _of_all_outputs(training, held_out, binning, settings, SymmetricVectorSplitter, _by_level)


def _of_all_outputs(
    training: VectorEngine, held_out: Sequence[VectorEngine], binning: Binning, settings: SplitSettings,
    splitter: Callable[[VectorEngine, SlotLayout, SplitSettings], Splitter], of_one: Callable[..., SplitSearch],
) -> SplitSearch:  # fmt: skip
    if settings.n_outputs == 1:
        return of_one(training, held_out, binning, settings)
    bins = _binned(training, held_out, binning)
    # A node that is too light to be split in one output may be split in another.
    return SplitSearch(splitter(training, SlotLayout(bins), settings), bins, needs_whole_levels=True)


def _binned(training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning) -> list[Bins]:
    """Make the engines store the codes of their columns, and return the bins of the training rows."""
    bins = with_thresholds(training.propose_bins(binning.max_bin, binning.user_bins))
    training.bin_columns(bins)
    for engine in held_out:
        # Held-out rows may lack a value that no training row lacks.
        engine.bin_columns([replace(b, has_missing=True) for b in bins])
    return bins


# --- exact and approx: engines that keep their columns as values ------------------------------------------------------


def _exact(
    training: ColumnBlockEngine, held_out: Sequence[FollowerEngine], binning: Binning, settings: SplitSettings
) -> SplitSearch:
    bins = _keep_columns(training.presort(), held_out)
    return SplitSearch(ExactSplitter(training, settings), bins, GammaPruner(training, settings.gamma))


def _approx_global(
    training: RebinningEngine, held_out: Sequence[FollowerEngine], binning: Binning, settings: SplitSettings
) -> SplitSearch:
    bins = _keep_columns(training.load_columns(), held_out)
    return SplitSearch(GlobalSplitter(training, binning.max_bin, settings), bins)


def _approx_local(
    training: NodeBinningEngine, held_out: Sequence[FollowerEngine], binning: Binning, settings: SplitSettings
) -> SplitSearch:
    bins = _keep_columns(training.load_columns(), held_out)
    return SplitSearch(LocalSplitter(training, bins, binning.max_bin, settings), bins)


def _keep_columns(bins: list[Bins], held_out: Sequence[FollowerEngine]) -> list[Bins]:
    """Make the engines over held-out rows keep columns as values, and return the bins."""
    for engine in held_out:
        engine.keep_columns(bins)
    return bins


# --- the choice -------------------------------------------------------------------------------------------------------

_BINS = "between bins, from histograms of G and H"
_LEVELS = f"{_BINS}, one for each level"
_LINEAR, _VECTOR = "linear_tree=True", "multi_strategy='multi_output_tree'"
_BINS_OF_ALL, _LEVELS_OF_ALL = f"{_BINS} of all outputs", f"{_LEVELS}, of all outputs"
# By tree_method, grow_policy, proposal, multi_strategy and linear_tree; None is any value.
_TREE_METHODS: tuple[tuple[str, str | None, str | None, str | None, bool, TreeMethod], ...] = (
    ("hist", "symmetric", None, "multi_output_tree", True,
     TreeMethod(f"{_LINEAR} and {_VECTOR}", _LEVELS_OF_ALL, LinearVectorEngine, _levels_of_all_outputs,
                LinearVectorEngine)),
    ("hist", None, None, "multi_output_tree", True,
     TreeMethod(f"{_LINEAR} and {_VECTOR}", _BINS_OF_ALL, LinearVectorEngine, _for_all_outputs, LinearVectorEngine)),
    ("hist", "symmetric", None, "multi_output_tree", False,
     TreeMethod(_VECTOR, _LEVELS_OF_ALL, VectorEngine, _levels_of_all_outputs, VectorEngine)),
    ("hist", None, None, "multi_output_tree", False,
     TreeMethod(_VECTOR, _BINS_OF_ALL, VectorEngine, _for_all_outputs, VectorEngine)),
    ("hist", "symmetric", None, None, True, TreeMethod(_LINEAR, _LEVELS, LinearEngine, _by_level, LinearEngine)),
    ("hist", None, None, None, True, TreeMethod(_LINEAR, _BINS, LinearEngine, _by_node, LinearEngine)),
    ("hist", "symmetric", None, None, False,
     TreeMethod("grow_policy='symmetric'", _LEVELS, HistogramEngine, _by_level, HistogramEngine)),
    ("hist", None, None, None, False,
     TreeMethod("tree_method='hist'", _BINS, HistogramEngine, _by_node, HistogramEngine)),
    ("exact", None, None, None, False,
     TreeMethod("tree_method='exact'", "between any two values, by scans of sorted columns", ColumnBlockEngine, _exact,
                cuts_refusal="which splits between any two values")),
    ("approx", None, "global", None, False,
     TreeMethod("tree_method='approx'", "between bins proposed for each tree", RebinningEngine, _approx_global,
                cuts_refusal="which finds its own for each tree")),
    ("approx", None, "local", None, False,
     TreeMethod("tree_method='approx' and proposal='local'", "between bins proposed in each node", NodeBinningEngine,
                _approx_local, cuts_refusal="which finds its own in each node")),
)  # fmt: skip


def choose_tree_method(parameters: Parameters) -> TreeMethod:
    """Return the tree method for the parameters."""
    p = parameters
    values = (p.tree_method, p.grow_policy, p.proposal, p.multi_strategy, p.linear_tree)
    for *pattern, method in _TREE_METHODS:
        if all(each in (None, value) for each, value in zip(pattern, values, strict=True)):
            return method
    raise AssertionError(values)
