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

from frameboost.expressions.draws import hash32

__all__ = [
    "TESTED_OTHERWISE", "naive_add_by_side", "naive_add_leaves", "naive_add_more", "naive_bin_columns",
    "naive_bin_nodes", "naive_bin_values", "naive_bounded_weights", "naive_build_histograms", "naive_code_buffers",
    "naive_draw_gh", "naive_ends_by_weight", "naive_fill_block", "naive_fill_sides", "naive_find_splits",
    "naive_group_rows", "naive_move_rows", "naive_move_to_children", "naive_part_block", "naive_part_drawn",
    "naive_part_rows", "naive_pieces_of", "naive_present_categories", "naive_put_gh", "naive_round_gh",
    "naive_scan_column", "naive_scan_histograms", "naive_scan_numbers", "naive_share_pieces",
    "naive_subtract_from_parents", "naive_sum_below", "naive_sum_pairs", "naive_take_codes",
]  # fmt: skip

# Kernels without a twin here, by the test that compares them, or what calls them, with an independent computation.
TESTED_OTHERWISE = {
    kernel: f"tests/{file}.py"
    for file, kernels in {
        "binning/test_cell_cuts": "count_cells rows_of_cells write_cells",  # numpy.bincount
        "compile/test_agreement": "find_leaves is_named sum_leaves",  # tests.support.random_models
        "compile/test_byte_trees": "add_deep_leaves",  # tests.support.random_models.naive_margins
        "compile/test_linear_contributions": "add_slopes",  # by definition
        "compile/test_linear_leaves": "add_linear_trees",
        "engines/duckdb/test_star": "add_codes_of_keys add_sums_of_keys",  # trees of the joined frame
        "engines/duckdb/test_records": "move_records take unpack",
        "engines/memory/test_bundled_codes": "add_by_feature",
        "engines/memory/test_exact_sums": "take_order write_keys pack_scores sum_by_step",
        "engines/memory/test_kernels": "add_by_node add_rows build_share category_histogram fill_side move_pieces "
        "number_rows part_share shares_of take_rows",
        "engines/memory/test_linear": "add_linear range_of_leaf sum_leaf",  # fractions
        "engines/memory/test_nodes": "cut_parts",  # row // rows of a block
        "engines/memory/test_score_kernels": "group_keys",  # numpy.sort
        "engines/memory/test_sparse_codes":  # naive_build_histograms of dense codes
        "add_entries add_entries_in_order gh_totals combine_codes complete_histograms gather_entries write_entries",
        "engines/memory/test_star":  # numpy.add.at, int.from_bytes, sorted
        "add_packed_by_key write_numbers compute_numbers add_by_key look_up count_rows order_by_key "
        "take_sides write_records",
        "engines/memory/test_trees": "add_grown_leaves add_tree search_level grow_tree split_level fill_named",
        "engines/test_programs": "exponentials logarithms compute_gh compute_shares compute_to exp_of log_of",
        "model/test_calibration": "pool_adjacent_violators",  # scikit-learn's isotonic regression
        "model/test_explain": "add_interactions add_shap add_steps link_nodes",  # tests.support.naive_shap
        "runtime/test_team": "do_alone serve share_out",  # every item is counted
        "splits/test_categories": "category_room named_categories scan_categories sort_codes",
        "splits/test_gain": "leaf_score leaf_weight",  # the objective, minimised by brute force
        "splits/test_kernels": "best_score bounded_weight split_gain subtract_slots",
        "splits/test_scans": "bounded_gain category_candidates scan_bounded_numbers",  # worked out by hand
        "splits/test_vector_kernels": "find_vector_splits gains_of_outputs named_by_outputs scan_outputs",
        "training/test_constraints": "bounded_score split_score",
        "training/test_sampling": "hash_of keep_drawn",  # hash32 and sorted
        "training/test_symmetric": "scan_level",  # all splits of a level
    }.items()
    for kernel in kernels.split()
}

Piece = list[int]  # [node, start, stop]: a range of a node's rows


# --- frameboost.binning.arrays ---------------------------------------------------------------------------------------


def naive_bin_values(values: list[Any], cuts: list[Any], missing: int) -> list[int]:
    return [sum(cut <= value for cut in cuts) if value == value else missing for value in values]


def naive_bin_columns(columns: list[list[Any]], cuts: list[list[Any]], missing: int) -> list[list[int]]:
    return [naive_bin_values(own, own_cuts, missing) for own, own_cuts in zip(columns, cuts, strict=True)]


def naive_take_codes(rows: np.ndarray, order: list[int], at: int, width: int) -> list[list[int]]:
    return [rows[row, at : at + width].tolist() for row in order]


