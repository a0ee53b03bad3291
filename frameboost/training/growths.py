"""Growing the trees of a round: the variants, and the choice of one for a fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Protocol, cast

from frameboost.checks.messages import shown
from frameboost.engines.contract import Engine, Rows, Sample, TreeEngine, VectorEngine, capabilities_of
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.expressions.draws import draw_key
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Rounded, Scalar, grid_offset, rounded, rounded_on
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters, shrinkage_of
from frameboost.splits.split import Stats
from frameboost.training.boosting import Growth
from frameboost.training.dart import Dropout
from frameboost.training.grower import GrownTree, Renewal, TreeGrower, TreeTarget
from frameboost.training.linear_leaves import LinearLeaves
from frameboost.training.open_nodes import FeatureSampler
from frameboost.training.splitter import SplitSearch, SplitSettings
from frameboost.training.vector_trees import VectorTreeGrower
from frameboost.training.whole_trees import WholeTreeGrower

__all__ = [
    "FitEngines", "choose_growth", "is_for_all_outputs", "renewals_of", "sample_rows", "weights_of_quantiles",
]  # fmt: skip

_ROWS = 0  # first part of a draw's key; `FeatureSampler` has other numbers
_PAIR = ("g", "h", "draw")


@dataclass(frozen=True)
class FitEngines:
    """The engines of a fit, over checked data.

    Attributes
    ----------
    training
        The engine over the training rows.
    held_out
        Engines over held-out rows.
    is_weighted
        Whether there is a column of weights.
    offsets
        The offset of each margin, by name, over the roles.
    initial
        The model from whose margins the rows start, in the roles ``init_margin`` and so on, if there is one.
    """

    training: Engine
    held_out: Sequence[Engine] = ()
    is_weighted: bool = False
    offsets: Mapping[str, Expression] = field(default_factory=dict)
    initial: Ensemble | None = None

    def all(self) -> tuple[Engine, ...]:
        """Return all engines, that of the training rows first."""
        return (self.training, *self.held_out)


def choose_growth(
    engines: FitEngines, search: SplitSearch, settings: SplitSettings, parameters: Parameters, loss: Loss,
    least_gains: Sequence[float], moved: Sequence[Engine],
) -> Growth:  # fmt: skip
    """Return the growth for a fit.

    Parameters
    ----------
    engines
        The engines over training and held-out rows.
    search, settings
        The split search over the columns, and its settings.
    parameters
        Shape and regularisation of the trees.
    loss, least_gains
        The loss, and for each output the gain that rounding can cause.
    moved
        The engines with margins that dropped trees are added to.
    """
    training, held_out = engines.training, engines.held_out
    renewals = renewals_of(training, loss, is_weighted=engines.is_weighted)
    targets = [
        TreeTarget(output, margin, least_gains[output], renewals.get(output))
        for output, margin in enumerate(loss.margins)
    ]
    linear = LinearLeaves(training, search.bins, parameters) if parameters.linear_tree else None
    if linear is not None and engines.initial is not None:
        for tree in engines.initial.trees:
            linear.count(tree.feature, tree.gain)
    is_for_all = is_for_all_outputs(parameters, loss)
    grower: Grower
    if _are_grown_whole(training, settings, parameters, is_for_all=is_for_all):
        grower = WholeTreeGrower(training, held_out, search, settings, parameters, linear)
    elif is_for_all:
        grower = VectorTreeGrower(training, held_out, search, settings, parameters, linear)
    else:
        grower = TreeGrower(training, held_out, search, settings, parameters, linear)
    kind = TreeForAllOutputs if is_for_all else TreePerOutput
    growth: Growth = kind(training, grower, loss, targets, settings.features, parameters, linear)
    return Dropout(growth, moved, parameters) if parameters.booster == "dart" else growth


def is_for_all_outputs(parameters: Parameters, loss: Loss) -> bool:
    """Whether a fit grows one tree for several outputs."""
    return parameters.multi_strategy == "multi_output_tree" and loss.n_outputs > 1


def _are_grown_whole(engine: Engine, settings: SplitSettings, parameters: Parameters, *, is_for_all: bool) -> bool:
    """Whether the engine grows whole trees for a fit: without constraints, counted rows and feature weights."""
    constraints = settings.constraints
    is_free = parameters.tree_method == "hist" and not constraints.is_monotone and constraints.sets is None
    is_free = is_free and settings.penalties.least_rows is None and settings.features.weights is None
    if not is_free:
        return False
    n_growths = parameters.n_estimators * parameters.num_parallel_tree
    if is_for_all:
        return capabilities_of(engine).takes_trees and cast(TreeEngine, engine).grows_vector_trees(n_growths)
    return capabilities_of(engine, n_growths * settings.n_outputs).grows_trees


def renewals_of(rows: Rows, loss: Loss, *, is_weighted: bool) -> dict[int, Renewal]:
    """Return the leaf renewal of each output; empty unless leaves are quantiles, as for absolute errors."""
    if not loss.renewal:
        return {}
    weights = weights_of_quantiles(rows, loss, is_weighted=is_weighted)
    return {
        output: Renewal(Expression(f"residual_{output}", (f"residual_{output}",)), weights.get(output), alpha)
        for output, alpha in enumerate(loss.renewal)
    }


def weights_of_quantiles(rows: Rows, loss: Loss, *, is_weighted: bool) -> dict[int, Scalar]:
    """Return the row weights of each output's quantiles, on grids; empty if all rows count equally."""
    weights = {k: loss.weights_of_quantiles(k, is_weighted=is_weighted) for k in range(len(loss.renewal))}
    return {
        output: rounded(rows, {"weight": weight})["weight"] for output, weight in weights.items() if weight is not None
    }


