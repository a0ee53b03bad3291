"""Trees as arrays, and the kernels that score rows with them.

- `flat_trees`: trees as flat arrays over codes
- `predict_kernels`: walks rows of codes down the trees
- `vector_walk`: the same in numpy, for where numba is not installed
- `byte_trees`, `byte_scorer`, `byte_kernels`: compares blocks of rows with a node at a time (SIMD)
- `few_rows`: codes of a few rows without columns
- `deep_trees`: packs trees of many leaves for rows that walk side by side
- `batch_scorer`, `batch_kernels`: scores Arrow batches, for DuckDB's UDF
- `linear_arrays`, `linear_scorer`, `linear_kernels`: trees with linear leaves
- `contributions`, `shap_kernels`: contributions of features (TreeSHAP, interactions, Saabas)
"""
