"""The calls that are kept for a lost shard bring a new one to the same state."""

from frameboost.engines.dask.pool import ReplayLog
from frameboost.engines.shards.shard import Call


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
    calls = ["compute_gradients", "start_tree", "start_quantiles", "weights_up_to", "start_quantiles"]
    assert kept(*calls) == ["compute_gradients 0", "start_tree 1", "start_quantiles 4"]
    assert kept(*calls, "start_tree") == ["compute_gradients 0", "reset_nodes", "start_tree 5"]
    assert kept(*calls, "compute_gradients") == ["reset_nodes", "compute_gradients 5"]
