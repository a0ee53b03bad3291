"""Kernels over sparse codes: histograms, and entries put in order by row.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.gradient_kernels import gh_totals
from frameboost.engines.memory.histogram_kernels import clearing
from frameboost.runtime.intrinsics import AHEAD, add_pair, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = [
    "MAX_COMBINATIONS", "add_entries", "add_entries_in_order", "combine_codes", "complete_histograms",
    "gather_entries", "write_entries",
]  # fmt: skip

_ONE = np.uint64(1)
# Rows whose entries follow those of the row in hand closely enough to prefetch them.
_NEAR = AHEAD >> _ONE
# Combinations of a bundle. Twice as many make few more bundles of one, and histograms that no level 1 cache holds.
MAX_COMBINATIONS = 128


@kernel
def _add_share(  # type: ignore[no-untyped-def]
    starts, entries, rows, parts, firsts, gradients, total, histograms, indices, more, share
):
    gh = gradients.ravel()
    before = parts[firsts[share] - 1, 0] if share > 0 else -1
    for part in range(firsts[share], firsts[share + 1]):
        node, first, last = parts[part, 0], parts[part, 1], parts[part, 2]
        histogram = (more[share - 1] if node == before else histograms[indices[node]]).ravel()
        stop = np.uint64(last)
        all_g, all_h = 0.0, 0.0
        for i in range(np.uint64(first), stop):
            if i + AHEAD < stop:
                later = np.uint64(rows[i + AHEAD])
                prefetch(starts, later)
                prefetch(gh, later << _ONE)
                prefetch(entries, np.uint64(starts[np.uint64(rows[i + _NEAR])]))
            row = np.uint64(rows[i])
            g, h = gh[row << _ONE], gh[(row << _ONE) + _ONE]
            all_g += g
            all_h += h
            for k in range(np.uint64(starts[row]), np.uint64(starts[row + _ONE])):
                add_pair(histogram, np.uint64(entries[k]) << _ONE, g, h)
        add_pair(histogram, np.uint64(total) << _ONE, all_g, all_h)


_adding = outlined(_add_share)


@kernel
def _add_share_in_order(  # type: ignore[no-untyped-def]
    starts, steps, entries, parts, firsts, gradients, total, histograms, indices, more, share
):
    gh = gradients.ravel()
    histogram = (more[share - 1] if share > 0 else histograms[indices[0]]).ravel()
    for part in range(firsts[share], firsts[share + 1]):
        first, last = parts[part, 1], parts[part, 2]
        all_g, all_h = gh_totals(gradients[first:last], last - first)
        add_pair(histogram, np.uint64(total) << _ONE, all_g, all_h)
        k, stop = np.uint64(starts[first]), np.uint64(starts[last])
        if k == stop:
            continue
        row = np.uint64(first)
        while np.uint64(starts[row + _ONE]) == k:
            row += _ONE
        row -= np.uint64(steps[k])
        for entry in range(k, stop):
            row += np.uint64(steps[entry])
            at = row << _ONE
            add_pair(histogram, np.uint64(entries[entry]) << _ONE, gh[at], gh[at + _ONE])


_adding_in_order = outlined(_add_share_in_order)


@kernel
def add_entries_in_order(  # type: ignore[no-untyped-def]
    team, starts, steps, entries, parts, firsts, gradients, total, histograms, indices, more, is_first
):
    """Do what `add_entries` does for all rows, in order, as the rows of one node.

    One loop over all entries takes a third of the time: the end of a loop over the few entries of one row can't be
    predicted. Rows without entries are skipped.

    Parameters
    ----------
    steps
        unsigned (entries,): how many rows an entry's row comes after that of the entry before, or after row 0.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    values = starts, steps, entries, parts, firsts, gradients, total, histograms, indices, more
    share_out(team, _adding_in_order(values), len(firsts) - 1)


