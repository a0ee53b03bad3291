"""Every kernel has a plain twin here, and they agree on any input."""

from contextlib import closing
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.engines.memory.exact_kernels import category_histogram, fill_block, move_rows, part_block, scan_column
from frameboost.engines.memory.gradient_kernels import put_pairs, round_pairs
from frameboost.engines.memory.histogram_kernels import add_more, build_histograms
from frameboost.engines.memory.partition_kernels import (
    add_by_node,
    add_by_side,
    fill_sides,
    move_pieces,
    number_rows,
    part_rows,
    pieces_of,
    share_pieces,
    take_rows,
)
from frameboost.runtime.workers import Workers
from frameboost.splits.category_kernels import ends_by_weight, present_categories
from frameboost.splits.search_kernels import find_splits, scan_histograms
from frameboost.splits.subtraction_kernels import subtract_from_parents

SEEDS = st.integers(0, 2**32 - 1)


def score(G, H, reg_lambda):
    return G * G / (H + reg_lambda) if H > 0 else 0.0


def gradients(rng, n):
    """Return g and h, multiples of 1/8, so that sums are exact."""
    return np.stack([rng.integers(-40, 40, n) / 8, rng.integers(0, 9, n) / 8], axis=1)


@given(SEEDS, st.integers(1, 40), st.integers(1, 4), st.sampled_from(["u1", "u2", "u4"]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_build_histograms(seed, n_features, most, dtype, is_first):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([60, 9000]))  # of many rows of codes of one byte it is done in another way
    sizes = rng.integers(2, 257, n_features)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(dtype)
    pairs, ends = gradients(rng, n), np.cumsum(sizes)
    rows = rng.permutation(n).astype(np.uint32)
    middle = n * 4 // 5  # the first node has the most, so several shares are of it
    pieces = np.array([[0, 3, middle], [1, middle, middle], [2, middle + 5, n - 7], [2, n - 2, n]])
    parts, firsts = share_pieces(pieces, most, 1)
    places, out = np.array([4, 0, 3]), np.full((5, ends[-1], 2), 0.5)
    more = np.zeros((most - 1, ends[-1], 2))
    with closing(Workers(2)) as workers:
        team = workers.team(most)
        build_histograms(team, codes, rows, parts, firsts, pairs, ends - sizes, out, places, more, is_first)
    add_more(parts, firsts, more, out, places)
    expected = np.full_like(out, 0.5)
    if is_first:
        expected[places] = 0.0
    for node, start, stop in pieces:
        for feature, first in enumerate(ends - sizes):
            own = rows[start:stop]
            np.add.at(expected[places[node]], first + codes[own, feature], pairs[own])
    np.testing.assert_array_equal(out, expected)


@given(SEEDS, st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_where_rows_go(seed, most):
    rng = np.random.default_rng(seed)
    n = 50
    columns, sides = rng.integers(0, 7, (3, n)).astype(rng.choice(["u1", "u2", "u4"])), rng.random((4, 7)) < 0.5
    places, rows = np.array([-1, 0, -1, 2]), np.full(2 * n, 99, dtype=np.uint32)  # some splits' columns are elsewhere
    number_rows(rows[:n])
    assert rows.tolist() == [*range(n), *[99] * n]
    rng.shuffle(rows[:n])
    pieces = np.array([(3, 3, 20), (1, 20, 20), (1, 22, 50), (0, 0, 3)])
    parts, firsts = share_pieces(pieces, most, 1)
    counts, margins = np.full(len(parts), 7), np.zeros(n)
    values = np.array([[9.0, 9.0], [3.0, 4.0], [9.0, 9.0], [1.0, 2.0]])
    expected, moved, n_left = np.zeros(n), rows.tolist(), []
    for split, start, stop in parts.tolist():
        if places[split] < 0:
            n_left.append(7)
            continue
        goes_left = sides[split, columns[places[split], rows[start:stop]]]
        left, right = rows[start:stop][goes_left], rows[start:stop][~goes_left]
        expected[left], expected[right] = values[split]
        moved[n + start : n + stop] = [*left.tolist(), *right.tolist()[::-1]]
        n_left.append(len(left))
    with closing(Workers(2)) as workers:
        arguments = workers.team(most), columns, places, sides.ravel(), np.arange(0, 28, 7), rows
        add_by_side(*arguments, parts, firsts, values, margins)
        assert margins.tolist() == expected.tolist()
        part_rows(*arguments, parts, firsts, counts)
        assert (rows.tolist(), counts.tolist()) == (moved, n_left)
        part_rows(*arguments, parts + np.array([0, n, n]), firsts, counts)  # and back
    assert counts.tolist() == n_left
    for split, start, stop in parts:
        if places[split] >= 0:
            assert sorted(rows[start:stop]) == sorted(moved[n + start : n + stop])


def test_fill_sides():
    goes_left, starts = fill_sides(np.array([2, 9, 0]), np.array([True, False, False]), np.array([4, 3, 2]))
    assert starts.tolist() == [0, 4, 7, 9]
    assert goes_left.tolist() == [True, True, False, True, True, True, False, False, False]


def test_pieces_of():
    pieces = np.array([[4, 0, 5], [7, 5, 6], [4, 8, 9], [2, 10, 20]])
    assert pieces_of(np.array([2, 4, 5]), pieces, 8).tolist() == [[0, 10, 20], [1, 0, 5], [1, 8, 9]]
    assert pieces_of(np.array([], dtype=np.int64), pieces, 8).tolist() == []


@given(st.integers(1, 7), st.lists(st.integers(0, 40), max_size=6), st.integers(0, 30))
def test_shares_are_all_rows_in_order(most, lengths, smallest):
    pieces = [(i // 2, 100 * i, 100 * i + length) for i, length in enumerate(lengths)]
    parts, firsts = share_pieces(np.array(pieces, dtype=np.int64).reshape(-1, 3), most, smallest)
    found = [(i, row) for i, start, stop in parts.tolist() for row in range(start, stop)]
    assert found == [(i, row) for i, start, stop in pieces for row in range(start, stop)]
    sizes = [sum(stop - start for _, start, stop in parts[a:b].tolist()) for a, b in pairwise(firsts)]
    assert (firsts[0], firsts[-1]) == (0, len(parts))
    assert len(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 1 or min(sizes) >= smallest


def test_share_pieces():
    pieces = np.array([[5, 0, 7], [6, 9, 9], [7, 10, 13], [7, 20, 22]])
    parts, firsts = share_pieces(pieces, 3, 4)
    assert parts.tolist() == [[5, 0, 4], [5, 4, 7], [7, 10, 11], [7, 11, 13], [7, 20, 22]]
    assert firsts.tolist() == [0, 1, 3, 5]
    assert share_pieces(pieces, 3, 5)[1].tolist() == [0, 1, 4], "12 rows are two shares of 5 or more"
    assert share_pieces(pieces[1:2], 3, 1)[1].tolist() == [0, 0]
    assert share_pieces(pieces[:0], 3, 1)[1].tolist() == [0, 0]


def test_move_pieces():
    pieces = np.array([[4, 0, 6], [2, 6, 10], [4, 30, 36]])
    parted = np.array([[0, 0, 3], [0, 3, 6], [0, 30, 36]])
    found = move_pieces(np.array([4]), np.array([[8, 9]]), pieces, parted, np.array([1, 3, 2]), 25, 5)
    assert found.tolist() == [
        [2, 6, 10], [8, 25, 26], [9, 26, 28], [8, 28, 31], [9, 31, 31], [8, 5, 7], [9, 7, 11],
    ]  # fmt: skip


def test_subtract_from_parents():
    histograms = np.arange(20.0).reshape(5, 2, 2)
    subtract_from_parents(Workers(1).team(1), histograms, np.array([1, 4, 0]), np.array([2, -1, 3]))
    assert histograms[[0, 1, 4]].ravel().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 16.0, 17.0, 18.0, 19.0]
    assert histograms[2].tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert histograms[3].tolist() == [[12.0, 12.0], [12.0, 12.0]]


def test_take_rows():
    out = np.zeros(40)
    take_rows(np.arange(50.0) / 2, np.arange(40, 0, -1).astype(np.uint32), out)
    assert out.tolist() == [(40 - i) / 2 for i in range(40)]


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_gradients_on_the_grid(seed):
    rng = np.random.default_rng(seed)
    g, h, pairs = rng.normal(size=40), rng.random(40), np.full((40, 2), 7.0)
    assert put_pairs(g[3:], h[3:], pairs[3:]) == (abs(g[3:]).max(), h[3:].max())
    assert pairs.tolist() == [[7.0, 7.0]] * 3 + np.stack([g, h], axis=1)[3:].tolist()
    totals = round_pairs(pairs[10:], 1.5 * 2.0**52 / 16, 1.5 * 2.0**52 / 4)
    expected = np.stack([np.round(g * 16) / 16, np.round(h * 4) / 4], axis=1)
    assert pairs[10:].tolist() == expected[10:].tolist()
    assert totals == tuple(expected[10:].sum(axis=0))
    g[7] = np.nan
    assert put_pairs(g, h, pairs) == (np.nanmax(abs(g)), h.max())


def test_add_by_node():
    margins, rows = np.arange(5.0), np.array([4, 0, 3, 1, 2], dtype=np.uint32)
    parts, firsts = np.array([[1, 3, 5], [0, 0, 1], [0, 1, 2]]), np.array([0, 2, 3])
    add_by_node(Workers(1).team(2), margins, rows, parts, firsts, np.array([10.0, 100.0]))
    assert margins.tolist() == [10.0, 101.0, 102.0, 3.0, 14.0]


def naive_split(bins, G, H, reg_lambda, min_child_weight):
    """Return (gain, position, missing left) of the best split of one histogram, its missing bin last."""
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
            gain = score(GL, HL, reg_lambda) + score(GR, HR, reg_lambda) - score(G, H, reg_lambda)
            if gain > best[0]:
                best = (gain, position, missing_left)
    return best


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 2.0]))
@settings(max_examples=60, deadline=None)
def test_scan_histograms(seed, reg_lambda, min_child_weight):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, 3)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.stack([rng.integers(0, size, 40) for size in sizes], axis=1)
    pairs = gradients(rng, 40)
    histograms = np.zeros((1, sizes.sum(), 2))
    for row in range(40):
        for feature in range(3):
            histograms[0, offsets[feature] + codes[row, feature]] += pairs[row]
    best, stats = np.empty((1, 3), dtype=np.int64), np.empty((1, 3))
    scan_histograms(histograms, np.array([0]), offsets, np.zeros(3, dtype=bool), np.ones((1, 3), dtype=bool),
                    np.zeros(3, np.int8), np.array([[-np.inf, np.inf]]), 4, 64, 0.0, reg_lambda, 0.0, 0.0,
                    min_child_weight, best, stats)  # fmt: skip
    G, H = pairs.sum(axis=0)
    found = [
        (*naive_split(histograms[0, offsets[f] : offsets[f + 1]], G, H, reg_lambda, min_child_weight), f)
        for f in range(3)
    ]
    gain, position, missing_left, feature = max(found, key=lambda s: (s[0], -s[3]))
    if gain == 0.0:
        assert best[0, 0] == -1
    else:
        assert (best[0].tolist(), stats[0, 0]) == ([feature, position, int(missing_left)], gain)


