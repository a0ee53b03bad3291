"""The tree methods: what each asks of the engines, and how it finds splits.

To add a tree method, write its class here, add a line to ``_TREE_METHODS``, and the name to the parameter. If no
contract of `frameboost.engines.contract` fits, add one, and an opener to the engines that satisfy it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.thresholds import with_thresholds
from frameboost.engines.choose import open_engine
from frameboost.engines.contract import (
    ColumnBlockEngine,
    Engine,
    FollowerEngine,
    HistogramEngine,
    NodeBinningEngine,
    RebinningEngine,
)
from frameboost.engines.description import EngineDescription, EngineRequest
from frameboost.engines.linear_contract import LinearEngine
from frameboost.engines.vector_contract import VectorEngine
from frameboost.errors import ParameterError
from frameboost.parameters.parameters import Parameters
from frameboost.schema.feature import Feature
from frameboost.training.approx_splitters import GlobalSplitter, LocalSplitter
from frameboost.training.data_checks import numbers_of_leaves
from frameboost.training.pruning import Pruner
from frameboost.training.splitter import ExactSplitter, HistogramSplitter, SplitSearch, SplitSettings
from frameboost.training.symmetric_splitter import SymmetricSplitter
from frameboost.training.vector_splitter import VectorSplitter

__all__ = ["Binning", "TreeMethod", "choose_tree_method"]

TrainingT = TypeVar("TrainingT", bound=Engine)
HeldOutT = TypeVar("HeldOutT", bound=Engine)


@dataclass(frozen=True, slots=True)
class Binning:
    """How columns are binned: the most bins of a feature, and the bins that the user's ``cuts`` give, by feature."""

    max_bin: int
    given: Mapping[int, Bins]


class TreeMethod(ABC, Generic[TrainingT, HeldOutT]):
    """A way to propose and find splits, over engines that satisfy its contracts.

    Attributes
    ----------
    setting
        The parameters that choose it, for error messages.
    contract, held_out_contract
        The contracts that it needs of the engines over training rows and held-out rows.
    cuts_refusal
        Why the user's ``cuts`` have no effect; empty where they have.
    """

    setting: ClassVar[str]
    contract: ClassVar[type[Any]]
    held_out_contract: ClassVar[type[Any]] = FollowerEngine
    cuts_refusal: ClassVar[str] = ""

    def check_cuts(self, cuts: object) -> None:
        """Raise `ParameterError` if the user gives cuts that would have no effect."""
        if cuts is not None and self.cuts_refusal:
            raise ParameterError(f"cuts do not go with {self.setting}, {self.cuts_refusal}")

    def roles(self, roles: Mapping[str, str], features: Sequence[Feature]) -> dict[str, str]:
        """Return the columns by role that the engines read besides the features."""
        return {**roles, **(numbers_of_leaves(features) if self.contract is LinearEngine else {})}

    def open_training(self, engine: EngineDescription, request: EngineRequest) -> TrainingT:
        """Open an engine over training rows."""
        opened: TrainingT = open_engine(engine, self.contract, request)
        return opened

    def open_held_out(self, engine: EngineDescription, request: EngineRequest) -> HeldOutT:
        """Open an engine over held-out rows."""
        opened: HeldOutT = open_engine(engine, self.held_out_contract, request)
        return opened

    @abstractmethod
    def prepare(
        self, training: TrainingT, held_out: Sequence[HeldOutT], binning: Binning, settings: SplitSettings
    ) -> SplitSearch:
        """Have the engines bin or sort their columns, and return the split search over them."""


class HistMethod(TreeMethod[HistogramEngine, HistogramEngine]):
    """Bins at quantiles, once a fit; splits between bins, from histograms."""

    setting = "tree_method='hist'"
    contract = HistogramEngine
    held_out_contract = HistogramEngine

    def prepare(
        self, training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning, settings: SplitSettings
    ) -> SplitSearch:
        """See `TreeMethod.prepare`."""
        bins = _binned(training, held_out, binning)
        return SplitSearch(HistogramSplitter(training, SlotLayout(bins), settings), bins)


class SymmetricMethod(HistMethod):
    """Bins as of `HistMethod`; one split for all nodes of a level."""

    setting = "grow_policy='symmetric'"

    def prepare(
        self, training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning, settings: SplitSettings
    ) -> SplitSearch:
        """See `TreeMethod.prepare`."""
        bins = _binned(training, held_out, binning)
        return SplitSearch(SymmetricSplitter(training, SlotLayout(bins), settings), bins, needs_whole_levels=True)


class LinearMethod(HistMethod):
    """`HistMethod` over engines that sum products of features, for slopes of the leaves."""

    setting = "linear_tree=True"
    contract = LinearEngine
    held_out_contract = LinearEngine


