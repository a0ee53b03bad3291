"""What is computed in each row: gradients and the terms of metrics, from SQL expressions to instructions.

- `program`: the compiler
- `kernels`: the interpreter, a register machine over blocks of rows
- `arrays`: the same by numpy, for few rows
- `exact_sums`: sums of expressions, as metrics take them
- `term_arrays`: ranks and sums within queries
"""
