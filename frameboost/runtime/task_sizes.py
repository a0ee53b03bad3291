"""The least work for which a kernel wakes another thread, by kind of work; below it one thread is done sooner."""

from __future__ import annotations

__all__ = [
    "ADDITIONS_PER_LEVEL", "ADDITIONS_PER_TASK", "CALLED_ROWS_PER_TASK", "CODES_PER_TEAM", "CODES_PER_TREE",
    "MOVED_ROWS_PER_LEVEL", "MOVED_ROWS_PER_TASK", "ROWS_PER_TASK", "VALUES_PER_TASK",
]  # fmt: skip

# Values read in order and computed on: gradients, codes, pairs of rows.
VALUES_PER_TASK = 1 << 15
# Rows of a column of which some calls of numpy are a task: shorter ones leave each other waiting for Python's lock, and
# two threads take twice as long as one.
CALLED_ROWS_PER_TASK = 1 << 18
# Rows of which a program is computed, or that go down a tree.
ROWS_PER_TASK = 1 << 14
# Rows gathered by row number: moved to child nodes, or given the value of their leaf.
MOVED_ROWS_PER_TASK = 1 << 17
# Gradient pairs added to histograms, one per row and feature.
ADDITIONS_PER_TASK = 1 << 20
# Codes up to which a tree is grown in one call: several calls for each level take longer than the work.
CODES_PER_TREE = 1 << 19
# Codes from which on threads spin beside it to share its levels, and the least work of a level that they share, which
# takes some ten microseconds: additions to histograms and slots to scan, and rows to move.
CODES_PER_TEAM, ADDITIONS_PER_LEVEL, MOVED_ROWS_PER_LEVEL = 1 << 14, 1 << 13, 1 << 12
