"""The contract of an engine: what boosting requires of the holder of the rows.

An engine holds the rows, each with a margin, a gradient and a node index. The booster sees only small tables: cuts,
histograms, splits, leaf values, aggregates. All engines grow the same trees, bit for bit, because an engine

- sums gradients on the grid of `frameboost.expressions.grid.rounded` (`compute_gradients`), where every partial sum is
  exact, so that neither row order nor the number of threads matters;
- proposes cuts by `frameboost.binning.bins.cut_positions`, at values of the data, from the sample of
  `sample_condition`;
- samples rows by a hash of row position (`Sample`).

Metrics, evaluation and reports need `Rows`: roles, margins, aggregates and scores. `Engine` adds growing trees, and
each tree method needs one contract:

======================================================  =================================================
`HistogramEngine`                                       ``tree_method="hist"``, symmetric trees included
`RebinningEngine`                                       ``tree_method="approx"``, ``proposal="global"``
`NodeBinningEngine`                                     ``tree_method="approx"``, ``proposal="local"``
`ColumnBlockEngine`                                     ``tree_method="exact"``
`FollowerEngine`                                        held-out rows of ``approx`` and ``exact``
`RefitEngine`                                           `frameboost.Model.refit`
`ShardEngine`                                           part of the rows of a `HistogramEngine` made of shards
`TreeEngine`                                            may grow whole trees of ``tree_method="hist"`` itself
`LinearEngine`                                          ``linear_tree=True``
`VectorEngine`                                          ``multi_strategy="multi_output_tree"``
`LinearVectorEngine`                                    both
`CountingEngine`                                        ``min_child_samples``, where H does not count the rows
======================================================  =================================================

A new engine is a class with the methods of one of them, and an `frameboost.engines.contract.EngineDescription` in
the table of `frameboost.engines.choose` or in an entry point of another package (docs/engines.md).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import polars as pl

from frameboost.binning.bins import Bins, NodeBins
from frameboost.binning.codes import ValueCounts
from frameboost.checks.messages import listed, shown
from frameboost.data.dask_source import PartitionedSource
from frameboost.data.database_table import DatabaseTable
from frameboost.data.sources import RelationSource, Source
from frameboost.data.spark_source import SparkSource
from frameboost.errors import ParameterError
from frameboost.expressions.draws import RowPositions
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Aggregator, Scalar
from frameboost.losses.loss import RankingPairs
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.storage import IN_MEMORY, MemoryBudget, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, Physical
from frameboost.splits.split import BoolArray, FloatArray, IntArray, Penalties, Split, SplitLimits, Stats
from frameboost.trees.linear_leaves import LinearColumns

__all__ = [
    "ArrayRows",
    "Capabilities",
    "ColumnBlockEngine",
    "CountingEngine",
    "Cumulative",
    "DataKind",
    "Engine",
    "EngineDescription",
    "EngineRequest",
    "FixedRows",
    "FollowerEngine",
    "GrownNodes",
    "HistogramEngine",
    "LinearEngine",
    "LinearVectorEngine",
    "NodeBinningEngine",
    "QueryWindow",
    "RebinningEngine",
    "RefitEngine",
    "Rows",
    "RowsInMemory",
    "Sample",
    "ShardEngine",
    "TreeEngine",
    "TreeShape",
    "VectorEngine",
    "capabilities_of",
    "check_engine",
    "data_kind",
    "linear_role",
    "parts_where",
    "sum_indices",
]


@dataclass(frozen=True, slots=True)
class Cumulative:
    """A running sum over the rows by ``order``, including rows of equal order.

    The values are 0 or more and on a grid, so that the sum is exact.
    """

    value: Scalar
    order: Scalar
    descending: bool = False


@dataclass(frozen=True, slots=True)
class QueryWindow:
    """A window function over the rows of each query (see `OverQuery`); summed values are on a grid."""

    function: Literal["rank", "sum", "min", "max", "running"]
    value: Scalar
    order: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The gradients of a tree grown on a sample of the rows, as expressions over ``g``, ``h`` and ``draw``.

    In a tree for all outputs ``g`` and ``h`` are those of each in turn, and the expressions may read ``g_0``, ``h_0``,
    ``g_1`` and so on besides.

    ``draw`` is uniform in [0, 1), a hash of ``key`` and row position (see `frameboost.expressions.draws`). With a
    ``share`` the expressions are ``g`` and ``h`` in rows with ``draw`` below it, and 0 in other rows.
    """

    key: int
    g: Scalar
    h: Scalar
    share: float | None = None


