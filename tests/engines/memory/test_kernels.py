"""Kernels over rows, compared with their plain twins on random input."""

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.binning.bins import weighted_cut_positions
from frameboost.engines.memory import partition
from frameboost.engines.memory.approx import bin_nodes, sum_below
from frameboost.engines.memory.exact import category_histogram, fill_block, move_rows, part_block, scan_column
from frameboost.engines.memory.histograms import add_more, build_histograms, may_block
from frameboost.engines.memory.sampling import draw_gh
from frameboost.engines.memory.terms import put_gh, round_gh
from frameboost.runtime.workers import Workers
from tests.support import naive_kernels as twins

SEEDS = st.integers(0, 2**32 - 1)
PIECES = st.lists(st.integers(0, 40), max_size=6).map(
    lambda lengths: [[i // 2, 100 * i, 100 * i + length] for i, length in enumerate(lengths)]
)


def gradients(rng, n):
    """Return g and h, multiples of 1/8, so that sums are exact."""
    return np.stack([rng.integers(-40, 40, n) / 8, rng.integers(0, 9, n) / 8], axis=1)


def as_array(pieces):
    return np.array(pieces, dtype=np.int64).reshape(-1, 3)


# --- histograms -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(SEEDS, st.integers(1, 40), st.integers(1, 4), st.sampled_from(["u1", "u2", "u4"]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_build_histograms(seed, n_features, most, dtype, is_first):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([60, 9000]))  # thousands of rows of uint8 codes are added in blocks
    sizes = rng.integers(2, 257, n_features)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(dtype)
    pairs, ends = gradients(rng, n), np.cumsum(sizes)
    rows = rng.permutation(n).astype(np.uint32)
    middle = n * 4 // 5  # the first node has the most, so several shares are of it
    pieces = [[0, 3, middle], [1, middle, middle], [2, middle + 5, n - 7], [2, n - 2, n]]
    parts, firsts = partition.share_pieces(as_array(pieces), most, 1)
    places, out = np.array([4, 0, 3]), np.full((5, ends[-1], 2), 0.5)
    more = np.zeros((most - 1, ends[-1], 2))
    expected = twins.naive_build_histograms(codes, rows, pieces, pairs, ends - sizes, out, places, is_first=is_first)
    with closing(Workers(2)) as workers:
        team = workers.team(most)
        slots, blocks = ends - sizes, may_block(codes, ends[-1])
        build_histograms(team, codes, rows, parts, firsts, pairs, slots, out, places, more, is_first, blocks)
    summed = twins.naive_add_more(parts.tolist(), firsts.tolist(), more, out, places)
    add_more(parts, firsts, more, out, places)
    np.testing.assert_array_equal(out, summed)
    np.testing.assert_array_equal(out, expected)


# --- the rows of nodes ------------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_part_rows_and_add_by_side(seed, most):
    rng = np.random.default_rng(seed)
    n = 50
    columns, sides = rng.integers(0, 7, (3, n)).astype(rng.choice(["u1", "u2", "u4"])), rng.random((4, 7)) < 0.5
    places, rows = np.array([-1, 0, -1, 2]), np.full(2 * n, 99, dtype=np.uint32)  # some splits' columns are elsewhere
    partition.number_rows(rows, 0, n // 3)
    partition.number_rows(rows, n // 3, n)
    assert rows.tolist() == [*range(n)] + [99] * n
    rng.shuffle(rows[:n])
    parts, firsts = partition.share_pieces(as_array([(3, 3, 20), (1, 20, 20), (1, 22, 50), (0, 0, 3)]), most, 1)
    counts, margins = np.full(len(parts), 7), np.zeros(n)
    values = np.array([[9.0, 9.0], [3.0, 4.0], [9.0, 9.0], [1.0, 2.0]])
    before, plain = rows.tolist(), parts.tolist()
    moved, n_left = twins.naive_part_rows(columns, places, sides, before, plain)
    n_left = [7 if count is None else count for count in n_left]  # not written
    with closing(Workers(2)) as workers:
        arguments = workers.team(most), columns, places, sides.ravel(), np.arange(0, 28, 7), rows
        partition.add_by_side(*arguments, parts, firsts, values, margins)
        assert margins.tolist() == twins.naive_add_by_side(columns, places, sides, before, plain, values, [0.0] * n)
        partition.part_rows(*arguments, parts, firsts, counts)
        assert (rows.tolist(), counts.tolist()) == (moved, n_left)
        back = parts + np.array([0, n, n])
        partition.part_rows(*arguments, back, firsts, counts)
    moved_back, _ = twins.naive_part_rows(columns, places, sides, moved, back.tolist())
    assert (rows.tolist(), counts.tolist()) == (moved_back, n_left)
    for split, start, stop in plain:
        if places[split] >= 0:
            assert sorted(rows[start:stop].tolist()) == sorted(before[start:stop])


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(1, 9)), min_size=1, max_size=5))
def test_fill_sides(splits):
    bins, missing_left, n_codes = map(list, zip(*splits, strict=True))
    for fill in (partition.fill_sides, partition.sides_of):
        goes_left, starts = fill(np.array(bins), np.array(missing_left), np.array(n_codes))
        found = [goes_left[a:b].tolist() for a, b in pairwise(starts)]
        assert found == twins.naive_fill_sides(bins, missing_left, n_codes)
        assert starts.tolist() == [sum(n_codes[:i]) for i in range(len(splits) + 1)]


@given(PIECES, st.lists(st.integers(0, 5), unique=True))
@settings(deadline=None)
def test_pieces_of(pieces, nodes):
    found = partition.pieces_of(np.array(nodes, dtype=np.int64), as_array(pieces), 6)
    assert found.tolist() == twins.naive_pieces_of(nodes, pieces)


@given(PIECES, st.integers(1, 7), st.integers(0, 30))
@settings(deadline=None)
def test_share_pieces(pieces, most, smallest):
    parts, firsts = partition.share_pieces(as_array(pieces), most, smallest)
    assert (parts.tolist(), firsts.tolist()) == twins.naive_share_pieces(pieces, most, smallest)
    sizes = [sum(stop - start for _, start, stop in parts[a:b]) for a, b in pairwise(firsts)]
    assert len(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 1 or min(sizes) >= smallest
    parts, firsts = partition.shares_of(np.array([2, 0]), as_array(pieces), 3, most, smallest)
    assert (parts.tolist(), firsts.tolist()) == twins.naive_share_pieces(
        twins.naive_pieces_of([2, 0], pieces), most, smallest
    )


def test_shares_by_hand():
    pieces = as_array([[5, 0, 7], [6, 9, 9], [7, 10, 13], [7, 20, 22]])
    parts, firsts = partition.share_pieces(pieces, 3, 4)
    assert parts.tolist() == [[5, 0, 4], [5, 4, 7], [7, 10, 11], [7, 11, 13], [7, 20, 22]]
    assert firsts.tolist() == [0, 1, 3, 5]
    assert partition.share_pieces(pieces, 3, 5)[1].tolist() == [0, 1, 4], "12 rows are two shares of 5 or more"


@pytest.mark.parametrize("move", [partition.move_pieces, partition.children_of])
def test_move_pieces(move):
    pieces, parted = [[4, 0, 6], [2, 6, 10], [4, 30, 36]], [[0, 0, 3], [0, 3, 6], [0, 30, 36]]
    n_left = np.array([1, 3, 2])
    found = move(np.array([4]), np.array([[8, 9]]), as_array(pieces), as_array(parted), n_left, 25, 5)
    assert found.tolist() == [[2, 6, 10], [8, 25, 26], [9, 26, 28], [8, 28, 31], [9, 31, 31], [8, 5, 7], [9, 7, 11]]


def test_take_rows():
    rows, out = np.arange(40, 0, -1).astype(np.uint32), np.zeros(40)
    partition.take_rows(np.arange(50.0) / 2, rows, out)
    assert out.tolist() == [row / 2 for row in rows.tolist()]


def test_add_by_node():
    margins, rows = np.arange(5.0), np.array([4, 0, 3, 1, 2], dtype=np.uint32)
    parts, firsts, values = [[1, 3, 5], [0, 0, 1], [0, 1, 2]], np.array([0, 2, 3]), np.array([10.0, 100.0])
    partition.add_by_node(Workers(1).team(2), margins, rows, as_array(parts), firsts, values)
    assert margins.tolist() == [10.0, 101.0, 102.0, 3.0, 14.0]


# --- gradients --------------------------------------------------------------------------------------------------------


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_put_gh_and_round_gh(seed):
    rng = np.random.default_rng(seed)
    g, h, pairs = rng.normal(size=40), rng.random(40), np.full((40, 2), 7.0)
    expected, largest = twins.naive_put_gh(g[3:], h[3:])
    assert put_gh(g[3:], h[3:], pairs[3:]) == largest
    assert pairs.tolist() == [[7.0, 7.0]] * 3 + expected.tolist()
    expected, totals = twins.naive_round_gh(pairs[10:], 16, 4)
    assert round_gh(pairs[10:], 1.5 * 2.0**52 / 16, 1.5 * 2.0**52 / 4) == totals
    assert pairs[10:].tolist() == expected.tolist()
    g[7] = np.nan
    assert put_gh(g, h, pairs) == twins.naive_put_gh(g, h)[1]


@given(SEEDS, st.integers(0, 50), st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_draw_gh_and_part_drawn(seed, n, count, limit):
    rng = np.random.default_rng(seed)
    pairs, positions = gradients(rng, n), rng.integers(0, 2**32, n).astype(np.uint32)
    out, totals, rows = np.full((n, 2), 0.5), np.empty((count, 2)), np.empty(n, np.uint32)
    with closing(Workers(2)) as workers:
        draw_gh(workers.team(count), pairs, positions, seed, limit, out, totals)
    drawn = twins.naive_draw_gh(pairs, positions.tolist(), seed, limit).reshape(-1, 2)
    assert (out.tolist(), totals.sum(axis=0).tolist()) == (drawn.tolist(), drawn.sum(axis=0).tolist())
    assert (partition.part_drawn(out, rows), rows.tolist()) == twins.naive_part_drawn(drawn)[::-1]


# --- sorted columns ---------------------------------------------------------------------------------------------------


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0]))
@settings(max_examples=60, deadline=None)
def test_fill_block_and_scan_column(seed, reg_lambda, min_child_weight):
    rng = np.random.default_rng(seed)
    n, n_values = 40, 9
    codes = rng.integers(0, n_values + 1, n).astype(np.uint32)  # the last means missing
    pairs, node_of = gradients(rng, n), rng.integers(0, 3, n).astype(np.int32)
    order = np.lexsort([np.where(codes == n_values, -1, codes.astype(int)), node_of]).astype(np.uint32)
    edges, block = np.searchsorted(node_of[order], [0, 1, 2, 3]), np.empty(n, dtype=np.uint64)
    fill_block(order, codes, block)
    assert block.tolist() == twins.naive_fill_block(order, codes)
    G, H = np.array([pairs[node_of == node].sum(axis=0) for node in (2, 0)]).T.copy()
    parent = np.divide(G * G, H + reg_lambda, out=np.zeros(2), where=H > 0)
    best, stats = np.empty((2, 4), dtype=np.int64), np.empty((2, 3))
    scan_column(block, edges[[2, 0]], edges[[3, 1]], n_values, pairs, np.full(2, True), G, H, 0,
                np.array([[-np.inf, np.inf]] * 2), reg_lambda, 0.0, 0.0, min_child_weight,
                parent, best, stats)  # fmt: skip
    for place, node in ((0, 2), (1, 0)):
        mine = node_of == node
        gain, split = twins.naive_scan_column(codes[mine], n_values, pairs[mine], reg_lambda, min_child_weight)
        if split is None:
            assert best[place, 0] == 0
        else:
            assert (stats[place, 0], best[place].tolist()) == (gain, [1, *split])


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_part_block(seed):
    rng = np.random.default_rng(seed)
    rows, goes_left = rng.permutation(30), rng.random(30) < 0.5
    block = rng.integers(0, 9, 30).astype(np.uint64) * np.uint64(2**32) + rows.astype(np.uint64)
    starts, stops = np.array([2, 10, 15]), np.array([10, 10, 29])
    expected = twins.naive_part_block(block.tolist(), starts, stops, goes_left)
    part_block(block, starts, stops, goes_left)
    assert block.tolist() == expected