# --- frameboost.engines.memory.engine ------------------------------------------------------------------------------


def naive_put_gh(g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    return np.stack([g, h], axis=1), (np.nanmax(np.abs(g)), np.nanmax(np.abs(h)))


def naive_round_gh(pairs: np.ndarray, steps_g: float, steps_h: float) -> tuple[np.ndarray, tuple[float, float]]:
    """Return the pairs rounded to multiples of ``1 / steps``, and their sums."""
    steps = np.array([steps_g, steps_h])
    rounded = np.round(pairs * steps) / steps
    return rounded, tuple(rounded.sum(axis=0))


# --- frameboost.engines.memory.sampling -------------------------------------------------------------------------------


def naive_draw_gh(pairs: np.ndarray, positions: list[int], key: int, limit: int) -> np.ndarray:
    return np.array([pair if hash32(at, key) < limit else [0, 0] for pair, at in zip(pairs, positions, strict=True)])


def naive_part_drawn(pairs: np.ndarray) -> tuple[list[int], int]:
    """Return the rows, those without a gradient last and from the back, and the number of the others."""
    drawn = [row for row, pair in enumerate(pairs) if pair.any()]
    return drawn + [row for row in range(len(pairs)) if row not in drawn][::-1], len(drawn)


# --- frameboost.engines.memory.columns -----------------------------------------------------------------------------


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


def naive_fill_sides(bins: list[int], missing_left: list[bool], n_codes: list[int]) -> list[list[bool]]:
    """Return for each split whether each of its codes goes left, the missing one last."""
    return [
        [*(code < position for code in range(n - 1)), side]
        for position, side, n in zip(bins, missing_left, n_codes, strict=True)
    ]


def naive_part_rows(
    columns: np.ndarray, places: list[int], sides: np.ndarray, rows: list[int], parts: list[Piece]
) -> tuple[list[int], list[int | None]]:
    """Return both halves of the rows, and how many rows of each part go left (None if its column is not here).

    The rows of a part move to the same position in the other half: left rows to the front in order, right rows to the
    back in reverse order. Rows 4 5 6 7, of which 5 and 7 go left, become 5 7 6 4.
    """
    moved, n_left, half = list(rows), [], len(rows) // 2
    for split, start, stop in parts:
        if places[split] < 0:
            n_left.append(None)
            continue
        own = rows[start:stop]
        left = [row for row in own if sides[split, columns[places[split], row]]]
        right = [row for row in own if not sides[split, columns[places[split], row]]]
        there = half if start < half else -half
        moved[start + there : stop + there] = left + right[::-1]
        n_left.append(len(left))
    return moved, n_left


def naive_add_by_side(
    columns: np.ndarray, places: list[int], sides: np.ndarray, rows: list[int], parts: list[Piece],
    values: np.ndarray, margins: list[float],
) -> list[float]:  # fmt: skip
    out = list(margins)
    for split, start, stop in parts:
        for row in rows[start:stop] if places[split] >= 0 else ():
            left, right = values[split]
            out[row] += left if sides[split, columns[places[split], row]] else right
    return out


# --- frameboost.engines.memory.exact ----------------------------------------------------------------------------------


def naive_fill_block(order: list[int], codes: list[int]) -> list[int]:
    return [int(codes[row]) * 2**32 + int(row) for row in order]


def naive_part_block(block: list[int], starts: list[int], stops: list[int], goes_left: list[bool]) -> list[int]:
    """Return the block with the rows of each range that go left before the others, each side in its old order."""
    out = list(block)
    for start, stop in zip(starts, stops, strict=True):
        inside = block[start:stop]
        left = [entry for entry in inside if goes_left[entry % 2**32]]
        out[start:stop] = left + [entry for entry in inside if not goes_left[entry % 2**32]]
    return out


def naive_scan_column(
    codes: np.ndarray, missing: int, pairs: np.ndarray, reg_lambda: float, min_child_weight: float
) -> tuple[float, list[int] | None]:
    """Return the gain and the best split of a node's rows: the ranks below and above it, and whether missing goes left.

    The rank above is -1 if all present values go left.
    """
    values = sorted(set(codes.tolist()) - {missing})
    bins = np.array([pairs[codes == value].sum(axis=0) for value in [*values, missing]])
    gain, position, missing_left = naive_scan_numbers(bins, *pairs.sum(axis=0), reg_lambda, min_child_weight)
    if position < 0:
        return 0.0, None
    return gain, [values[position - 1], values[position] if position < len(values) else -1, int(missing_left)]


def naive_move_rows(codes: np.ndarray, node_of: list[int], splits: dict[int, dict[str, Any]]) -> list[int]:
    """Return the node of each row after the nodes in ``splits`` have been split."""
    moved = []
    for row, node in enumerate(node_of):
        split = splits.get(int(node))
        if split is None:
            moved.append(int(node))
            continue
        code = codes[split["feature"], row]
        if "table" in split:
            is_left = split["table"][code]
        else:
            is_left = split["missing_left"] if code == split["missing"] else code < split["bound"]
        moved.append(split["left"] if is_left else split["right"])
    return moved


# --- frameboost.engines.memory.approx ---------------------------------------------------------------------------------


def naive_sum_below(ranks: list[int], weights: list[float], n: int) -> list[float]:
    rows = list(zip(ranks, weights, strict=True))
    return [sum(weight for rank, weight in rows if rank < wanted) for wanted in range(n + 1)]


def naive_cut_by_weight(below: list[float], max_bin: int) -> list[int]:
    """Return the ranks with another of ``max_bin`` parts of the weight below them than the rank before has.

    The last one of ``below`` is the weight of all rows.
    """
    *below, total = below
    if len(below) <= max_bin:
        return list(range(1, len(below)))
    parts = [min(math.floor(each * max_bin / total), max_bin - 1) if total > 0 else 0 for each in below]
    return [rank for rank in range(1, len(below)) if parts[rank] > parts[rank - 1]]


def naive_bin_nodes(ranks: np.ndarray, missing: int, pairs: np.ndarray, max_bin: int) -> tuple[list[int], np.ndarray]:
    """Return the first rank of each bin of a node's rows, and the sums of the bins, the missing bin last.

    Chen & Guestrin 2016, equations 8 and 9: a bin begins where the share of H below a value reaches the
    next multiple of ``1 / max_bin``.
    """
    distinct, h = sorted(set(ranks.tolist()) - {missing}), pairs[:, 1]
    total = h[ranks != missing].sum()
    part = {}
    for place, rank in enumerate(distinct):
        if len(distinct) <= max_bin:
            part[rank] = place
        elif total > 0:
            below = h[(ranks != missing) & (ranks < rank)].sum()
            part[rank] = min(math.floor(below * max_bin / total), max_bin - 1)
        else:
            part[rank] = 0
    starts = [rank for rank in distinct if part[rank] not in [part[other] for other in distinct if other < rank]]
    sums = np.zeros((max_bin + 1, 2))
    for rank, pair in zip(ranks.tolist(), pairs, strict=True):
        sums[max_bin if rank == missing else sum(start <= rank for start in starts) - 1] += pair
    return starts, sums


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


def naive_subtract_from_parents(histograms: np.ndarray, places: list[int], parents: list[int]) -> np.ndarray:
    out = histograms.copy()
    for place, parent in zip(places, parents, strict=True):
        if parent >= 0:
            out[parent] -= histograms[place]
    return out


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


def naive_bounded_weights(
    G: list[float], H: list[float], bounds: list[tuple[float, float]], reg_lambda: float, min_child_weight: float
) -> list[float]:
    return [
        max(lower, min(upper, -g / (h + reg_lambda))) if h >= min_child_weight else 0.0
        for g, h, (lower, upper) in zip(G, H, bounds, strict=True)
    ]


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


# --- frameboost.splits.search -------------------------------------------------------------------------------------


def naive_present_categories(histogram: np.ndarray, lightest: float) -> list[int]:
    return [code for code, (G, H) in enumerate(histogram[:-1]) if (G != 0 or H != 0) and lightest <= H]


def naive_ends_by_weight(
    histogram: np.ndarray, codes: list[int], most: int, cat_smooth: float, reg_lambda: float
) -> tuple[list[int], list[int]]:
    """Return the codes of the lowest weights, ascending, and of the highest, descending; ties by ascending code."""
    order = sorted(codes, key=lambda c: (-histogram[c, 0] / (histogram[c, 1] + cat_smooth + reg_lambda), c))
    return order[:most], order[::-1][:most]


# --- frameboost.engines.external_memory -------------------------------------------------------------------------------


def naive_move_to_children(
    numbers: np.ndarray, codes: np.ndarray, features: np.ndarray, starts: np.ndarray, children: np.ndarray
) -> list[int]:
    """Return the node of each row after its split."""
    return [
        int(children[starts[node] + of_row[features[node]]]) if features[node] >= 0 else int(node)
        for node, of_row in zip(numbers, codes.astype(int), strict=True)
    ]


def naive_group_rows(numbers: np.ndarray, places: np.ndarray, n_places: int) -> tuple[list[int], list[int]]:
    """Return the rows sorted by place, and where each place ends."""
    own = places[numbers].tolist()
    return sorted(range(len(own)), key=own.__getitem__), [sum(at <= k for at in own) for k in range(n_places)]


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