class Rows(Protocol):
    """Rows with labels, weights and margins that support aggregation.

    Expressions use the *roles* of a row (``label``, ``weight``, ``base_margin``, ...), the margins, which are roles too
    or set by `start_margins`, and names added by `add_columns`. NULL and NaN in a role are NULL; without a weight
    column every weight is 1. All roles are numeric except ``qid``, the query of a row, which is only compared for
    equality.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over all rows, in one pass; None for an aggregate of no values."""

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """Set the margins of every row, by name, from its roles."""

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """Add columns, each of which may use earlier ones; redefining a name replaces its definition."""

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """Add columns ``pair_g``, ``pair_h`` and ``pair_size``, computed at the current margins (see `RankingPairs`).

        The terms of each pair are rounded by ``offset`` before they are summed.
        """

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """Return the distinct scores, to aggregate before the margins change; its ``n_rows`` is that of the rows.

        Expressions use ``score``, ``positive`` and ``negative``, the sums over rows with the score, ``positive_above``
        and ``negative_above``, over rows with higher scores, and ``positive_total`` and ``negative_total``.
        """

    def close(self) -> None:
        """Drop all tables and arrays of the engine; may be called at any time, repeatedly."""


class ArrayRows(Rows, Protocol):
    """`Rows` that array functions can read, whole and in the order of the data: `EngineRequest.in_order`."""

    def computed(self, values: Mapping[str, Scalar]) -> dict[str, FloatArray]:
        """Evaluate expressions row by row, as new float64 arrays, NaN for NULL."""

    def store_arrays(self, columns: Mapping[str, FloatArray]) -> None:
        """Add or replace columns by arrays with one value per row."""


class FixedRows(Rows, Protocol):
    """Rows with constant margins, such as those of a model to evaluate: `frameboost.engines.choose.rows_of`."""

    def store_terms(self) -> None:
        """Materialise the terms of `add_columns` for all later calls."""


class RowsInMemory(FixedRows, Protocol):
    """`FixedRows` of a frame."""

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame:
        """Evaluate expressions row by row, as float64."""


class Engine(Rows, Protocol):
    """Rows with features, for one fit; trees are grown one at a time.

    Calls from `compute_gradients` on are repeated in each round, those from `start_tree` on for each tree.
    `apply_splits` alternates with the method that finds splits or sums histograms.
    """

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, in order."""

    def count_missing(self) -> list[int]:
        """Return the number of missing values of each feature."""

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]
    ) -> dict[str, float] | None:  # fmt: skip
        """Store ``g_0``, ``h_0`` (of the first output) and so on for every row, and ``others`` by name.

        Gradients are rounded to grids on which their sums are exact (see `frameboost.expressions.grid.rounded`).
        """

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """Put all rows into node 0, with the gradients of that output; return their sums."""

    def reset_nodes(self) -> None:
        """Put all rows into node 0, for a tree grown on another engine, or replayed.

        The splits of a tree replayed from a checkpoint have no sums of gradients, nor bins that last for one tree only.
        """

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Move the rows of each node to its left or right child: node -> (split, left child, right child)."""

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """Add the value of each row's leaf to its margin of that name."""

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """Return the ``alpha`` quantile of a value over the rows with h > 0 of each node that has any.

        Unweighted: at rank alpha (n + 1), by linear interpolation (NIST handbook, section 7.2.6.2). Weighted: the
        lowest value at which the running sum of weights reaches alpha of the total. Both are XGBoost's definitions.
        """


class HistogramEngine(Engine, Protocol):
    """An engine that sums gradients by bin (``tree_method="hist"``)."""

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """Return the bins of all features in order; those in ``user_bins`` are returned unchanged.

        Cuts are values of the data. Float cuts come with the preceding values (`Bins.below`); `frameboost.binning.bins`
        then chooses thresholds between the two. Without preceding values they are such thresholds.
        """

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """Store the code of every value, the index of its bin."""

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """Write the sums of g and h by bin of each node to ``out[index]``, float64 (histograms, slots, 2).

        `frameboost.binning.bins.SlotLayout` maps bins of features to slots.
        """


