"""The DuckDB engine with codes in 64-bit words, and with nodes, g and h in memory.

- `engine`: the overridden steps, the words of the rows, and sweeps over them
- `kernels`: moves of rows, and unpacking of some rows
"""
