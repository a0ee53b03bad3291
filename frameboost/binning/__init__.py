"""Binning: the cuts of a feature, and columns as codes, the small integers that number a value's bin.

- `bins`: the bins of a feature, the rule by which cuts are proposed, the layout of histograms
- `codes`: bins and codes by polars expressions, for every column type
- `arrays`: bins, codes and sorted rows by kernels, for the types that numpy has
- `kernels`, `radix_kernels`: those kernels
- `cell_cuts`, `cell_kernels`: cuts of many numbers, of which few are sorted
- `thresholds`: thresholds of floats, between a cut and the value before it
- `given_cuts`: cuts that the user gives, ``fit(cuts=...)``
- `value_counts`: cuts of rows that lie in several places
- `node_bins`: bins where every node has its own cuts (``approx``)
"""
