"""Kernel for histogram subtraction: the sibling's histogram is the parent's minus the child's.

The sums are on the exact grid (see `frameboost.expressions.grid`), so the difference is exact, too.
"""

from __future__ import annotations

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["subtract_from_parents", "subtract_slots"]


@kernel(inline="always")
def subtract_slots(histograms, indices, parents, item, slots):  # type: ignore[no-untyped-def]
    """Do what `subtract_from_parents` does for one child, in a slice of its sums in a row: g and h of a slot, ..."""
    if parents[item] >= 0:
        own, parent = histograms[indices[item]].ravel()[slots], histograms[parents[item]].ravel()[slots]
        for i in range(len(own)):
            parent[i] -= own[i]


@kernel
def _subtract_one(histograms, indices, parents, item):  # type: ignore[no-untyped-def]
    subtract_slots(histograms, indices, parents, item, slice(0, 2 * histograms.shape[1]))


_subtracting = outlined(_subtract_one)


@kernel
def subtract_from_parents(team, histograms, indices, parents):  # type: ignore[no-untyped-def]
    """Turn the histograms of parents into those of the other child, in place.

    Parameters
    ----------
    team
        The threads that share the work (see `frameboost.runtime.team_kernels`).
    histograms
        float64 (histograms, slots, 2): sums of g and h.
    indices, parents
        int64 (nodes,): the index of each child's histogram, and of its parent's; -1 to leave the parent's alone.
    """
    share_out(team, _subtracting((histograms, indices, parents)), len(indices))
