"""Binning: the cuts of a feature, and columns as codes, the bin indices of values.

- `bins`: the bins of a feature or of a node, the rule by which cuts are proposed, thresholds of floats, the layout of
  histograms
- `codes`: bins and codes by polars expressions, for every column type; cuts of rows in several shards
- `arrays`: bins, codes and sorted rows by kernels, for the types that numpy has
- `given_cuts`: the user's cuts, ``fit(cuts=...)``
"""
