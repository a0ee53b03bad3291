"""Codes and keys of a row in 64-bit words, side by side: few wide columns are read in less time than many narrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Field", "Records"]

_BITS = 64


class Field(NamedTuple):
    """Where a code or a key is: its word, its lowest bit in it, and its type, uint8, uint16 or uint32."""

    word: int
    shift: int
    dtype: npt.DTypeLike


class Records:
    """The layout of a row's words, ``word_0``, ``word_1``, ...

    Say the largest values of a, b and c are 200, 70,000 and 9. A code takes whole bytes, 1, 2 or 4, so ::

        word_0    bits 0 to 7: a    bits 8 to 39: b    bits 40 to 47: c

    Parameters
    ----------
    largest
        Of each column, its largest value.
    """

    def __init__(self, largest: Mapping[str, int]) -> None:
        self.fields: dict[str, Field] = {}
        word, shift = 0, 0
        for name, value in largest.items():
            dtype = np.min_scalar_type(value)
            bits = 8 * dtype.itemsize
            if shift + bits > _BITS:
                word, shift = word + 1, 0
            self.fields[name] = Field(word, shift, dtype)
            shift += bits
        self.names = [f"word_{number}" for number in range(word + 1)]

    def sql(self) -> list[str]:
        """Return the words as expressions over the columns."""
        words: list[list[str]] = [[] for _ in self.names]
        for name, field in self.fields.items():
            words[field.word].append(f"CAST({name} AS UBIGINT) * {1 << field.shift}")
        return [f"{' + '.join(terms)} AS {name}" for name, terms in zip(self.names, words, strict=True)]
