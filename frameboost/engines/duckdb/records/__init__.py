"""The engine in a database whose rows' codes are in 64-bit words, and whose nodes, g and h are in memory.

- `engine`: the steps that differ
- `layout`: where codes and keys are in the words
- `words`: the words of all rows, in memory or read in batches
- `gradients`: g and h in memory
- `nodes`: which node each row is in, and histograms
- `moves`: splits as tables
- `chosen_rows`: rows of some nodes, one node after the other
- `ranks`: columns as ranks, of which each tree's cuts and codes are made (``tree_method="approx"``)
- `kernels`: moves of rows, and some rows unpacked
"""
