"""Trees as arrays, and the kernels that score rows with them.

- `flat_trees`: trees as flat arrays over codes, and the codes of columns and of a few rows
- `byte_trees`: trees over bytes, each node compared with a block of rows (SIMD): scores of frames and of Arrow batches
- `linear_trees`: trees with linear leaves
- `score_kernels`: the scoring kernels
- `vector_walk`: the tree walk over codes in numpy, if numba is not installed
- `contributions`, `shap_kernels`: contributions of features (TreeSHAP, interactions, Saabas)
"""
