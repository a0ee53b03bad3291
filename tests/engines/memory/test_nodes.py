"""The partition of rows by node, the same for any number of threads."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.memory import engine
from frameboost.engines.memory.partition import RowBlocks, RowPartition, part_rows
from frameboost.runtime.workers import Workers


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7])
@pytest.mark.parametrize("n_rows", [0, 1, 500])
def test_every_node_has_the_rows_that_its_parents_splits_send_there(monkeypatch, n_jobs, n_rows):
    monkeypatch.setattr(
        "frameboost.engines.memory.partition.MOVED_ROWS_PER_TASK", 1
    )  # so that threads share the rows of single nodes
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 5, (3, n_rows)).astype(np.uint8)
    workers = Workers(n_jobs)
    partition = RowPartition(n_rows, workers)
    for share in (1, 0.6, 0, 1):  # a tree may start where the one before has left its rows
        partition.start_tree()
        is_added = rng.random(n_rows) < share
        if share < 1:
            partition.set_apart(np.stack([is_added & (rng.random(n_rows) < 0.5), is_added * 0.5], axis=1))
        node_of = np.zeros(n_rows, dtype=int)
        leaves, last = [0], 0
        for _ in range(5):
            split = sorted(rng.choice(leaves, (len(leaves) + 1) // 2, replace=False).tolist())
            features, goes_left = rng.integers(0, 3, len(split)), rng.random((len(split), 5)) < 0.5
            children = {}
            for i, node in enumerate(split):
                children[node] = last + 1, last + 2
                own = np.flatnonzero(node_of == node)
                node_of[own] = np.where(goes_left[i, columns[features[i], own]], last + 1, last + 2)
                leaves.remove(node)
                leaves += [last + 1, last + 2]
                last += 2

            def part(shares, features=features, goes_left=goes_left):
                parts, firsts = shares
                counts = np.zeros(len(parts), dtype=np.int64)
                table, starts = goes_left.ravel(), np.arange(0, goes_left.size, 5)
                team = workers.team(len(firsts) - 1)
                part_rows(team, columns, features, table, starts, partition.rows, parts, firsts, counts)
                return counts

            partition.split(list(children), np.array(list(children.values())), part)
            pieces, firsts = partition.shares(leaves)
            assert len(firsts) == max(1, min(n_jobs, is_added.sum())) + 1
            assert (np.diff(pieces[:, 0]) >= 0).all()
            for place, node in enumerate(leaves):
                rows = [row for at, start, stop in pieces if at == place for row in partition.rows[start:stop]]
                assert sorted(rows) == np.flatnonzero(is_added & (node_of == node)).tolist()
            rows_left = (partition.pieces[:, 2] - partition.pieces[:, 1]).sum()
            assert rows_left == n_rows, "nodes that have been split have no rows"
        order = np.empty(n_rows, np.uint32)
        partition.write_order(order)
        assert sorted(order) == list(range(n_rows))
        assert (np.diff(node_of[order]) >= 0).all()


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror"])
def test_rows_are_sorted_by_the_leaves_of_a_tree(monkeypatch, objective):
    # The start of absolute error is a median: that of the root of no tree.
    monkeypatch.setattr("frameboost.engines.memory.engine.MIN_SORTED", 1)
    monkeypatch.setattr("frameboost.engines.memory.columns.CODES_PER_TREE", 0)
    n_leaves = []
    original = engine.MemoryEngine.sort_rows

    def sort_rows(self):
        n_leaves.append(len(self.partition.leaves()))
        original(self)

    monkeypatch.setattr(engine.MemoryEngine, "sort_rows", sort_rows)
    frame = pl.DataFrame({"x": range(100), "y": [k // 25 for k in range(100)]})
    fb.fit(frame, "y", objective=objective, engine="numba", n_estimators=3, max_depth=2, min_child_weight=0.0)
    assert len(n_leaves) == 1
    assert n_leaves[0] > 1


def test_blocks_of_rows():
    rows, parts = np.array([5, 90, 120, 180, 40, 7], np.uint32), np.array([(3, 0, 3), (4, 3, 6)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("frameboost.engines.memory.partition.ROWS_PER_BLOCK", 100)
        ((whole, firsts),) = RowBlocks(parts, rows, 181).runs(2)
        assert (whole.tolist(), firsts.tolist()) == (parts.tolist(), [0, 0, 2])  # 128 rows a part and block are too few
        patched.setattr("frameboost.engines.memory.partition.MIN_ROWS_OF_PART", 50)
        ((cut, firsts),) = RowBlocks(parts, rows, 181).runs(2)
    assert cut.tolist() == [[3, 0, 2], [4, 4, 6], [3, 2, 3], [4, 3, 4]]
    assert firsts.tolist() == [0, 1, 4]