class CountingEngine(HistogramEngine, Protocol):
    """A `HistogramEngine` that also counts the rows of each bin."""

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """Do what `histograms` does with g = 1 and h = 0 for each row that has a gradient.

        That is a row with g or h other than 0, in any output of a tree for several: rows outside of the sample have
        none, nor rows of weight 0.
        """


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of an engine beyond its contract, once its columns are binned.

    An engine with any returns them from a method ``capabilities(n_trees)``, where ``n_trees`` is the number of trees of
    the fit, or 0 if irrelevant.

    Attributes
    ----------
    takes_batches
        Whether one call for many nodes is faster than many calls, as for queries. Lossguide trees are then split ahead
        (see `frameboost.training.look_ahead`).
    takes_trees
        Whether it is a `TreeEngine` that can add other engines' trees to its margins.
    grows_trees
        Whether it should grow the trees of the fit, of one output each, in one call each.
    """

    takes_batches: bool = False
    takes_trees: bool = False
    grows_trees: bool = False


def capabilities_of(engine: object, n_trees: int = 0) -> Capabilities:
    """Return the capabilities of an engine, none by default."""
    say = getattr(engine, "capabilities", None)
    return Capabilities() if say is None else cast(Capabilities, say(n_trees))


@dataclass(frozen=True, slots=True)
class TreeShape:
    """The limits and the growth policy of the trees that a `TreeEngine` grows.

    A depth or a number of leaves of 0 is no limit; ``grow_policy`` is the parameter of that name.
    """

    max_depth: int
    max_leaves: int
    least_gain: float
    grow_policy: str


@dataclass(frozen=True, slots=True)
class FeatureDraws:
    """The feature sampling of a tree, see `frameboost.training.open_nodes.FeatureSampler`.

    Attributes
    ----------
    shares
        The shares of a tree, of each level, and of each node.
    keys
        The keys of their draws (see `frameboost.expressions.draws.draw_key`); the path of a level ends with its depth,
        that of a node with its index.
    """

    shares: tuple[float, float, float]
    keys: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class GrownNodes:
    """The nodes of a tree that a `TreeEngine` grew, in the order of creation, valid until the next tree.

    Attributes
    ----------
    feature, bin, missing_left
        int64 (nodes,): the split, as in `Split`; its feature is -1 in a leaf.
    left
        int64 (nodes,): the left child, -1 in a leaf; the right child follows it.
    table, goes_left
        int64 (nodes,) and bool: the start of a split's codes in ``goes_left``: whether each goes left.
    gain, cover, value
        float64 (outputs, nodes): the gain of the split, H, and the value of the node as a leaf, in each output.
    """

    feature: IntArray
    bin: IntArray
    missing_left: IntArray
    left: IntArray
    table: IntArray
    goes_left: BoolArray
    gain: FloatArray
    cover: FloatArray
    value: FloatArray


class TreeEngine(Protocol):
    """A `HistogramEngine` that may grow a whole tree in one call, by the same steps."""

    def grows_vector_trees(self, n_trees: int) -> bool:
        """Whether it should grow the trees of the fit, each for several outputs, in one call each."""

    def grow_tree(
        self, shape: TreeShape, penalties: Penalties, shrinkage: float, draws: FeatureDraws | None
    ) -> GrownNodes:
        """Grow the started tree, without constraints; with ``draws`` on sampled features.

        ``shrinkage`` is the factor of leaf values.
        """

    def add_grown(self, grown: GrownNodes, margins: Sequence[str], linear: Sequence[LinearColumns | None]) -> None:
        """Add the value of each row's leaf in each output to its margin, for a tree grown here or by another engine.

        The tree of a `LinearEngine` may have linear leaves, others for each output.
        """


class ShardEngine(HistogramEngine, Protocol):
    """An engine over part of the rows; `frameboost.engines.shards` merges its answers into those of all rows.

    The sums of splits, and the number of rows that determines grids, are those of all rows.
    """

    def start_at(self, positions: RowPositions, n_rows: int) -> None:
        """Make the engine a shard, with the positions of its rows among all ``n_rows``, for sampling."""

    def count_values(self, features: Sequence[int]) -> list[ValueCounts]:
        """Return the distinct values of some numeric features, over the rows for proposing cuts."""

    def categories(self, feature: int) -> list[Physical]:
        """Return the distinct physical values of a categorical feature, in any order."""

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """Do what `Engine.compute_gradients` does; return the largest magnitude of each gradient.

        With ``offsets`` they are rounded to these grids, those of all shards.
        """

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """Return ``node``, ``value`` and, with weights, ``weight``, float64, of every row with h > 0."""

    def score_sums(self, score: Scalar, positive: Scalar, negative: Scalar) -> pl.DataFrame:
        """Return the distinct ``score``, and the sums ``positive`` and ``negative`` over its rows, float64."""

    def query_names(self) -> pl.Series:
        """Return the distinct values of the query column, as text."""


class RebinningEngine(HistogramEngine, Protocol):
    """An engine that bins its columns again for each tree (``tree_method="approx"``, ``proposal="global"``)."""

    def load_columns(self) -> list[Bins]:
        """Keep the values of every column; return the bins of the features, without cuts."""

    def rebin(self, max_bin: int) -> list[Bins]:
        """Propose cuts weighted by h of the current tree, store the codes by them, and return the bins.

        They have the form of `HistogramEngine.propose_bins`.
        """


class NodeBinningEngine(Engine, Protocol):
    """An engine that bins the rows of each node separately (``tree_method="approx"``, ``proposal="local"``)."""

    def load_columns(self) -> list[Bins]:
        """Keep the values of every column; return the bins of the features, without cuts."""

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """Return each feature's bins in each node, with cuts weighted by h, and the sums by bin."""