def test_find_splits_in_shares():
    rng = np.random.default_rng(0)
    histograms, places = gradients(rng, 7 * 12).reshape(7, 12, 2), np.array([6, 2, 0, 1, 5])
    found = []
    for count in (1, 2, 5, 8):
        best, stats = np.empty((5, 3), dtype=np.int64), np.empty((5, 3))
        find_splits(Workers(1).team(1), histograms, places, np.array([0, 5, 12]), np.zeros(2, dtype=bool),
                    np.ones((5, 2), dtype=bool), np.zeros(2, np.int8), np.array([[-np.inf, np.inf]] * 5), 4, 64,
                    0.0, 1.0, 0.0, 0.0, 0.0, best, stats, count)  # fmt: skip
        found.append((best.tolist(), stats.tolist()))
    assert found.count(found[0]) == len(found)
    for place, (feature, position, missing_left), (gain, *_) in zip(places, *found[0], strict=True):
        own = histograms[place]
        G, H = own[:5].sum(axis=0)
        bins = own[5:] if feature else own[:5]
        assert naive_split(bins, G, H, 1.0, 0.0) == (gain, position, bool(missing_left))


@given(SEEDS, st.integers(1, 8), st.sampled_from([0.0, 2.0]))
@settings(max_examples=60, deadline=None)
def test_ends_by_weight(seed, most, cat_smooth):
    rng = np.random.default_rng(seed)
    histogram = np.stack([rng.integers(-9, 9, 21), rng.integers(1, 5, 21)], axis=1).astype(float)
    histogram[rng.random(21) < 0.3] = 0.0
    present = [c for c in range(20) if histogram[c].any()]
    codes = present_categories(histogram, 0.0)
    assert codes.tolist() == present
    order = sorted(present, key=lambda c: (-histogram[c, 0] / (histogram[c, 1] + cat_smooth + 1.0), c))
    low, high = ends_by_weight(histogram, codes, most, cat_smooth, 1.0, 0.0, 0.0, 0.0)
    assert low.tolist() == order[:most]
    assert high.tolist() == order[::-1][:most]
    heavy = [c for c in present if histogram[c, 1] >= 3.0]
    assert present_categories(histogram, 3.0).tolist() == heavy


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0]))
@settings(max_examples=60, deadline=None)
def test_scan_column(seed, reg_lambda, min_child_weight):
    rng = np.random.default_rng(seed)
    n, n_values = 40, 9
    codes = rng.integers(0, n_values + 1, n).astype(np.uint32)  # the last means missing
    pairs, node_of = gradients(rng, n), rng.integers(0, 3, n).astype(np.int32)
    order = np.lexsort([np.where(codes == n_values, -1, codes.astype(int)), node_of]).astype(np.uint32)
    edges, block = np.searchsorted(node_of[order], [0, 1, 2, 3]), np.empty(n, dtype=np.uint64)
    fill_block(order, codes, block)
    assert block.tolist() == [int(codes[row]) * 2**32 + int(row) for row in order]
    totals = np.array([pairs[node_of == node].sum(axis=0) for node in (2, 0)])
    parent = np.array([score(G, H, reg_lambda) for G, H in totals])
    best, stats = np.empty((2, 4), dtype=np.int64), np.empty((2, 3))
    scan_column(block, edges[[2, 0]], edges[[3, 1]], n_values, pairs, np.full(2, True), totals[:, 0].copy(),
                totals[:, 1].copy(), 0, np.array([[-np.inf, np.inf]] * 2), reg_lambda, 0.0, 0.0, min_child_weight,
                parent, best, stats)  # fmt: skip
    for place, node in ((0, 2), (1, 0)):
        mine = node_of == node
        values = sorted(set(codes[mine]) - {n_values})
        bins = np.array([pairs[mine & (codes == v)].sum(axis=0) for v in [*values, n_values]])
        G, H = totals[place]
        expected = (0.0, None)
        for position in range(1, len(bins)):
            for missing_left in (False, True):
                if missing_left and not bins[-1].any():
                    continue
                GL, HL = bins[:position].sum(axis=0) + (bins[-1] if missing_left else 0)
                GR, HR = G - GL, H - HL
                if min(HL, HR) <= 0 or min(HL, HR) < min_child_weight:
                    continue
                gain = score(GL, HL, reg_lambda) + score(GR, HR, reg_lambda) - parent[place]
                if gain > expected[0]:
                    upper = values[position] if position < len(values) else -1
                    expected = (gain, [1, values[position - 1], upper, int(missing_left)])
        if expected[1] is None:
            assert best[place, 0] == 0
        else:
            assert (stats[place, 0], best[place].tolist()) == expected


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_part_block(seed):
    rng = np.random.default_rng(seed)
    rows, goes_left = rng.permutation(30), rng.random(30) < 0.5
    block = rng.integers(0, 9, 30).astype(np.uint64) * np.uint64(2**32) + rows.astype(np.uint64)
    before, expected = block.tolist(), block.tolist()
    for start, stop in ((2, 10), (10, 10), (15, 29)):
        inside = before[start:stop]
        sides = [[entry for entry in inside if goes_left[entry % 2**32] == side] for side in (True, False)]
        expected[start:stop] = sides[0] + sides[1]
    part_block(block, np.array([2, 10, 15]), np.array([10, 10, 29]), goes_left)
    assert block.tolist() == expected


def test_category_histogram():
    codes, node_of = np.array([0, 1, 1, 2], dtype=np.uint32), np.array([5, 5, 6, 7], dtype=np.int32)
    place_of = np.full(8, -1)
    place_of[[5, 7]] = 0, 1
    out = np.zeros((2, 3, 2))
    category_histogram(codes, node_of, np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]]), place_of, out)
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
    split_of = np.array([0, -1, 1])
    expected = [
        node if node == 1 else
        ((3 if c1 < 3 or c1 == 5 else 4) if node == 0 else (5 if table[c0] else 6))
        for node, c0, c1 in zip(node_of, codes[0], codes[1], strict=True)
    ]  # fmt: skip
    first, last = 7, 33
    expected[:first], expected[last:] = node_of[:first], node_of[last:]
    move_rows(codes, node_of, split_of, np.array([1, 0]), np.array([3, 0]), np.array([5, 5]), np.array([True, False]),
              np.array([3, 5]), np.array([4, 6]), np.array([-1, 0]), table, first, last)  # fmt: skip
    assert node_of.tolist() == expected