@kernel
def add_entries(  # type: ignore[no-untyped-def]
    team, starts, entries, rows, parts, firsts, gradients, total, histograms, indices, more, is_first
):
    """Add each row's gradient pair to the slots of its entries in its node's histogram, and to the slot ``total``.

    Parameters
    ----------
    team, rows, parts, firsts, gradients, histograms, places, more, is_first
        As for `frameboost.engines.memory.histogram_kernels.build_histograms`.
    starts, entries
        The entries (see `frameboost.engines.memory.sparse.codes.SparseCodes`).
    total
        The slot that all rows of the node are added to: it belongs to a code that has no entries.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    share_out(
        team,
        _adding((starts, entries, rows, parts, firsts, gradients, total, histograms, indices, more)),
        len(firsts) - 1,
    )


@kernel
def _complete_one(histograms, indices, firsts, stops, common, item):  # type: ignore[no-untyped-def]
    histogram = histograms[indices[item]]
    all_g, all_h = histogram[common[0], 0], histogram[common[0], 1]
    for k in range(len(common)):
        g, h = 0.0, 0.0
        for slot in range(firsts[k], stops[k]):
            if slot != common[k]:
                g += histogram[slot, 0]
                h += histogram[slot, 1]
        histogram[common[k], 0], histogram[common[k], 1] = all_g - g, all_h - h


_completing = outlined(_complete_one)


@kernel
def complete_histograms(team, histograms, indices, firsts, stops, common):  # type: ignore[no-untyped-def]
    """Write the sums of the codes without entries: those of all rows, in the slot ``common[0]``, less all others.

    Say a feature's slots are 3 to 5, of which 4 is the common one, and g sums to 7 over all rows. The sums 2, 7, 1
    become 2, 4, 1.

    Parameters
    ----------
    team
        The threads.
    histograms, indices
        float64 (histograms, slots, 2), and int64 (nodes,): the place of each node.
    firsts, stops, common
        int64 (sparse features,): the slots of each, and the one without entries.
    """
    share_out(team, _completing((histograms, indices, firsts, stops, common)), len(indices))


@kernel
def write_entries(rows, codes, slot, first, free, entries):  # type: ignore[no-untyped-def]
    """Write the entries of one feature.

    Parameters
    ----------
    rows, codes
        uint32 and unsigned (entries,): its codes in some rows.
    slot
        Its first slot.
    first, free
        The first row, and unsigned (rows,): where the next entry of each row from there on goes. 1 is added for each
        entry.
    entries
        unsigned, written: slots.
    """
    for i in range(len(rows)):
        row = rows[i] - first
        entries[free[row]] = slot + codes[i]
        free[row] += 1


@kernel
def gather_entries(starts, entries, order, new_starts, out, first, last):  # type: ignore[no-untyped-def]
    """Copy the entries of the rows ``order[first:last]`` (uint32) to ``out``, from ``new_starts[first]`` on."""
    at = np.uint64(new_starts[first])
    for i in range(np.uint64(first), np.uint64(last)):
        row = np.uint64(order[i])
        for k in range(np.uint64(starts[row]), np.uint64(starts[row + _ONE])):
            out[at] = entries[k]
            at += _ONE


@kernel
def combine_codes(rows, codes, n_codes, combined, n_combinations, found):  # type: ignore[no-untyped-def]
    """Add a feature to a bundle (see `frameboost.engines.memory.sparse.exclusive_bundles`) if that is possible.

    Combinations are numbered from 0; new ones are numbered as they are found.

    Parameters
    ----------
    rows, codes
        uint32 and unsigned (entries,): the feature's codes in the rows that have an entry.
    n_codes
        One more than the largest code.
    combined
        uint8 (rows,): each row's combination of the other features' codes; changed to that of this feature's as well.
    n_combinations
        How many there are.
    found
        uint16 (`MAX_COMBINATIONS` * n_codes,), written, 0 before: the combination of a combination and a code, 0 if
        no row has both.

    Returns
    -------
    Whether there are at most `MAX_COMBINATIONS`; nothing in ``combined`` is changed if not.
    """
    for i in range(len(rows)):
        gh = combined[rows[i]] * n_codes + codes[i]
        if found[gh] == 0:
            if n_combinations == MAX_COMBINATIONS:
                return False
            found[gh] = n_combinations
            n_combinations += 1
    for i in range(len(rows)):
        combined[rows[i]] = found[combined[rows[i]] * n_codes + codes[i]]
    return True
