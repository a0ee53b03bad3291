"""Whether EXP and LN of the kernels have the results of the C library, which SQL and polars call, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from frameboost.engines.exponential_kernels import exponentials
from frameboost.engines.logarithm_kernels import logarithms
from frameboost.splits.split import FloatArray

__all__ = ["has_exact_exponentials", "has_exact_logarithms"]


@cache
def has_exact_exponentials() -> bool:
    """Whether `exponentials` agrees with the C library on 16,384 numbers, of which two methods would differ in some."""
    return _agree(exponentials, math.exp, np.linspace(-40.0, 40.0, 32 * 512))


@cache
def has_exact_logarithms() -> bool:
    """Whether `logarithms` agrees with the C library on as many: of all magnitudes, and near 1."""
    return _agree(logarithms, math.log, np.append(np.geomspace(1e-40, 1e40, 16 * 512), np.linspace(0.5, 1.5, 16 * 512)))


def _agree(kernel: Callable[..., Any], function: Callable[[float], float], values: FloatArray) -> bool:
    out = np.empty(512)
    for block in values.reshape(-1, 512):
        kernel(block, out, 512)
        if out.tolist() != [function(x) for x in block.tolist()]:
            return False
    return True
