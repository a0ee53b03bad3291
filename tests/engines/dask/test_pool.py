"""Sums travel along a tree, without their empty bins; calls that are kept bring a new shard to a lost one's state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameboost.engines.dask.pool import Branch, ReplayLog, branches
from frameboost.engines.dask.worker import packed, unpacked
from frameboost.engines.shards.shard import Call


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


def kept(*methods: str) -> list[str]:
    log = ReplayLog()
    log.add(Call(method, (number,)) for number, method in enumerate(methods))
    return [f"{call.method} {call.arguments[0]}" if call.arguments else call.method for call in log.calls()]


def test_reads_are_left_out():
    assert kept("start_at", "aggregate", "count_missing", "summaries", "values_within", "bin_columns") == [
        "start_at 0", "bin_columns 5"
    ]  # fmt: skip


def test_of_a_grown_tree_splits_and_leaves_stay():
    first = ["start_margins", "compute_gradients", "start_tree"]
    first += ["node_histograms", "apply_splits", "add_leaf_values"]
    assert kept(*first) == [
        "start_margins 0", "compute_gradients 1", "start_tree 2", "apply_splits 4", "add_leaf_values 5"
    ]  # fmt: skip
    assert kept(*first, "compute_gradients") == [
        "start_margins 0", "reset_nodes", "apply_splits 4", "add_leaf_values 5", "compute_gradients 6"
    ]  # fmt: skip
    assert kept(*first, "start_tree") == [
        "start_margins 0", "compute_gradients 1", "reset_nodes", "apply_splits 4", "add_leaf_values 5",
        "start_tree 6"
    ]  # fmt: skip


def test_quantiles_are_kept_while_their_tree_is_grown():
    calls = ["compute_gradients", "start_tree", "start_quantiles", "values_around", "start_quantiles"]
    assert kept(*calls) == ["compute_gradients 0", "start_tree 1", "start_quantiles 4"]
    assert kept(*calls, "start_tree") == ["compute_gradients 0", "reset_nodes", "start_tree 5"]
    assert kept(*calls, "compute_gradients") == ["reset_nodes", "compute_gradients 5"]