class Grower(Protocol):
    """Grows a tree started in the engine, for one output or for all."""

    def grow(self, root_stats: Sequence[Stats], targets: Sequence[TreeTarget], shrinkage: float) -> list[GrownTree]:
        """Grow the tree, and add its leaf values to the margins; return a tree for each output.

        Parameters
        ----------
        root_stats
            G and H of all rows, for each output.
        targets
            The outputs that the tree is grown for.
        shrinkage
            The factor of its leaf values.
        """


class _Growth:
    """The common part of growths: tree samples, and rounds after which only linear leaves count the trees' gains."""

    def __init__(
        self, engine: Engine, grower: Grower, loss: Loss, targets: Sequence[TreeTarget], features: FeatureSampler,
        parameters: Parameters, linear: LinearLeaves | None = None,
    ) -> None:  # fmt: skip
        self._engine, self._grower, self._loss, self._targets = engine, grower, loss, targets
        self._features, self._parameters, self._linear = features, parameters, linear
        self._rates = parameters.as_dict()

    def start_round(self, round_: int) -> None:
        """See `Growth.start_round`."""

    def end_round(self, grown: Sequence[GrownTree]) -> None:
        """See `Growth.end_round`."""
        if self._linear is not None:
            for each in grown:
                self._linear.count(each.tree.feature, each.tree.gain)

    def weights(self) -> None:
        """See `Growth.weights`."""

    def sample(self, round_: int, index: int, outputs: Sequence[int]) -> Sample | None:
        """Draw the features of the tree with that index in its round; return its row sample."""
        a_round = self._loss.n_outputs * self._parameters.num_parallel_tree
        self._features.start_tree(round_ * a_round + index)  # the number is part of each draw's key
        first = round_ - round_ % self._parameters.subsample_freq  # of the rounds that share a sample
        return sample_rows(self._engine, outputs, self._parameters, first * a_round + index)

    def check_finite(self, totals: Stats, round_: int) -> None:
        """Raise `DataError` if G or H of all rows is not finite."""
        if not (math.isfinite(totals.G) and math.isfinite(totals.H)):
            raise DataError(
                f"the gradients of {shown(self._loss.name)} are not finite in round {round_ + 1}; "
                "a smaller learning_rate, a max_delta_step or a base_score may help"
            )


class TreePerOutput(_Growth):
    """Grows ``num_parallel_tree`` trees for each output in a round."""

    def trees(self, round_: int) -> Iterator[GrownTree]:
        """See `Growth.trees`."""
        shrinkage, parallel = shrinkage_of(self._rates, round_), self._parameters.num_parallel_tree
        for target in self._targets:
            for index in range(target.output * parallel, (target.output + 1) * parallel):
                totals = self._engine.start_tree(target.output, self.sample(round_, index, [target.output]))
                self.check_finite(totals, round_)
                yield from self._grower.grow([totals], [target], shrinkage)


class TreeForAllOutputs(_Growth):
    """Grows ``num_parallel_tree`` trees in a round, each for all outputs."""

    def trees(self, round_: int) -> Iterable[GrownTree]:
        """See `Growth.trees`."""
        shrinkage, by_growth = shrinkage_of(self._rates, round_), []
        for index in range(self._parameters.num_parallel_tree):
            sample = self.sample(round_, index, range(self._loss.n_outputs))
            totals = cast(VectorEngine, self._engine).start_vector_tree(sample)
            for of_output in totals:
                self.check_finite(of_output, round_)
            by_growth.append(self._grower.grow(totals, self._targets, shrinkage))
        return chain.from_iterable(zip(*by_growth, strict=True))