class ColumnBlockEngine(Engine, Protocol):
    """An engine that keeps sorted columns and finds the best split over all values (``tree_method="exact"``)."""

    def presort(self) -> list[Bins]:
        """Sort every column once; return the features' bins (without cuts: every value is a bin)."""

    def merge_nodes(self, nodes: Mapping[int, int]) -> None:
        """Move all rows of each node to another node: the leaf that the node was pruned into."""

    def rank_of(self, feature: int, threshold: Physical | None) -> int:
        """Return the `Split.bin` of a numeric split at a threshold, None for a split on missingness."""

    def best_splits(
        self, nodes: Sequence[int], totals: Sequence[Stats], penalties: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        """Return the best split of each node over its allowed features and all values, by one scan of each column."""


class FollowerEngine(Engine, Protocol):
    """An engine over held-out rows if bins change during the fit (``approx``, ``exact``): it splits by threshold.

    Its gradients and `node_quantiles` are never used.
    """

    def keep_columns(self, bins: Sequence[Bins]) -> None:
        """Keep the values of every column; ``bins`` of training define the categories."""


class RefitEngine(FollowerEngine, Protocol):
    """A `FollowerEngine` with gradients and `node_quantiles`, for new leaf values of old trees."""

    def node_sums(self, n_nodes: int) -> FloatArray:
        """Return the sums of g and of h over the rows in each node, and their number, float64 (3, nodes).

        The sums are not on a grid; rows without a gradient do not count (see `CountingEngine`).
        """


def parts_where(
    rows: Rows, aggregates: Mapping[str, Aggregate], is_wrong: Callable[[Mapping[str, float | None], int], bool]
) -> list[str]:
    """Return the names of the files or frames for which ``is_wrong`` is true of their aggregates and row count.

    Engines that know such parts have a method of this name.
    """
    ask = getattr(rows, "parts_where", None)
    return [] if ask is None else cast(list[str], ask(aggregates, is_wrong))


# --- does an engine have what its contract says? ----------------------------------------------------------------------


_checked: set[tuple[type, type]] = set()  # kinds of engines with a contract that they keep


def check_engine(engine: object, contract: type, name: str) -> None:
    """Raise `ParameterError` if an engine lacks a method of the contract, or one has other parameters."""
    if (type(engine), contract) in _checked:
        return
    what = f"engine {shown(name)} opened a {type(engine).__name__}"
    promised = f"{contract.__module__}.{contract.__name__}"
    members, of_instance = _members(contract), vars(engine) if hasattr(engine, "__dict__") else {}
    # No property is evaluated.
    if missing := sorted(name for name in members if name not in of_instance and not hasattr(type(engine), name)):
        raise ParameterError(f"{what}, which lacks {listed(missing)} of {promised}")
    for method, member in members.items():
        if not inspect.isfunction(member):  # a property
            continue
        expected = inspect.signature(member)
        expected = expected.replace(parameters=list(expected.parameters.values())[1:])  # without self
        try:
            has = inspect.signature(getattr(engine, method))
        except ValueError:  # a builtin without a signature
            continue
        if not _takes(has, expected):
            raise ParameterError(
                f"{what}, whose {method} takes {_names(has)}, not {_names(expected)} as {promised} says"
            )
    _checked.add((type(engine), contract))


def _members(contract: type) -> dict[str, Any]:
    """Return the methods and properties of a contract."""
    bases = reversed(contract.__mro__)  # a method that is defined again replaces that of the base
    return {name: each for base in bases for name, each in vars(base).items() if not name.startswith("_")}


def _takes(has: inspect.Signature, expected: inspect.Signature) -> bool:
    """Whether a function with one signature can be called with the other, by position and by name."""
    names = list(expected.parameters)
    needed = [name for name, each in expected.parameters.items() if each.default is each.empty]
    try:
        has.bind(*needed)
        by_position, by_name = has.bind(*names), has.bind(**dict(zip(names, names, strict=True)))
    except TypeError:
        return False
    takes_any = any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in has.parameters.values())
    return takes_any or by_position.arguments == by_name.arguments


