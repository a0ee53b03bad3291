"""The least work for which a kernel wakes another thread, by kind of work; below it one thread is done sooner."""

from __future__ import annotations

__all__ = ["ADDITIONS_PER_TASK", "MOVED_ROWS_PER_TASK", "VALUES_PER_TASK"]

# Values read in order and computed on: gradients, codes, pairs of rows.
VALUES_PER_TASK = 1 << 15
# Rows gathered by row number: moved to child nodes, or given the value of their leaf.
MOVED_ROWS_PER_TASK = 1 << 17
# Gradient pairs added to histograms, one per row and feature.
ADDITIONS_PER_TASK = 1 << 20
