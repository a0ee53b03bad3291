"""Histograms by group-bys and by the kernel, against sums taken one by one: in parts of nodes, and slices of rows."""

import numpy as np
import polars as pl
import pytest

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.polars import engine
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import Split, Stats


def bins(name: str, *cuts: float) -> Bins:
    return Bins(Feature(name, FeatureType("float64")), cuts)


@pytest.mark.parametrize(("rows_at_once", "most_keys"), [(1 << 22, 1 << 11), (33, 1 << 11), (1 << 22, 8), (50, 1)])
@pytest.mark.parametrize("asked", [[0], [3, 5, 300, 9, 4]])
@pytest.mark.parametrize("by_kernel", [False, True])
def test_sums_are_those_of_each_row(monkeypatch, rows_at_once, most_keys, asked, by_kernel):
    monkeypatch.setattr(engine, "kernel_pays", lambda _: by_kernel)
    monkeypatch.setattr(engine, "_ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(engine, "_MAX_KEYS", most_keys)
    rng = np.random.default_rng(0)
    layout = SlotLayout([bins("a", 1.0, 2.0), bins("b", *map(float, range(299))), bins("c", 0.0)])
    codes = [rng.integers(0, b.count + 1, 120) for b in layout.bins]
    node = np.zeros(120, int) if asked == [0] else rng.choice([*asked, 7, 8], 120)
    g, h = rng.integers(-9, 9, (2, 120)).astype(float)
    kinds = [pl.UInt8, pl.UInt16, pl.UInt8]
    rows = pl.DataFrame([pl.Series(str(i), c, dtype=k) for i, (c, k) in enumerate(zip(codes, kinds, strict=True))])
    rows = rows.with_columns(g=pl.Series(g), h=pl.Series(h), node=pl.Series(node, dtype=pl.UInt16))
    out, places = np.full((8, layout.n_slots, 2), np.nan), np.array([6, 0, 3, 2, 7])[: len(asked)]
    engine.sum_by_bin(rows, layout, asked, out, places, is_root=asked == [0])
    expected = np.zeros((len(asked), layout.n_slots, 2))
    for offset, column in zip(layout.offsets, codes, strict=False):
        for code, of, pair in zip(column, node, zip(g, h, strict=True), strict=True):
            if of in asked:
                expected[asked.index(of), offset + code] += pair
    np.testing.assert_array_equal(out[places], expected)
    assert np.isnan(np.delete(out, places, axis=0)).all()


def test_numbers_of_nodes_are_as_wide_as_they_must_be():
    codes, node = pl.DataFrame({"0": [0, 1, 1]}), pl.Series("node", [0, 0, 0], dtype=pl.UInt8)
    half = Stats(0.0, 1.0)
    for split, expected, kind in (
        ((0, 1, 255), [1, 255, 255], pl.UInt8), ((255, 256, 70_000), [1, 70_000, 70_000], pl.UInt32),
        ((1, 2, 3), [2, 70_000, 70_000], pl.UInt32),
    ):  # fmt: skip
        moves = {split[0]: (Split(0, 1.0, half, half, False, 1, 0.5), *split[1:])}
        node = engine.child_of_row(codes, node, moves, lambda s: pl.col("0") < s.bin)
        assert (node.to_list(), node.dtype) == (expected, kind)
