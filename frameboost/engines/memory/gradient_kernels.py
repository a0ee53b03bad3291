"""Kernels over gradients: into pairs, onto their grids where polars has computed them, and their sums."""

from __future__ import annotations

from frameboost.runtime.kernel import kernel

__all__ = ["gh_totals", "put_gh", "round_gh"]


@kernel
def put_gh(gradients, hessians, gh):  # type: ignore[no-untyped-def]
    """Write g and h, float64 (rows,) each, to ``gh``, (rows, 2); return max|g| and max|h|, NaN ignored."""
    largest_g = largest_h = 0.0
    for row in range(len(gradients)):
        g, h = gradients[row], hessians[row]
        gh[row, 0], gh[row, 1] = g, h
        largest_g = abs(g) if abs(g) > largest_g else largest_g
        largest_h = abs(h) if abs(h) > largest_h else largest_h
    return largest_g, largest_h


@kernel
def round_gh(gh, offset_g, offset_h):  # type: ignore[no-untyped-def]
    """Round g and h, float64 (rows, 2), to the grids of these offsets, in place (see `frameboost.expressions.grid`).

    Returns
    -------
    float64
        The exact sum of g.
    float64
        The exact sum of h.
    """
    total_g = total_h = 0.0
    for row in range(len(gh)):
        g = (gh[row, 0] + offset_g) - offset_g
        h = (gh[row, 1] + offset_h) - offset_h
        gh[row, 0], gh[row, 1] = g, h
        total_g += g
        total_h += h
    return total_g, total_h


@kernel(fastmath={"reassoc"})
def gh_totals(gh, size):  # type: ignore[no-untyped-def]
    """Return the sums of g and h of the first ``size`` rows of ``gh``, float64 (rows, 2), which are on grids.

    The sums are exact in any order, so the compiler may add up many rows at a time.
    """
    total_g = total_h = 0.0
    for i in range(size):
        total_g += gh[i, 0]
        total_h += gh[i, 1]
    return total_g, total_h