def test_category_histogram():
    codes, node_of = np.array([0, 1, 1, 2], dtype=np.uint32), np.array([5, 5, 6, 7], dtype=np.int32)
    pairs, place_of = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]]), np.full(8, -1)
    place_of[[5, 7]] = 0, 1
    out = np.zeros((2, 3, 2))
    category_histogram(codes, node_of, pairs, place_of, out)
    assert out.tolist() == [[[1, 2], [3, 4], [0, 0]], [[0, 0], [0, 0], [7, 8]]]


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_move_rows(seed):
    rng = np.random.default_rng(seed)
    n = 40
    codes = rng.integers(0, 6, (2, n)).astype(np.uint32)  # 5 means missing
    node_of = rng.integers(0, 3, n).astype(np.int32)
    table = rng.random(6) < 0.5
    # Node 0 splits on feature 1 below 3, missing left; node 2 on the categories of feature 0; node 1 not at all.
    splits = {
        0: {"feature": 1, "bound": 3, "missing": 5, "missing_left": True, "left": 3, "right": 4},
        2: {"feature": 0, "table": table, "left": 5, "right": 6},
    }
    first, last = 7, 33
    expected = node_of.tolist()
    expected[first:last] = twins.naive_move_rows(codes[:, first:last], node_of[first:last], splits)
    split_of = np.array([0, -1, 1])
    move_rows(codes, node_of, split_of, np.array([1, 0]), np.array([3, 0]), np.array([5, 5]), np.array([True, False]),
              np.array([3, 5]), np.array([4, 6]), np.array([-1, 0]), table, first, last)  # fmt: skip
    assert node_of.tolist() == expected


