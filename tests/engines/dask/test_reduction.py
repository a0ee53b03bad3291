"""Sums travel along a tree, without their empty bins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameboost.engines.dask.pool import Branch, branches
from frameboost.engines.dask.worker import packed, unpacked


@given(n=st.integers(0, 300), most=st.integers(1, 9))
def test_each_worker_is_in_one_branch_and_sends_few_messages(n, most):
    found = branches(range(n), most)
    assert [number for branch in found for number in branch] == list(range(n))

    def widest(own: list[Branch[int]]) -> int:
        return max([len(own), *(widest(branch.others) for branch in own)])

    assert widest(found) <= most


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.75, 0.9, 1])
def test_packed_histograms_are_the_same_when_unpacked(share):
    rng = np.random.default_rng(0)
    sums = np.where(rng.random((3, 333, 1)) < share, rng.normal(size=(3, 333, 2)), 0)
    sums[1, 5], sums[2, 7] = (0, 2), (-3, 0)
    travelling = packed(sums)
    assert (travelling is sums) == (share > 0.75)
    assert np.array_equal(unpacked(travelling), sums)
