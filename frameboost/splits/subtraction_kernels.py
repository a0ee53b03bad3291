"""Kernel for histogram subtraction: the sibling's histogram is the parent's minus the child's.

The sums are on the exact grid (see `frameboost.expressions.grid`), so the difference is exact, too.
"""

from __future__ import annotations

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["subtract_from_parents", "subtract_one"]


@kernel(inline="always")
def subtract_one(histograms, places, parents, item):  # type: ignore[no-untyped-def]
    """Do what `subtract_from_parents` does, for one child."""
    if parents[item] >= 0:
        own, parent = histograms[places[item]].ravel(), histograms[parents[item]].ravel()
        for slot in range(len(own)):
            parent[slot] -= own[slot]


_subtracting = outlined(subtract_one)


@kernel
def subtract_from_parents(team, histograms, places, parents):  # type: ignore[no-untyped-def]
    """Turn the histograms of parents into those of the other child, in place.

    Parameters
    ----------
    team
        The threads that share the work (see `frameboost.runtime.team_kernels`).
    histograms
        float64 (places, slots, 2): sums of g and h.
    places, parents
        int64 (nodes,): the index of each child's histogram, and of its parent's; -1 to leave the parent's alone.
    """
    share_out(team, _subtracting((histograms, places, parents)), len(places))
