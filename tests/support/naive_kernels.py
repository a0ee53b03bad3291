"""A plain twin of each kernel: the same computation as loops over rows, without threads, blocks or bit tricks.

``naive_x`` is the twin of the kernel ``x`` and returns what the kernel returns or writes. Tests run both on the same
random arrays. Where sums are compared, the numbers are small dyadic fractions, so that sums are exact in any order.
"""

from __future__ import annotations

import math
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

__all__ = [
    "TESTED_OTHERWISE", "naive_add_leaves", "naive_add_more", "naive_build_histograms", "naive_code_buffers",
    "naive_find_splits", "naive_pieces_of", "naive_put_gh", "naive_round_gh", "naive_scan_histograms",
    "naive_scan_numbers", "naive_share_pieces", "naive_sum_pairs",
]  # fmt: skip

# Kernels without a twin here, and the test that fails if they are wrong: it works their results out in another way, or
# those of what calls them.
TESTED_OTHERWISE = {
    kernel: f"tests/{file}.py"
    for file, kernels in {
        "binning/test_binning": "bin_values take_codes",  # numpy.searchsorted
        "binning/test_cell_cuts": "count_cells rows_of_cells write_cells",  # numpy.bincount
        "compile/test_agreement": "find_leaves is_named sum_leaves",  # tests.support.random_models
        "compile/test_batch_scorer": "arrow_buffers",  # predictions of frames of any chunks
        "compile/test_byte_trees": "add_deep_leaves",  # tests.support.random_models
        "compile/test_few_rows": "add_leaves_of_numbers",  # tests.support.random_models
        "compile/test_linear_contributions": "add_slopes",  # by definition
        "compile/test_linear_leaves": "sum_linear_leaves",
        "engines/duckdb/test_star": "add_codes_of_keys add_sums_of_keys",  # trees of the joined frame
        "engines/external_memory/test_engine": "group_rows move_to_children",  # polars, and rows in memory
        "engines/memory/test_bundled_codes": "add_by_feature",
        "engines/memory/test_exact_sums": "take_order write_keys pack_scores sum_by_step",
        "engines/memory/test_kernels": "add_rows build_share shares_of",
        "engines/memory/test_nodes": "cut_parts move_pieces number_rows part_rows part_share",  # rows by their splits
        "engines/memory/test_score_kernels": "group_keys",  # numpy.sort
        "engines/memory/test_sparse_codes": "add_entries add_entries_in_order gh_totals combine_codes "
        "complete_histograms gather_entries write_entries",  # dense codes
        "engines/memory/test_star": "add_packed_by_key write_numbers compute_numbers add_by_key look_up count_rows "
        "order_by_key take_sides write_records",  # numpy.add.at, and trees of the joined frame
        "engines/memory/test_trees": "add_by_node add_by_side add_grown_leaves add_tree fill_named fill_opposite "
        "fill_side fill_sides grow_tree grow_vector_tree part_drawn "
        "search_level",  # trees grown level by level, and in one call
        "engines/test_programs": "exponentials logarithms compute_gh compute_rows compute_shares compute_to "
        "exp_of log_of",
        "engines/test_same_trees": "take_rows",  # engines of queries
        "model/test_calibration": "pool_adjacent_violators",  # scikit-learn's isotonic regression
        "model/test_explain": "add_interactions add_shap add_steps link_nodes",  # tests.support.naive_shap
        "runtime/test_team": "do_alone serve share_out",  # every item is counted
        "splits/test_categories": "bounded_smoothing category_histogram category_room ends_by_weight named_categories "
        "present_categories scan_categories smoothing_of sort_codes",  # all subsets of the categories, and a full sort
        "splits/test_gain": "leaf_score leaf_weight",  # the objective, minimised by brute force
        "splits/test_kernels": "best_of_sums best_score keep_split split_gain",
        "splits/test_scans": "category_candidates scan_bounded_numbers",  # by hand, and `scan_numbers`
        "splits/test_splitting": "subtract_from_parents subtract_slots",  # sums over the rows
        "splits/test_vector_kernels": "find_vector_splits gain_of_output gains_of_outputs named_by_outputs "
        "scan_outputs",
        "training/test_approx": "bin_nodes sum_below",  # cuts by the definition
        "training/test_constraints": "bounded_gain bounded_score bounded_weight bounded_weights fill_block move_rows "
        "part_block scan_column split_score",  # a plain twin of trees
        "training/test_least_rows": "mark_rows refuse_few_rows refuse_small_sets",  # a plain twin of trees
        "training/test_linear_leaves": "add_linear grids_of_leaves paths_of_leaves range_leaves slopes_of_outputs "
        "solve_slopes sum_leaves_on_grids",  # ridge regressions, and other engines
        "training/test_sampling": "draw_gh hash_of keep_drawn",  # hash32 and sorted
        "training/test_symmetric": "scan_level",  # all splits of a level
    }.items()
    for kernel in kernels.split()
}

