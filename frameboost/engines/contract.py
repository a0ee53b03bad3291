"""The contract of an engine: what the booster asks of the place where the rows are.

An engine holds the rows, with one margin, gradient and node number each. The booster sees only small tables: cuts,
histograms, splits, leaf values, aggregates. All engines give the same trees, bit for bit, because an engine

- takes all sums of gradients on the grid that `frameboost.losses.exact_sums.rounded` gives (`compute_gradients`), where
  every partial sum is exact, so that neither the order of the rows nor the number of threads matters;
- proposes cuts by `frameboost.binning.bins.cut_positions`, without interpolation, from the sample of rows that
  `sample_condition` names;
- samples rows by the hash of their position (`Sample`).

Each tree method asks for one contract:

======================================================  =================================================
`HistogramEngine`                                       ``tree_method="hist"``, symmetric trees included
`RebinningEngine`                                       ``tree_method="approx"``, ``proposal="global"``
`NodeBinningEngine`                                     ``tree_method="approx"``, ``proposal="local"``
`ColumnBlockEngine`                                     ``tree_method="exact"``
`FollowerEngine`                                        held-out rows of ``approx`` and ``exact``
======================================================  =================================================

A new engine is a class with the methods of one of them, and an `frameboost.engines.description.EngineDescription` in
the table of `frameboost.engines.choose` or in an entry point of another package (docs/engines.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from frameboost.binning.bins import Bins
from frameboost.binning.node_bins import NodeBins
from frameboost.expressions.expression import Expression
from frameboost.expressions.ranking_terms import Pairs
from frameboost.losses.exact_sums import Aggregate, Scalar
from frameboost.schema.feature import Feature
from frameboost.splits.split import FloatArray, IntArray, Penalties, Split, SplitLimits, Stats

__all__ = [
    "ColumnBlockEngine",
    "Cumulative",
    "Engine",
    "FollowerEngine",
    "HistogramEngine",
    "NodeBinningEngine",
    "QueryWindow",
    "RebinningEngine",
    "Sample",
    "missing_members",
]


@dataclass(frozen=True, slots=True)
class Cumulative:
    """A running sum over the rows by ``order``, rows of equal order included.

    The values are 0 or more, and on a grid, so that the sum is exact.
    """

    value: Scalar
    order: Scalar
    descending: bool = False


@dataclass(frozen=True, slots=True)
class QueryWindow:
    """A number from the rows of a row's query (see `OverQuery`); what is summed is on a grid."""

    function: Literal["rank", "sum", "min", "max", "running"]
    value: Scalar
    order: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Which rows a tree sees: its gradients as expressions over ``g``, ``h`` and ``draw``.

    ``draw`` is uniform in [0, 1), a hash of ``key`` and the row's position (see `frameboost.expressions.draws`).
    """

    key: int
    g: Scalar
    h: Scalar


class Engine(Protocol):
    """Rows with labels, weights and features; one tree is grown at a time.

    Expressions are over a row's *roles* (``label``, ``weight`` and what else the fit names: ``base_margin``, ...), from
    `start_margins` on over the margins, and over whatever `define` adds. A NULL or NaN in a role is NULL; without a
    weight column, weight is 1. All roles are numbers but ``qid``, the query of a row, of which only equality counts.

    From `compute_gradients` on, the calls repeat with each round, and from `start_tree` on with each tree;
    `apply_splits` alternates with whatever finds the splits.
    """

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, in order."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over all rows, in one pass; None for an aggregate of no values."""

    def count_missing(self) -> list[int]:
        """Return for each feature in how many rows it is missing."""

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """Give every row its first margins, by name, from its roles."""

    def define(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """Add columns to the rows, each of which may use those before it; a name may be defined anew."""

    def sum_pairs(self, pairs: Pairs, offset: float) -> None:
        """Give every row ``pair_g``, ``pair_h`` and ``pair_size``, as it is now; see `Pairs`.

        Each pair's numbers are rounded by ``offset`` before they are summed.
        """

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """Store numbers of every row by name: ``g_0``, ``h_0`` for the first output and so on, and others.

        Gradients are put on the grids on which their sums are exact (see `frameboost.losses.exact_sums.rounded`).
        """

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """Put every row into node 0, with the gradients of that output; return their sums."""

    def follow_tree(self) -> None:
        """Put every row into node 0, without gradients: the tree is grown elsewhere."""

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Move the rows of each node to its left or right child: node -> (split, left child, right child)."""

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """Add to every row's margin of that name the value of the leaf that it is in."""

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """Return for each node the ``alpha`` quantile of a value over its rows of positive h, where it has any.

        Without weights: between its neighbours, in proportion, at rank alpha (n + 1) (NIST handbook, section
        7.2.6.2). With weights: the lowest value at which their running sum reaches alpha of the whole. Both as XGBoost
        has them.
        """

    def aggregate_scores(
        self, score: Scalar, positive: Scalar, negative: Scalar, aggregates: Mapping[str, Aggregate]
    ) -> dict[str, float | None]:
        """Return aggregates over the distinct scores.

        Their expressions are over ``positive`` and ``negative``, the sums over the rows of a score, ``positive_above``
        and ``negative_above``, over the rows of higher scores, and ``positive_total`` and ``negative_total``.
        """

    def close(self) -> None:
        """Drop whatever the engine has made; safe to call at any time and more than once."""


class HistogramEngine(Engine, Protocol):
    """An engine that sums gradients by bin (``tree_method="hist"``)."""

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """Return the bins of every feature, in order; those of the features in ``given`` as they are."""

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """Store every feature's codes, once."""

    def histograms(self, nodes: Sequence[int], out: FloatArray, places: IntArray) -> None:
        """Write each node's sums of g and h by bin to its place in ``out``, float64 (places, slots, 2).

        Slots are those of the `SlotLayout`.
        """


class RebinningEngine(HistogramEngine, Protocol):
    """An engine that can bin its columns anew for each tree (``tree_method="approx"``, global proposals)."""

    def load_columns(self) -> list[Bins]:
        """Keep every column's values, once; return the features' bins, as yet without cuts."""

    def rebin(self, max_bin: int) -> list[Bins]:
        """Propose cuts weighted by h of the tree in hand, and store every feature's codes by them; return the bins."""


class NodeBinningEngine(Engine, Protocol):
    """An engine that can bin the rows of each node by themselves (``tree_method="approx"``, local proposals)."""

    def load_columns(self) -> list[Bins]:
        """Keep every column's values, once; return the features' bins, as yet without cuts."""

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """Return for each feature its bins in each node, by cuts weighted by h, and the sums of g and h in them."""


class ColumnBlockEngine(Engine, Protocol):
    """An engine that keeps presorted columns, and so can propose a split at every value (``tree_method="exact"``)."""

    def presort(self) -> list[Bins]:
        """Sort every column once; return the features' bins (without cuts: every value is its own bin)."""

    def merge_nodes(self, nodes: Mapping[int, int]) -> None:
        """Move all rows of each node to another: splits that were pruned away are taken back."""

    def best_splits(
        self, nodes: Sequence[int], totals: Sequence[Stats], penalties: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        """Return each node's best split over its allowed features and all values, by one sorted scan of each column."""


class FollowerEngine(Engine, Protocol):
    """An engine over held-out rows where bins don't last the fit (``approx``, ``exact``): it splits by threshold.

    It is never asked for gradients of its own or `node_quantiles`.
    """

    def keep_columns(self, bins: Sequence[Bins]) -> None:
        """Keep every column's values, once; ``bins`` are those of training, with the categories and no cuts."""


def missing_members(engine: object, contract: type) -> list[str]:
    """Return the methods and properties of a contract that an object lacks, sorted; no property is evaluated."""
    named = {name for base in contract.__mro__ for name in vars(base) if not name.startswith("_")}
    own = vars(engine) if hasattr(engine, "__dict__") else {}
    return sorted(name for name in named if name not in own and not hasattr(type(engine), name))