def _names(signature: inspect.Signature) -> str:
    """Return a signature without its types."""
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


# --- leaves with slopes -----------------------------------------------------------------------------------------------


class LinearEngine(HistogramEngine, Protocol):
    """A `HistogramEngine` with the roles ``x_0``, ``x_1``, ... (see `linear_role`) for slopes of linear leaves.

    Rows of a leaf are here those with h > 0 and without missing values in its features.
    """

    def leaf_ranges(self, leaves: IntArray, features: IntArray) -> FloatArray:
        """Return for each output and leaf: the number of rows, the largest |g| and h, and the range of each feature.

        ``features`` is int64 (leaves, terms), -1 past a leaf's last one; the ranges are float64 (outputs, leaves, 3 + 2
        terms). A tree has one output, or all (`VectorEngine.start_vector_tree`).
        """

    def leaf_sums(self, grids: LinearColumns, offsets: FloatArray) -> FloatArray:
        """Return the sums of each leaf, float64 (outputs, leaves, terms + 2, terms + 1), indexed by `sum_indices`.

        With u_0 = 1, and u_1, u_2, ... the features on their grids (see `LinearTerm.on_grid`), entry (0, k) is Σ g u_k,
        and (1 + j, k) for k ≤ j is Σ h u_j u_k. ``offsets`` are those of g and of h, (outputs, leaves, 2)
        (see `frameboost.expressions.grid`): all numbers are on grids, so that no sum rounds.
        """

    def add_linear_leaves(self, values: Mapping[int, float], linear: LinearColumns, margin: str) -> None:
        """Do what `add_leaf_values` does; rows without missing values get the value of their linear leaf."""


def linear_role(feature: int | str) -> str:
    """Return the role of a feature for slopes; for ``""`` the prefix of these roles."""
    return f"x_{feature}"


def sum_indices(n_terms: int) -> list[tuple[int, int]]:
    """Return the indices of a leaf's sums in the result of `LinearEngine.leaf_sums`, first those of g.

    >>> sum_indices(1)
    [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]
    """
    return [(0, k) for k in range(n_terms + 1)] + [(1 + j, k) for j in range(n_terms + 1) for k in range(j + 1)]


# --- trees for all outputs at once ------------------------------------------------------------------------------------


class VectorEngine(HistogramEngine, Protocol):
    """A `HistogramEngine` that sums the gradients of all outputs over the same nodes.

    The splits passed to `apply_splits` have `Split.left_outputs`.
    """

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """Put all rows into node 0, with the gradients of every output; return the sums of each.

        All outputs share the row sample.
        """

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """Write the sums of g and h by output and bin of each node to ``out[index]``.

        ``out`` is float64 (histograms, outputs or more, slots, 2), contiguous.
        """