class LinearSymmetricMethod(SymmetricMethod):
    """`SymmetricMethod` over such engines."""

    setting = "linear_tree=True"
    contract = LinearEngine
    held_out_contract = LinearEngine


class VectorMethod(HistMethod):
    """`HistMethod` over engines that sum the gradients of all outputs, for one growth of them all in a round."""

    setting = "multi_strategy='multi_output_tree'"
    contract = VectorEngine
    held_out_contract = VectorEngine

    def prepare(
        self, training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning, settings: SplitSettings
    ) -> SplitSearch:
        """See `TreeMethod.prepare`."""
        if settings.n_outputs == 1:
            return super().prepare(training, held_out, binning, settings)
        bins = _binned(training, held_out, binning)
        splitter = VectorSplitter(cast(VectorEngine, training), SlotLayout(bins), settings)
        # A node that is too light to be split in one output may be split in another.
        return SplitSearch(splitter, bins, needs_whole_levels=True)


class ExactMethod(TreeMethod[ColumnBlockEngine, FollowerEngine]):
    """Columns sorted once a fit; a split between any two values; weak splits pruned from the grown tree."""

    setting = "tree_method='exact'"
    contract = ColumnBlockEngine
    cuts_refusal = "which splits between any two values"

    def prepare(
        self, training: ColumnBlockEngine, held_out: Sequence[FollowerEngine], binning: Binning, settings: SplitSettings
    ) -> SplitSearch:
        """See `TreeMethod.prepare`."""
        bins = _kept(training.presort(), held_out)
        return SplitSearch(ExactSplitter(training, settings), bins, Pruner(training, settings.gamma))


class GlobalApproxMethod(TreeMethod[RebinningEngine, FollowerEngine]):
    """Bins at quantiles weighted by the hessians, once a tree."""

    setting = "tree_method='approx'"
    contract = RebinningEngine
    cuts_refusal = "which finds its own for each tree"

    def prepare(
        self, training: RebinningEngine, held_out: Sequence[FollowerEngine], binning: Binning, settings: SplitSettings
    ) -> SplitSearch:
        """See `TreeMethod.prepare`."""
        bins = _kept(training.load_columns(), held_out)
        return SplitSearch(GlobalSplitter(training, binning.max_bin, settings), bins)


class LocalApproxMethod(TreeMethod[NodeBinningEngine, FollowerEngine]):
    """Bins at quantiles weighted by the hessians, in each node."""

    setting = "tree_method='approx' and proposal='local'"
    contract = NodeBinningEngine
    cuts_refusal = "which finds its own in each node"

    def prepare(
        self, training: NodeBinningEngine, held_out: Sequence[FollowerEngine], binning: Binning, settings: SplitSettings
    ) -> SplitSearch:
        """See `TreeMethod.prepare`."""
        bins = _kept(training.load_columns(), held_out)
        return SplitSearch(LocalSplitter(training, bins, binning.max_bin, settings), bins)


# By tree_method, grow_policy, proposal and linear_tree; None is any value.
_TREE_METHODS: tuple[tuple[str, str | None, str | None, bool, TreeMethod[Any, Any]], ...] = (
    ("hist", "symmetric", None, True, LinearSymmetricMethod()),
    ("hist", None, None, True, LinearMethod()),
    ("hist", "symmetric", None, False, SymmetricMethod()),
    ("hist", None, None, False, HistMethod()),
    ("exact", None, None, False, ExactMethod()),
    ("approx", None, "global", False, GlobalApproxMethod()),
    ("approx", None, "local", False, LocalApproxMethod()),
)


def choose_tree_method(parameters: Parameters) -> TreeMethod[Any, Any]:
    """Return the tree method that the parameters ask for."""
    if parameters.multi_strategy == "multi_output_tree":
        return VectorMethod()
    given = (parameters.tree_method, parameters.grow_policy, parameters.proposal, parameters.linear_tree)
    for *wanted, method in _TREE_METHODS:
        if all(each in (None, value) for each, value in zip(wanted, given, strict=True)):
            return method
    raise AssertionError(given)


def _binned(training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning) -> list[Bins]:
    """Have the engines store the codes of their columns, and return the bins of the training rows."""
    bins = with_thresholds(training.propose_bins(binning.max_bin, binning.given))
    training.bin_columns(bins)
    for engine in held_out:
        # Held-out rows may lack a value that no training row lacks.
        engine.bin_columns([replace(b, has_missing=True) for b in bins])
    return bins


def _kept(bins: list[Bins], held_out: Sequence[FollowerEngine]) -> list[Bins]:
    """Have the engines over held-out rows keep their columns as values, and return the bins."""
    for engine in held_out:
        engine.keep_columns(bins)
    return bins
