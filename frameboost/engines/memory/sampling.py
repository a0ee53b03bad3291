"""Samples of rows and of features: draws by hashing, and g and h of sampled rows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import Sample
from frameboost.engines.memory.histograms import gh_totals
from frameboost.engines.memory.terms import values_by_row
from frameboost.engines.programs import Program, compile_program
from frameboost.expressions.draws import draws
from frameboost.expressions.grid import Rounded, Scalar
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.runtime.workers import NO_TEAM, VALUES_PER_TASK, Workers
from frameboost.splits.search import sort_codes
from frameboost.splits.split import FloatArray, Stats

__all__ = ["draw_gh", "hash_of", "keep_drawn", "mark_rows", "sample_gh"]


def sample_gh(
    sample: Sample,
    gh: FloatArray,
    positions: npt.NDArray[np.uint32],
    out: FloatArray,
    workers: Workers | None = None,
) -> list[Stats]:
    """Write g and h of the rows of a sample, zero for other rows, to ``out``; return the exact sums of each output.

    Parameters
    ----------
    sample
        The sample.
    gh
        float64 (outputs, rows, 2): g and h of the rows, in each output of the tree.
    positions
        The positions of the rows, modulo 2³², which are hashed for the draw.
    out
        float64 (outputs, rows, 2), written.
    workers
        Threads to use; None for the caller's alone.
    """
    n_outputs, n_rows, _ = gh.shape
    if sample.share is not None:
        count = 1 if workers is None else workers.count(n_rows, VALUES_PER_TASK)
        team, totals = NO_TEAM if workers is None else workers.team(count), np.empty((count, n_outputs, 2))
        # Draws are multiples of 2^-32: one is below the share if that multiple is below the share of 2^32.
        draw_gh(team, gh, positions, sample.key, math.ceil(sample.share * 2**32), out, totals)
        return [Stats(*each) for each in totals.sum(axis=0).tolist()]

    columns = {f"{name}_{k}": of_output[:, each] for k, of_output in enumerate(gh) for each, name in enumerate("gh")}
    columns["draw"] = draws(positions, sample.key)
    for of_output, written in zip(gh, out, strict=True):
        _compute(sample, {**columns, "g": of_output[:, 0], "h": of_output[:, 1]}, written, workers)
    return [Stats(*gh_totals(each, n_rows)) for each in out]


def _compute(sample: Sample, columns: Mapping[str, FloatArray], out: FloatArray, workers: Workers | None) -> None:
    """Write the values of the sample's expressions to ``out``, (rows, 2)."""
    program = _program(cast("Hashable", sample.g), cast("Hashable", sample.h))
    for k, values in enumerate(values_by_row(program, [columns[name] for name in program.columns], len(out), workers)):
        expression = (sample.g, sample.h)[k]
        offset = expression.offset if isinstance(expression, Rounded) else 0.0
        out[:, k] = (values + offset) - offset


@lru_cache(maxsize=8)
def _program(g: Hashable, h: Hashable) -> Program:
    terms = [each.expression if isinstance(each, Rounded) else cast("Scalar", each) for each in (g, h)]
    program = compile_program(terms, {}, {})
    assert program is not None, "samples are computed by operations that all programs have"
    return program


# --- kernels ----------------------------------------------------------------------------------------------------------


# The hash of `frameboost.expressions.draws.hash32`, in numbers of 32 bits that wrap around by themselves.
_FIRST, _SECOND, _THIRD = np.uint32(0x45D9F3B), np.uint32(0x7FEB352D), np.uint32(0x2C1B3C6D)
_15, _16 = np.uint32(15), np.uint32(16)


@kernel(inline="always")
def hash_of(value, key):  # type: ignore[no-untyped-def]
    """Return the hash, uint32, of a value and a key."""
    x = np.uint32(np.uint32(np.uint32(value) * _FIRST) + np.uint32(key))
    x = np.uint32((x ^ (x >> _16)) * _SECOND)
    x = np.uint32((x ^ (x >> _15)) * _THIRD)
    return np.uint32(x ^ (x >> _16))


@kernel(fastmath={"reassoc"})
def _draw_share(gh, positions, key, limit, out, totals, share):  # type: ignore[no-untyped-def]
    n_rows, count = gh.shape[1], len(totals)
    for output in range(np.uint64(len(gh))):
        pairs, drawn = gh[output], out[output]
        total_g = total_h = 0.0  # on grids, and so exact in any order
        for i in range(np.uint64(n_rows * share // count), np.uint64(n_rows * (share + 1) // count)):
            x = hash_of(positions[i], key)
            g, h = pairs[i, 0], pairs[i, 1]
            if x >= limit:
                g = h = 0.0
            drawn[i, 0], drawn[i, 1] = g, h
            total_g += g
            total_h += h
        totals[share, output, 0], totals[share, output, 1] = total_g, total_h


_drawing = outlined(_draw_share)


@kernel
def draw_gh(team, gh, positions, key, limit, out, totals):  # type: ignore[no-untyped-def]
    """Write g and h of the rows whose hash is below ``limit``, zero for the others, to ``out``.

    Parameters
    ----------
    team
        The threads (see `frameboost.runtime.team`).
    gh
        float64 (outputs, rows, 2): g and h.
    positions
        uint32 (rows,): hashed with the ``key``.
    out
        float64 (outputs, rows, 2), written.
    totals
        float64 (shares, outputs, 2), written: the sums over each share of the rows.
    """
    share_out(team, _drawing((gh, positions, key, limit, out, totals)), len(totals))


@kernel
def mark_rows(gh, out, first, last):  # type: ignore[no-untyped-def]
    """Write (1, 0) for each row from ``first`` to ``last - 1`` with a gradient, (0, 0) for others.

    ``gh`` is float64 (outputs, rows, 2), where any nonzero number counts, and ``out`` is float64 (rows, 2).
    """
    for i in range(np.uint64(first), np.uint64(last)):
        has_gradient = False
        for k in range(np.uint64(len(gh))):
            has_gradient |= (gh[k, i, np.uint64(0)] != 0.0) | (gh[k, i, np.uint64(1)] != 0.0)
        out[i, np.uint64(0)], out[i, np.uint64(1)] = 1.0 if has_gradient else 0.0, 0.0


@kernel
def keep_drawn(features, share, key):  # type: ignore[no-untyped-def]
    """Keep a share of the ``features`` that are True, those with the lowest hashes, at least one: bool (features,).

    `frameboost.training.open_nodes.FeatureSampler` draws the same.
    """
    if share == 1.0:
        return
    hashes, numbers, n = np.empty(len(features)), np.empty(len(features), dtype=np.int64), 0
    for feature in range(len(features)):
        if features[feature]:
            features[feature] = False
            hashes[n], numbers[n] = hash_of(feature, key), feature
            n += 1
    sort_codes(hashes, numbers, n)
    for i in range(max(1, int(share * n))):
        features[numbers[i]] = True