class LinearVectorEngine(LinearEngine, VectorEngine, Protocol):
    """A `VectorEngine` whose trees may have linear leaves, others for each output."""


# --- how an engine describes itself, so that it can be chosen and opened ----------------------------------------------


DataKind = Literal["frame", "relation", "partitions", "spark", "database"]


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """The rows to open an engine over, and the context of the fit.

    Attributes
    ----------
    source
        The user's data: `FrameSource` has a polars LazyFrame, `RelationSource` a DuckDB relation,
        `PartitionedSource` a Dask DataFrame, `SparkSource` one of Spark, and `DatabaseTable` is one of any database.
    features
        The columns to split on, in order.
    roles
        The other columns by role: ``label`` (or ``label_0``, ``label_1``, ...), ``weight``, ``qid``, ``upper``,
        ``base_margin``, ...
    parameters
        The parameters of the fit.
    workers
        The threads of the fit, shared by all of its engines.
    storage
        The storage of arrays as long as the rows.
    budget
        The remaining memory, shared by all engines of the fit.
    in_order
        Whether functions read the rows as arrays (`ArrayRows`), which requires the order of the data.
    name_tables
        A function that names tables that outlive a killed process (see
        `frameboost.training.checkpoint.Checkpoint.name_tables`); None without a checkpoint.
    """

    source: Source
    features: tuple[Feature, ...]
    roles: Mapping[str, str]
    parameters: Parameters
    workers: Workers
    storage: Storage = IN_MEMORY
    budget: MemoryBudget = field(default_factory=MemoryBudget)
    in_order: bool = False
    name_tables: Callable[[Callable[[str], None]], str] | None = None

    def columns(self) -> list[str]:
        """Return the names of the columns of the features and roles, each once."""
        return list(dict.fromkeys([*(f.name for f in self.features), *self.roles.values()]))

    def frame(self) -> pl.LazyFrame:
        """Return the columns of the features and roles as a lazy frame; a relation is read into memory."""
        return self.source.to_frame(self.columns())


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """The description of an engine, in the table of built-in engines or an entry point.

    Attributes
    ----------
    name
        The value of ``fit(engine=...)``.
    openers
        The contracts of `frameboost.engines.contract` that the engine satisfies, each with a function that opens such
        an engine over rows. Each tree method needs one contract, so the keys determine the supported tree methods.
    data
        The kinds of data that the engine supports. The first is read in place, without a copy.
    threads_set_by
        The setting for the number of threads, for the error message if ``n_jobs`` has no effect; empty for an engine
        that runs on `EngineRequest.workers`.
    uses_storage
        Whether its arrays are in `EngineRequest.storage`, so that they may exceed memory.
    summary
        A short description of its computation.
    runs_queries
        Whether it sums by queries, so that small data is read into memory instead (see
        `frameboost.engines.query_costs`).
    has_arrays
        Whether its training and held-out rows are `ArrayRows`.
    """

    name: str
    openers: Mapping[type[Any], Callable[[EngineRequest], Any]]
    data: tuple[DataKind, ...] = ("frame", "relation")
    threads_set_by: str = ""
    uses_storage: bool = False
    runs_queries: bool = False
    summary: str = ""
    has_arrays: bool = False

    def check_arrays(self, what: str) -> None:
        """Raise `ParameterError` if array functions are unsupported; ``what`` is the function's name in the message."""
        if not self.has_arrays:
            raise ParameterError(
                f"{what} is a Python function, which engine {shown(self.name)} can't call where the rows are; use an "
                "engine of this machine, such as 'numba', or write it as SQL: fb.Objective(gradient=..., hessian=...), "
                "fb.Metric(name, sql)"
            )


def data_kind(source: Source) -> DataKind:
    """Return the kind of data of a source."""
    if isinstance(source, PartitionedSource):
        return "partitions"
    if isinstance(source, SparkSource):
        return "spark"
    if isinstance(source, DatabaseTable):
        return "database"
    return "relation" if isinstance(source, RelationSource) else "frame"
