"""Tiered compilation: a kernel is compiled once the work that was done without it would have paid for it.

Numba takes seconds for a large kernel, on every new machine and in every new container, and a small fit is done in a
tenth of a second by numpy or by kernels of single steps. So work that can be done either way is counted, process by
process, until the kernel is worth compiling. Where a cache has it, it is taken at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from frameboost.runtime.kernel import is_compiled

__all__ = ["CompileLater", "compile_at_once"]


class CompileLater:
    """Says when to do work without a kernel.

    Parameters
    ----------
    kernel
        The kernel.
    most
        How much work to do without it, in any unit: about as much as takes longer by a third of the time of compiling,
        since what comes after is not known.
    """

    is_on: ClassVar[bool] = True

    def __init__(self, kernel: Any, most: int) -> None:
        self._kernel = kernel
        self._left = most

    def spend(self, work: int) -> bool:
        """Whether to do so much work without the kernel; it is counted."""
        if not self.is_on or is_compiled(self._kernel) or work > self._left:
            return False
        self._left -= work
        return True


@contextmanager
def compile_at_once() -> Iterator[None]:
    """Have all kernels compiled when they are first called, in all threads."""
    before, CompileLater.is_on = CompileLater.is_on, False
    try:
        yield
    finally:
        CompileLater.is_on = before
