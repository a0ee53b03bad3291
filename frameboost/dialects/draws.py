"""Random numbers by hashing (`frameboost.expressions.draws`) in the SQL of a dialect."""

from __future__ import annotations

from frameboost.dialects.dialect import Dialect
from frameboost.expressions.draws import FIRST, SECOND, THIRD

__all__ = ["draw_query"]


def draw_query(query: str, position: str, key: int, name: str, dialect: Dialect) -> str:
    """Return a query with the additional column of each row's draw, from a column of its position.

    Each xor-shift uses its operand twice, so it is a query over the previous one.
    """
    mod, xor = dialect.expressions.mod, dialect.expressions.xor

    def shifted(value: str, bits: int) -> str:
        rest = f"{value} - {mod.format(x=value, y=2**bits)}"
        return xor.format(x=value, y=dialect.cast(f"({rest}) / {2**bits}", "int64"))

    def product(value: str, factor: int, added: int = 0) -> str:
        return mod.format(x=f"({value} * {factor} + {added})", y=2**32)

    first = product(mod.format(x=dialect.cast(position, "int64"), y=2**32), FIRST, key)
    steps = [dialect.quote(f"{name}_{number}") for number in range(3)]
    values = [first, product(shifted(steps[0], 16), SECOND), product(shifted(steps[1], 15), THIRD)]
    for number, (step, value) in enumerate(zip(steps, values, strict=True)):
        query = dialect.select_besides(query, f"{value} AS {step}", f"hashed_{number}")
    last = dialect.cast(shifted(steps[2], 16), "float64")
    draw = f"{last} / {dialect.number(2.0**32)} AS {dialect.quote(name)}"
    return dialect.select_besides(query, draw, "drawn")