# --- cuts by weight ---------------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 9), st.booleans())
@settings(max_examples=60, deadline=None)
def test_bin_nodes(seed, max_bin, is_light):
    rng = np.random.default_rng(seed)
    n, missing = 60, 12
    ranks, node_of = rng.integers(0, missing + 1, n).astype(np.uint32), rng.integers(0, 3, n).astype(np.int32)
    pairs = gradients(rng, n)
    if is_light:
        pairs[:, 1] = 0.0  # then nothing tells values apart
    place_of = np.array([1, -1, 0])
    order = np.argsort(np.where(ranks == missing, -1, ranks.astype(int)), kind="stable").astype(np.uint32)
    out, counts = np.zeros((2, max_bin + 1, 2)), np.zeros(2, np.int64)
    starts, befores = np.zeros((2, 2, max_bin), dtype=np.int64)
    bin_nodes(order, ranks, missing, node_of, pairs, place_of, max_bin, out, starts, befores, counts)
    for node, place in ((0, 1), (2, 0)):
        mine = node_of == node
        first_ranks, sums = twins.naive_bin_nodes(ranks[mine], missing, pairs[mine], max_bin)
        assert starts[place, : counts[place]].tolist() == first_ranks
        below = [max((r for r in ranks[mine].tolist() if r < first), default=-1) for first in first_ranks]
        assert befores[place, : counts[place]].tolist() == below
        assert out[place].tolist() == sums.tolist()


@given(SEEDS, st.integers(1, 40), st.integers(1, 30), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=80, deadline=None)
def test_cuts_by_sums_below(seed, n_distinct, max_bin, share_of_zeros):
    rng = np.random.default_rng(seed)
    ranks = rng.integers(0, n_distinct + 1, 200).astype(np.uint32)  # the last one is that of missing values
    weights = rng.integers(0, 50, 200) / 8 * (rng.random(200) >= share_of_zeros)
    below = np.full(n_distinct + 2, 7.0)
    sum_below(ranks, weights, below)
    assert below[:-1].tolist() == twins.naive_sum_below(ranks, weights, n_distinct)
    found = weighted_cut_positions(below[:-2], below[-2], max_bin)
    assert found.tolist() == twins.naive_cut_by_weight(below[:-1].tolist(), max_bin)


# --- pieces of few rows, by numpy -------------------------------------------------------------------------------------


@given(PIECES, st.lists(st.integers(0, 5), unique=True))
def test_one_share(pieces, nodes):
    parts, firsts = partition.one_share(np.array(nodes, dtype=np.int64), as_array(pieces), 6)
    assert (parts.tolist(), firsts.tolist()) == twins.naive_share_pieces(twins.naive_pieces_of(nodes, pieces), 1, 1)
