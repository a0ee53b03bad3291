"""The calls that bring a new shard to where a lost one was.

A shard's state is its codes, its margins, its gradients and the node of each row. Of the calls so far, those are kept
that this state depends on: reads are left out, of what is stored anew in each round only the last call stays, and of a
grown tree only its splits and leaf values. Calls of two rounds, and what is kept of them:

============================  ==============
``bin_columns(bins)``         kept
``start_margins(...)``        kept
``compute_gradients_on(…)``   replaced below
``start_tree(0)``             ``reset_nodes()``
``node_histograms(…)``        a read
``apply_splits(…)``           kept
``add_leaf_values(…)``        kept
``compute_gradients_on(…)``   kept
``start_tree(0)``             kept
============================  ==============
"""

from __future__ import annotations

from collections.abc import Iterable

from frameboost.engines.shards.pool import Call

__all__ = ["ReplayLog"]

_READS = frozenset({
    "count_rows", "aggregate", "count_missing", "all_categories", "values_within", "node_histograms",
    "weights_up_to",
})  # fmt: skip
_QUANTILES = frozenset({"start_quantiles", "values_in_nodes"})
_TABLES = frozenset({"start_queries", "start_scores", "divide"})
# The earlier calls that a call makes obsolete.
_OBSOLETE = {
    "summaries": frozenset({"summaries"}),
    "sum_pairs": frozenset({"sum_pairs"}),
    "compute_gradients_on": frozenset({"compute_gradients_on", *_QUANTILES, *_TABLES}),
    "start_tree": _QUANTILES,
    "reset_nodes": _QUANTILES,
    "start_quantiles": _QUANTILES,
    "start_scores": _TABLES,
    "bin_columns": frozenset({"summaries", "start_queries", "divide"}),
}
_END_OF_TREE = frozenset({"compute_gradients_on", "start_tree", "reset_nodes"})


_REPLACEABLE = frozenset().union(*_OBSOLETE.values())


class ReplayLog:
    """The calls of one shard that must be repeated if it is lost."""

    def __init__(self) -> None:
        self._settled: list[Call] = []  # of the rounds before, which no later call changes
        self._calls: list[Call] = []

    def add(self, calls: Iterable[Call]) -> None:
        """Add calls that the shard has carried out."""
        for call in calls:
            if call.method in _READS:
                continue
            obsolete = _OBSOLETE.get(call.method, frozenset())
            self._calls = [other for other in self._calls if other.method not in obsolete]
            if call.method in _END_OF_TREE:  # the trees before are grown: no gradients are needed to follow them
                self._calls = [Call("reset_nodes") if each.method == "start_tree" else each for each in self._calls]
            if call.method == "compute_gradients_on":
                self._settled += [each for each in self._calls if each.method not in _REPLACEABLE]
                self._calls = [each for each in self._calls if each.method in _REPLACEABLE]
            self._calls.append(call)

    def calls(self) -> list[Call]:
        """Return the calls to repeat, in order."""
        return [*self._settled, *self._calls]
