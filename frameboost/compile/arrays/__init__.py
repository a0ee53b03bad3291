"""Trees as arrays, and the kernels that score rows with them.

- `flat_trees`: trees as flat arrays over codes, which rows walk; codes of columns and of a few rows
- `byte_trees`: trees over bytes, each node compared with a block of rows (SIMD): scores of frames and of Arrow batches
- `linear_trees`: trees with linear leaves
- `score_kernels`: the kernels of these
- `vector_walk`: the walk over codes in numpy, for where numba is not installed
- `contributions`, `shap_kernels`: contributions of features (TreeSHAP, interactions, Saabas)
"""
