"""Samples of rows in memory: each row's draw, and the g and h that the sample has of it, as operations of numpy."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import Sample
from frameboost.engines.memory.program_arrays import evaluate
from frameboost.engines.memory.programs import Program, compile_program
from frameboost.expressions.draws import draws
from frameboost.expressions.places import Places
from frameboost.losses.exact_sums import Rounded, Scalar
from frameboost.splits.split import FloatArray, Stats

__all__ = ["sample_pairs"]

# Rows at once: what is computed of them stays in the processor's cache.
_BLOCK = 1 << 14


def sample_pairs(
    sample: Sample, pairs: FloatArray, numbers: npt.NDArray[np.integer], places: Places, out: FloatArray
) -> Stats:
    """Write g and h of some rows in a sample, zero in rows that it leaves out, to ``out``; return their exact sums.

    Parameters
    ----------
    sample
        The sample.
    pairs
        float64 (rows, 2): g and h of the rows.
    numbers, places
        The rows' numbers, and the positions by which rows of these numbers are drawn.
    out
        float64 (rows, 2), written.
    """
    for start, stop in pairwise([*range(0, len(pairs), _BLOCK), len(pairs)]):
        draw = draws(places.of(numbers[start:stop]), sample.key)
        own = out[start:stop]
        if sample.share is None:
            _compute(sample, pairs[start:stop], draw, own)
        else:
            own[:] = pairs[start:stop]
            own.view(np.complex128)[:, 0][draw >= sample.share] = 0.0  # a row is one number: three times as fast
    return Stats(float(out[:, 0].sum()), float(out[:, 1].sum()))


def _compute(sample: Sample, pairs: FloatArray, draw: FloatArray, out: FloatArray) -> None:
    """Write the values of the sample's expressions to ``out``."""
    program = _program(cast("Hashable", sample.g), cast("Hashable", sample.h))
    found = {"g": pairs[:, 0], "h": pairs[:, 1], "draw": draw}
    for k, values in enumerate(evaluate(program, [found[name] for name in program.columns])):
        expression = (sample.g, sample.h)[k]
        offset = expression.offset if isinstance(expression, Rounded) else 0.0
        out[:, k] = (values + offset) - offset


@lru_cache(maxsize=8)
def _program(g: Hashable, h: Hashable) -> Program:
    terms = [each.expression if isinstance(each, Rounded) else cast("Scalar", each) for each in (g, h)]
    program = compile_program(terms, {}, {})
    assert program is not None, "samples are computed by operations that all programs have"
    return program