# --- the rows of a tree, drawn by hashes (see `frameboost.expressions.draws`), so that every engine draws the same ----


def sample_rows(rows: Rows, outputs: Sequence[int], parameters: Parameters, tree: int) -> Sample | None:
    """Return the row sample of a tree for these outputs, None for all rows."""
    share = parameters.subsample
    if share == 1.0:
        return None
    key = draw_key(parameters.seed, _ROWS, tree)
    if parameters.sampling_method == "uniform":
        return Sample(key, *_drawn_below(share), share)
    size, names = _sizes(parameters, outputs)
    bound = _gradient_bound(rows, outputs, parameters)
    # A row is drawn with probability p, and its gradients are divided by p (Ibragimov & Gusev 2019, "Minimal variance
    # sampling in stochastic gradient boosting").
    grids = rounded(rows, {name: Expression(_scaled(name, size, bound), names) for name in names})
    offsets = {x: max(grids[name].offset for name in names if name[0] == x) for x in "gh"}
    if len(outputs) == 1:  # g and h are those of the only output
        size, names = _size(parameters, ["gh"]), ()
    terms = {x: f"CASE WHEN draw < {size} / {bound!r} THEN {_scaled(x, size, bound)} ELSE 0 END" for x in "gh"}
    on_grids = rounded_on(offsets, {x: Expression(terms[x], (*_PAIR, *names)) for x in terms})
    return Sample(key, on_grids["g"], on_grids["h"])


@lru_cache(maxsize=8)
def _drawn_below(share: float) -> tuple[Expression, Expression]:
    """Return g and h of rows drawn with that probability, 0 for others."""
    g, h = (Expression(f"CASE WHEN draw < {share!r} THEN {x} ELSE 0 END", _PAIR) for x in "gh")
    return g, h


def _size(parameters: Parameters, pairs: Sequence[Sequence[str]]) -> str:
    """Return √(g² + λh²), the regularised size of a row's gradient; of several outputs g² and h² are sums."""
    squares = (f"{g} * {g} + {parameters.reg_lambda!r} * {h} * {h}" for g, h in pairs)
    return f"SQRT({' + '.join(squares)})"


def _sizes(parameters: Parameters, outputs: Sequence[int]) -> tuple[str, tuple[str, ...]]:
    """Return the size over the gradients of some outputs, and their names."""
    pairs = [(f"g_{output}", f"h_{output}") for output in outputs]
    return _size(parameters, pairs), tuple(chain.from_iterable(pairs))


def _scaled(name: str, size: str, bound: float) -> str:
    """Return g or h divided by p = min(1, size / bound)."""
    return f"CASE WHEN {size} >= {bound!r} OR {size} = 0 THEN {name} ELSE {name} * ({bound!r} / {size}) END"


def _gradient_bound(rows: Rows, outputs: Sequence[int], parameters: Parameters) -> float:
    """Return μ such that the probabilities p = min(1, size / μ) sum to the expected number of rows.

    As a function of 1 / μ the sum is concave and piecewise linear, so Newton's method from μ = ∞ never overshoots; it
    ends when a step does not change the set of rows with p = 1. Example, sizes 1, 2 and 9, 2 rows expected: with no row
    at p = 1, μ = 12 / 2 = 6. Then the row of size 9 has p = 1 and the others share 1 row: μ = 3 / 1 = 3, the answer.
    """
    size, names = _sizes(parameters, outputs)
    expected = parameters.subsample * rows.n_rows
    offset = rounded(rows, {"size": Expression(size, names)})["size"].offset
    total = rows.aggregate({"size": Aggregate("sum", Rounded(Expression(size, names), offset))})["size"]
    of_ones = grid_offset(1.0, rows.n_rows)
    bound, sure, rest = math.inf, 0.0, total or 0.0
    while rest > 0 and sure < expected and rest / (expected - sure) < bound:
        bound = rest / (expected - sure)
        are_sure = Expression(f"CASE WHEN {size} >= {bound!r} THEN 1 ELSE 0 END", names)
        others = Expression(f"CASE WHEN {size} >= {bound!r} THEN 0 ELSE {size} END", names)
        sums = rows.aggregate({
            "sure": Aggregate("sum", Rounded(are_sure, of_ones)),
            "rest": Aggregate("sum", Rounded(others, offset)),
        })  # fmt: skip
        sure, rest = sums["sure"] or 0.0, sums["rest"] or 0.0
    return bound if math.isfinite(bound) else 1.0
