"""The thresholds between alternative algorithms in memory, each with its unit and its measurement.

The minimum work per thread is in `frameboost.runtime.workers`; docs/ways.md has measurements of the major choices.
"""

from __future__ import annotations

__all__ = [
    "ADDITIONS_PER_LEVEL",
    "BLOCKS_PER_RUN",
    "CODES_OF_ANY_ROWS",
    "CODES_PER_TEAM",
    "CODES_PER_TREE",
    "COLUMNS_PER_COPY",
    "MAX_CODES_OF_BUNDLE",
    "MAX_CODES_OF_FEATURE",
    "MAX_COMBINATIONS",
    "MAX_DENSE_BYTES",
    "MAX_ENTRIES",
    "MAX_FIRST_SPLITS",
    "MAX_IN_CACHE",
    "MAX_KEY_SPREAD",
    "MAX_REFERRED",
    "MAX_ROWS_IN_NUMPY",
    "MAX_TWICE",
    "MIN_ALIKE",
    "MIN_ATTRIBUTES",
    "MIN_BINS",
    "MIN_BUNDLED_ENTRIES",
    "MIN_BUNDLED_ROWS",
    "MIN_DENSE_COLUMNS",
    "MIN_ENTRIES_OF_ROW",
    "MIN_FACTS",
    "MIN_PER_KEY",
    "MIN_ROWS",
    "MIN_ROWS_OF_PART",
    "MIN_SAVED",
    "MIN_SCATTERED",
    "MIN_SORTED",
    "MIN_SPARSE_COLUMNS",
    "MIN_SPARSE_VALUES",
    "MOVED_ROWS_PER_LEVEL",
    "ROWS_PER_BLOCK",
    "ROWS_PER_KEY",
    "SLOTS_PER_ROW",
]

# --- trees in one call ------------------------------------------------------------------------------------------------

# Codes (rows x features) up to which a tree is grown in one call, of fewer rows than are sorted: several calls for each
# level take 2 times as long of 20,000 codes, 1.2 to 2.4 times of a million, and 1.0 to 1.9 times of six to eight
# millions, or 0.88 times where half of the rows are drawn. Of ten to sixteen millions it is 0.94 to 1.4 times, but
# codes of two bytes, by row and by column, take twice the memory.
CODES_PER_TREE = 1 << 23
# Codes up to which it is whatever the rows, and no columns are stored apart: neither sparse ones, nor those of
# dimensions by key.
CODES_OF_ANY_ROWS = 1 << 19
# Codes from which on threads spin beside it to share its levels; and the least work of a level that they share, which
# takes some ten microseconds: additions to histograms and slots to scan, and rows to move.
CODES_PER_TEAM, ADDITIONS_PER_LEVEL, MOVED_ROWS_PER_LEVEL = 1 << 14, 1 << 13, 1 << 12
# Slots of a feature on average for each row of nodes that are searched by their rows, without histograms: those of
# 20,000 x 28 values take 0.45 of the time in trees of depth 12, of 500 x 5,000 0.6, of 1,000 x 10 0.8; with half or
# twice as many slots about the same.
SLOTS_PER_ROW = 2

# --- rows -------------------------------------------------------------------------------------------------------------

# Rows from which on they are sorted by the leaves of the first tree: the g, h and codes of fewer mostly stay in the
# processor's caches.
MIN_SORTED = 1 << 17
# Rows of a fit up to which numpy divides and moves the pieces of nodes in the first fits: of more, threads share them.
# Each call takes 5 us longer, a fit of 100 trees 50 ms, and the kernels two seconds to compile.
MAX_ROWS_IN_NUMPY = 1 << 16
# Rows of a block in which leaf values are added where rows are sorted by a key, and blocks that are added to in turn:
# the margins of a block, 1 MB, are in the L2 cache, and those of a run of blocks in the L3 cache.
ROWS_PER_BLOCK, BLOCKS_PER_RUN = 1 << 17, 8
# Rows of a part of a node in a block: to cut parts of fewer takes longer than it saves.
MIN_ROWS_OF_PART = 1 << 7

# --- dense codes ------------------------------------------------------------------------------------------------------

# Bytes of codes up to which there is a copy by column.
MAX_TWICE = 1 << 24
# Of larger data columns are copied that nodes of many rows are split on: those of steps of at most so many splits,
# until one column in six is.
MAX_FIRST_SPLITS, COLUMNS_PER_COPY = 4, 6
# Rows of a node from which on they are added up in blocks, as 256 bins of each feature are cleared and merged; and bins
# of a feature on average: 300 features of two bins fit into the L1 cache without blocks.
MIN_ROWS, MIN_BINS = 1 << 12, 32

# --- sparse codes, and bundles ----------------------------------------------------------------------------------------

# A column is sparse if at most this share of the rows has another code than the most frequent one. To add an entry
# takes two to three times as long as to add a code of a dense column, and it takes 8 bytes instead of 2.
MAX_ENTRIES = 0.25
# Sparse columns, and values of all columns: of fewer it is not worth finding the entries of each row.
MIN_SPARSE_COLUMNS, MIN_SPARSE_VALUES = 8, 1 << 17
# The share of the rows with one number of entries from which on a loop over them is mostly predicted; and entries of a
# row from which on its end does not matter.
MIN_ALIKE, MIN_ENTRIES_OF_ROW = 0.9, 16
# Bytes of sparse columns that are made dense at once for splits, and their number where that many bytes are fewer.
MAX_DENSE_BYTES, MIN_DENSE_COLUMNS = 1 << 26, 32
# Rows from which on bundles are looked for: of fewer, their kernels take longer to compile than they save. Entries of a
# row, where features exclude each other; additions that are saved for each row, where they have few bins.
MIN_BUNDLED_ROWS, MIN_BUNDLED_ENTRIES, MIN_SAVED = 1 << 15, 8, 4
# Codes of a bundle, which are bytes, and of a feature in one.
MAX_CODES_OF_BUNDLE, MAX_CODES_OF_FEATURE = 256, 16
# Combinations of the codes of features that exclude each other. Twice as many make few more bundles of one, and
# histograms that no L1 cache holds.
MAX_COMBINATIONS = 128

# --- stars ------------------------------------------------------------------------------------------------------------

# Facts from which on codes are stored by key: of fewer, codes by fact are as fast.
MIN_FACTS = 1 << 17
# Attributes of a dimension: a row is added to one sum a dimension instead of one an attribute.
MIN_ATTRIBUTES = 3
# Facts for each key; and if their sums by key do not stay in the L2 cache, and facts are sorted by another key.
MIN_PER_KEY, MIN_SCATTERED = 3, 16
# Keys whose sums stay in the L2 cache.
MAX_IN_CACHE = 1 << 15
# Rows of a node for each key from which on they are added up by key.
ROWS_PER_KEY = 1
# Entries of a lookup table of integer keys for each row of the two tables.
MAX_KEY_SPREAD = 4
# Share of the rows of a dimension from which on those that no fact refers to are kept: to leave them out takes a copy.
MAX_REFERRED = 0.95