Piece = list[int]  # [node, start, stop]: a range of a node's rows


# --- frameboost.engines.memory.terms ----------------------------------------------------------------------------------


def naive_put_gh(g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    return np.stack([g, h], axis=1), (np.nanmax(np.abs(g)), np.nanmax(np.abs(h)))


def naive_round_gh(pairs: np.ndarray, steps_g: float, steps_h: float) -> tuple[np.ndarray, tuple[float, float]]:
    """Return the pairs rounded to multiples of ``1 / steps``, and their sums."""
    steps = np.array([steps_g, steps_h])
    rounded = np.round(pairs * steps) / steps
    return rounded, tuple(rounded.sum(axis=0))


# --- frameboost.engines.memory.histograms -----------------------------------------------------------------------------


def naive_build_histograms(
    codes: np.ndarray, rows: np.ndarray, pieces: list[Piece], pairs: np.ndarray, slots: np.ndarray,
    histograms: np.ndarray, places: list[int], *, is_first: bool,
) -> np.ndarray:  # fmt: skip
    """Return the histograms with the pairs of all rows added; with ``is_first`` those of the nodes start at 0."""
    out = histograms.copy()
    if is_first:
        out[places] = 0.0
    for node, start, stop in pieces:
        for row in rows[start:stop]:
            for feature, slot in enumerate(slots):
                out[places[node], slot + codes[row, feature]] += pairs[row]
    return out


def naive_add_more(
    parts: list[Piece], firsts: list[int], more: np.ndarray, histograms: np.ndarray, places: list[int]
) -> np.ndarray:
    """Return the histograms with ``more[share - 1]`` added if a share begins in the node where the last one ended."""
    out = histograms.copy()
    for share, (first, stop) in enumerate(pairwise(firsts)):
        if share and first < stop and parts[first][0] == parts[first - 1][0]:
            out[places[parts[first][0]]] += more[share - 1]
    return out


# --- frameboost.engines.memory.partition ------------------------------------------------------------------------------


def naive_pieces_of(nodes: list[int], pieces: list[Piece]) -> list[Piece]:
    return [[i, start, stop] for i, node in enumerate(nodes) for of, start, stop in pieces if of == node]


def naive_share_pieces(pieces: list[Piece], most: int, smallest: int) -> tuple[list[Piece], list[int]]:
    rows = [(piece, row) for piece, (_, start, stop) in enumerate(pieces) for row in range(start, stop)]
    count = max(1, min(most, len(rows) // max(smallest, 1)))
    parts: list[Piece] = []
    firsts = [0]
    for share in range(count):
        own = rows[len(rows) * share // count : len(rows) * (share + 1) // count]
        for piece, group in groupby(own, key=itemgetter(0)):
            numbers = [row for _, row in group]
            parts.append([pieces[piece][0], numbers[0], numbers[-1] + 1])
        firsts.append(len(parts))
    return parts, firsts


# --- frameboost.engines.ranking.pairs ---------------------------------------------------------------------------------


def naive_sum_pairs(
    labels: list[float], margins: list[float], change: str, truncation: int, *, by_difference: bool
) -> list[list[float]]:
    """Return g, h and the sum of |λ| of each row of one query, in the order of the rows (Burges 2010, LambdaMART).

    ``change`` is the weight of a pair: 1 for "pairwise", for "ndcg" and "map" the metric's change if both rows swap.
    """
    order = sorted(range(len(labels)), key=lambda i: (-margins[i], i))
    labels, margins = [labels[i] for i in order], [margins[i] for i in order]

    def dcg(values: list[float]) -> float:
        return sum(value / math.log2(place + 2) for place, value in enumerate(values))

    def average_precision(values: list[float]) -> float:
        hits = [sum(values[: k + 1]) / (k + 1) for k in range(len(values)) if values[k]]
        return sum(hits) / len(hits)

    ideal = dcg(sorted(labels, reverse=True)[:truncation])
    out = [[0.0, 0.0, 0.0] for _ in order]
    for i in range(min(truncation, len(order))):
        for j in range(i + 1, len(order)):
            if labels[i] == labels[j]:
                continue
            swapped = labels.copy()
            swapped[i], swapped[j] = labels[j], labels[i]
            delta = 1.0
            if change == "ndcg":
                delta = abs(dcg(labels) - dcg(swapped)) / ideal
            elif change == "map":
                delta = abs(average_precision(labels) - average_precision(swapped))
            high, low = (i, j) if labels[i] > labels[j] else (j, i)
            apart = margins[high] - margins[low]
            if by_difference and margins[0] != margins[-1]:
                delta /= abs(apart) + 0.01
            sigmoid = 1 / (1 + math.exp(-apart))
            for k, sign in ((high, -1), (low, 1)):
                out[order[k]][0] += sign * (1 - sigmoid) * delta
                out[order[k]][1] += 2 * sigmoid * (1 - sigmoid) * delta
                out[order[k]][2] += (1 - sigmoid) * delta
    return out


# --- frameboost.splits.search -----------------------------------------------------------------------------------------


def naive_scan_histograms(
    histogram: np.ndarray, offsets: np.ndarray, reg_lambda: float, min_child_weight: float
) -> tuple[float, list[int] | None]:
    """Return the gain and the split of a node: feature, position and whether missing goes left.

    Ties go to the lowest feature, then to the lowest position, then to missing right.
    """
    best: tuple[float, list[int] | None] = (0.0, None)
    for feature, (first, stop) in enumerate(pairwise(offsets)):
        G, H = histogram[first:stop].sum(axis=0)
        gain, position, missing_left = naive_scan_numbers(histogram[first:stop], G, H, reg_lambda, min_child_weight)
        if gain > best[0]:
            best = gain, [feature, position, int(missing_left)]
    return best


def naive_find_splits(
    histograms: np.ndarray, places: list[int], offsets: np.ndarray, reg_lambda: float, min_child_weight: float
) -> list[tuple[float, list[int] | None]]:
    return [naive_scan_histograms(histograms[place], offsets, reg_lambda, min_child_weight) for place in places]


def naive_scan_numbers(
    bins: np.ndarray, G: float, H: float, reg_lambda: float, min_child_weight: float
) -> tuple[float, int, bool]:
    """Return the best split of a node's bins (the missing bin last): gain, position, and whether missing goes left."""

    def score(G: float, H: float) -> float:
        return G * G / (H + reg_lambda) if H > 0 else 0.0

    best = (0.0, -1, False)
    for position in range(1, len(bins)):
        if not bins[position - 1].any():
            continue
        for missing_left in (False, True):
            if missing_left and not bins[-1].any():
                continue
            GL, HL = bins[:position].sum(axis=0) + (bins[-1] if missing_left else 0)
            GR, HR = G - GL, H - HL
            if min(HL, HR) <= 0 or min(HL, HR) < min_child_weight:
                continue
            gain = score(GL, HL) + score(GR, HR) - score(G, H)
            if gain > best[0]:
                best = (gain, position, missing_left)
    return best


# --- frameboost.compile.arrays.score_kernels, byte_kernels ------------------------------------------------------------


def naive_code_buffers(values: list[Any], present: list[bool], cuts: list[Any], missing: int) -> list[int]:
    """Return the number of cuts at or below each value, or ``missing`` if it is NaN or not present."""
    return [
        sum(cut <= value for cut in cuts) if is_here and value == value else missing
        for value, is_here in zip(values, present, strict=True)
    ]


def naive_add_leaves(
    codes: np.ndarray, trees: list[dict[int, tuple]], tables: np.ndarray, values: np.ndarray, margins: np.ndarray
) -> np.ndarray:
    """Return the margins with each row's leaf added; a tree is {node: (column, bound, also, right, table)}.

    The left child of a node has the next number. A row goes left if the node's table says so for its code.
    Without a table (-1) it goes left if its code is less than the bound, or equals ``also``.
    """
    out = margins.copy()
    for tree, of_leaves in zip(trees, values, strict=True):
        for row, of_row in enumerate(codes.T):
            node = 0
            while node in tree:
                column, bound, also, right, table = tree[node]
                code = of_row[column]
                goes_left = tables[table, code] if table >= 0 else code < bound or code == also
                node = node + 1 if goes_left else right
            out[row] += of_leaves[node]
    return out
