"""The engine in a database whose rows' codes are in 64-bit words, and whose nodes, g and h are in memory.

- `engine`: the steps that differ, the words of the rows, and sweeps over them
- `kernels`: moves of rows, and some rows unpacked
"""
