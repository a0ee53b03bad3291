"""Rows stay with their nodes, however threads share them."""

import numpy as np
import pytest

from frameboost.engines import row_partition
from frameboost.engines.partition_kernels import part_rows
from frameboost.engines.row_partition import RowPartition
from frameboost.parallel import Workers


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7])
@pytest.mark.parametrize("n_rows", [0, 1, 500])
def test_every_node_has_the_rows_that_its_parents_splits_send_there(monkeypatch, n_jobs, n_rows):
    monkeypatch.setattr(row_partition, "_SMALLEST_TASK", 1)  # so that threads share the rows of single nodes
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 5, (3, n_rows)).astype(np.uint8)
    partition = RowPartition(n_rows, Workers(n_jobs))
    for _ in range(2):  # a tree may start where the one before has left its rows
        partition.start_tree()
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

            def part(share, split=split, features=features, goes_left=goes_left):
                counts = np.zeros(len(share), dtype=np.int64)
                part_rows(columns, features, goes_left, np.arange(len(split)), partition.rows, share, counts)
                return counts

            partition.split(list(children), np.array(list(children.values())), part)
            pieces = partition.of(leaves)
            assert (np.diff(pieces[:, 0]) >= 0).all()
            for place, node in enumerate(leaves):
                rows = [row for at, start, stop in pieces if at == place for row in partition.rows[start:stop]]
                assert sorted(rows) == np.flatnonzero(node_of == node).tolist()
            assert len(pieces) == len(partition.pieces), "nodes that have been split have no rows"
        order = partition.order()
        assert sorted(order) == list(range(n_rows))
        assert (np.diff(node_of[order]) >= 0).all()
