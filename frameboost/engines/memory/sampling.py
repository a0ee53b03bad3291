"""Samples of rows in memory: each row's draw, and the g and h that the sample has of it."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import lru_cache
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import Sample
from frameboost.engines.memory.gradient_kernels import gh_totals
from frameboost.engines.memory.programs.arrays import evaluate
from frameboost.engines.memory.programs.program import Program, compile_program
from frameboost.engines.memory.sampling_kernels import draw_gh
from frameboost.expressions.draws import draws
from frameboost.expressions.grid import Rounded, Scalar
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, Stats

__all__ = ["sample_gh"]

# Rows at once: what is computed of them stays in the processor's cache.
_BLOCK = 1 << 14


def sample_gh(
    sample: Sample,
    gh: FloatArray,
    positions: npt.NDArray[np.uint32],
    out: FloatArray,
    workers: Workers | None = None,
) -> Stats:
    """Write g and h of some rows in a sample, zero in rows that it leaves out, to ``out``; return their exact sums.

    Parameters
    ----------
    sample
        The sample.
    gh
        float64 (rows, 2): g and h of the rows.
    positions
        The positions by which the rows are drawn, modulo 2³².
    out
        float64 (rows, 2), written.
    workers
        Threads to use; None for the caller's alone.
    """
    if sample.share is not None:
        count = 1 if workers is None else workers.count(len(gh), VALUES_PER_TASK)
        team, totals = None if workers is None else workers.team(count), np.empty((count, 2))
        # Draws are multiples of 2^-32: one is below the share if that multiple is below the share of 2^32.
        draw_gh(team, gh, positions, sample.key, math.ceil(sample.share * 2**32), out, totals)
        return Stats(*totals.sum(axis=0).tolist())

    def compute(slice_: tuple[int, int]) -> None:
        for start, stop in pairwise([*range(*slice_, _BLOCK), slice_[1]]):
            _compute(sample, gh[start:stop], draws(positions[start:stop], sample.key), out[start:stop])

    if workers is None:
        compute((0, len(gh)))
    else:
        workers.each(workers.slices(len(gh), VALUES_PER_TASK), compute)
    return Stats(*gh_totals(out, len(out)))


def _compute(sample: Sample, gh: FloatArray, draw: FloatArray, out: FloatArray) -> None:
    """Write the values of the sample's expressions to ``out``."""
    program = _program(cast("Hashable", sample.g), cast("Hashable", sample.h))
    found = {"g": gh[:, 0], "h": gh[:, 1], "draw": draw}
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
