"""The tree methods: the engine's protocol that each needs, and its search for splits.

To add a tree method, write a row of ``_TREE_METHODS``, and the name to the parameter. If no contract of
`frameboost.engines.contract` fits, add one, and an opener to the engines that satisfy it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.thresholds import with_thresholds
from frameboost.engines.contract import (
    ColumnBlockEngine,
    FollowerEngine,
    HistogramEngine,
    NodeBinningEngine,
    RebinningEngine,
)
from frameboost.engines.linear_contract import LinearEngine
from frameboost.engines.vector_contract import VectorEngine
from frameboost.errors import ParameterError
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature
from frameboost.training.approx_splitters import GlobalSplitter, LocalSplitter
from frameboost.training.data_checks import numbers_of_leaves
from frameboost.training.exact import ExactSplitter, GammaPruner
from frameboost.training.splitter import HistogramSplitter, SplitSearch, SplitSettings
from frameboost.training.symmetric_splitter import SymmetricSplitter
from frameboost.training.vector_trees import VectorSplitter

__all__ = ["Binning", "TreeMethod", "choose_tree_method"]


@dataclass(frozen=True, slots=True)
class Binning:
    """How columns are binned: the most bins of a feature, and the bins of the user's ``cuts``, by feature."""

    max_bin: int
    given_bins: Mapping[int, Bins]


@dataclass(frozen=True, slots=True)
class TreeMethod:
    """A way to propose and find splits, over engines that satisfy its contracts.

    Attributes
    ----------
    setting, summary
        The parameters that choose it, for error messages, and where its splits are.
    contract, held_out_contract
        The contracts that it needs of the engines over training rows and held-out rows.
    prepare
        Has the engines over training rows and held-out rows bin or sort their columns, and returns the split search
        over them.
    cuts_refusal
        Why the user's ``cuts`` have no effect; empty where they have.
    """

    setting: str
    summary: str
    contract: type[Any]
    prepare: Callable[[Any, Sequence[Any], Binning, SplitSettings], SplitSearch]
    held_out_contract: type[Any] = FollowerEngine
    cuts_refusal: str = ""

    def check_cuts(self, cuts: object) -> None:
        """Raise `ParameterError` if the user passes cuts that would have no effect."""
        if cuts is not None and self.cuts_refusal:
            raise ParameterError(f"cuts do not go with {self.setting}, {self.cuts_refusal}")

    def roles(self, roles: Mapping[str, str], features: Sequence[Feature]) -> dict[str, str]:
        """Return the columns by role that the engines read besides the features."""
        return {**roles, **(numbers_of_leaves(features) if self.contract is LinearEngine else {})}


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
    if settings.n_outputs == 1:
        return _by_node(training, held_out, binning, settings)
    bins = _binned(training, held_out, binning)
    # A node that is too light to be split in one output may be split in another.
    return SplitSearch(VectorSplitter(training, SlotLayout(bins), settings), bins, needs_whole_levels=True)


def _binned(training: HistogramEngine, held_out: Sequence[HistogramEngine], binning: Binning) -> list[Bins]:
    """Have the engines store the codes of their columns, and return the bins of the training rows."""
    bins = with_thresholds(training.propose_bins(binning.max_bin, binning.given_bins))
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
    """Have the engines over held-out rows keep their columns as values, and return the bins."""
    for engine in held_out:
        engine.keep_columns(bins)
    return bins


# --- the choice -------------------------------------------------------------------------------------------------------

_BINS = "between bins, from histograms of G and H"
_LEVELS = f"{_BINS}, one for each level"
_VECTOR = TreeMethod(
    "multi_strategy='multi_output_tree'", f"{_BINS} of all outputs", VectorEngine, _for_all_outputs, VectorEngine
)
_LINEAR = "linear_tree=True"
# By tree_method, grow_policy, proposal and linear_tree; None is any value.
_TREE_METHODS: tuple[tuple[str, str | None, str | None, bool, TreeMethod], ...] = (
    ("hist", "symmetric", None, True, TreeMethod(_LINEAR, _LEVELS, LinearEngine, _by_level, LinearEngine)),
    ("hist", None, None, True, TreeMethod(_LINEAR, _BINS, LinearEngine, _by_node, LinearEngine)),
    ("hist", "symmetric", None, False,
     TreeMethod("grow_policy='symmetric'", _LEVELS, HistogramEngine, _by_level, HistogramEngine)),
    ("hist", None, None, False, TreeMethod("tree_method='hist'", _BINS, HistogramEngine, _by_node, HistogramEngine)),
    ("exact", None, None, False,
     TreeMethod("tree_method='exact'", "between any two values, by scans of sorted columns", ColumnBlockEngine, _exact,
                cuts_refusal="which splits between any two values")),
    ("approx", None, "global", False,
     TreeMethod("tree_method='approx'", "between bins proposed for each tree", RebinningEngine, _approx_global,
                cuts_refusal="which finds its own for each tree")),
    ("approx", None, "local", False,
     TreeMethod("tree_method='approx' and proposal='local'", "between bins proposed in each node", NodeBinningEngine,
                _approx_local, cuts_refusal="which finds its own in each node")),
)  # fmt: skip


def choose_tree_method(parameters: Parameters) -> TreeMethod:
    """Return the tree method of the parameters."""
    if parameters.multi_strategy == "multi_output_tree":
        return _VECTOR
    values = (parameters.tree_method, parameters.grow_policy, parameters.proposal, parameters.linear_tree)
    for *pattern, method in _TREE_METHODS:
        if all(each in (None, value) for each, value in zip(pattern, values, strict=True)):
            return method
    raise AssertionError(values)
