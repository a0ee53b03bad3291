"""Pieces of few rows by numpy, beside the naive twins of the kernels; and first fits, which keep their rows so."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameboost.engines.memory.piece_arrays import children_of, one_share, sides_of
from frameboost.runtime import compile_later
from frameboost.runtime.compile_later import CompileLater
from tests.engines.memory.test_kernels import PIECES, as_array
from tests.engines.memory.test_trees import CASES, fitted, table  # noqa: F401  # a fixture
from tests.support.naive_kernels import naive_fill_sides, naive_move_pieces, naive_shares_of


@given(PIECES, st.lists(st.integers(0, 5), unique=True))
def test_one_share(pieces, nodes):
    parts, firsts = one_share(np.array(nodes, dtype=np.int64), as_array(pieces), 6)
    assert (parts.tolist(), firsts.tolist()) == naive_shares_of(nodes, pieces, 1, 1)


def test_children_of():
    pieces, parted = [[4, 0, 6], [2, 6, 10], [4, 30, 36]], [[0, 0, 3], [0, 3, 6], [0, 30, 36]]
    given_ = as_array(pieces), as_array(parted), np.array([1, 3, 2])
    found = children_of(np.array([4]), np.array([[8, 9]]), *given_, 25, 5).tolist()
    assert found == naive_move_pieces([4], [[8, 9]], pieces, parted, [1, 3, 2], 25)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(1, 9)), min_size=1, max_size=5))
def test_sides_of(splits):
    bins, missing_left, n_codes = map(list, zip(*splits, strict=True))
    goes_left, starts = sides_of(np.array(bins), np.array(missing_left), np.array(n_codes))
    assert [goes_left[a:b].tolist() for a, b in pairwise(starts)] == naive_fill_sides(bins, missing_left, n_codes)


@pytest.mark.parametrize("name", [*CASES, "monotone"])
def test_first_fits_have_the_same_trees(table, monkeypatch, name):  # noqa: F811
    how = CASES.get(name, {"monotone_constraints": {"a": 1, "b": -1}})
    expected = fitted(table, how)
    monkeypatch.setattr(CompileLater, "is_on", True)
    monkeypatch.setattr(compile_later, "is_compiled", lambda _: False)
    for module in ("trees", "piece_arrays", "programs.arrays"):  # other tests may have used up what may be deferred
        later = vars(__import__(f"frameboost.engines.memory.{module}", fromlist=["_"]))["_compiling_later"]
        monkeypatch.setattr(later, "_left", 1 << 30)
    monkeypatch.setattr("frameboost.engines.memory.engine.TreeKernels", None)  # not used
    first = fitted(table, how)
    assert first == expected
    assert first.history.equals(expected.history)
