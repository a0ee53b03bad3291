"""The least work for which a kernel wakes another thread, by kind of work; below it one thread is done sooner."""

from __future__ import annotations

__all__ = ["ADDITIONS_PER_TASK", "CODES_PER_TREE", "MOVED_ROWS_PER_TASK", "VALUES_PER_TASK"]

# Values read in order and computed on: gradients, codes, pairs of rows.
VALUES_PER_TASK = 1 << 15
# Rows gathered by row number: moved to child nodes, or given the value of their leaf.
MOVED_ROWS_PER_TASK = 1 << 17
# Gradient pairs added to histograms, one per row and feature.
ADDITIONS_PER_TASK = 1 << 20
# Codes up to which a tree is grown in one call, on one thread: several calls for each level take longer than the work.
CODES_PER_TREE = 1 << 19
