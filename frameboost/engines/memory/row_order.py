"""Rows in another order: values are gathered by all threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.engines.memory.partition_kernels import take_rows
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers

__all__ = ["take_all"]


def take_all(values: npt.NDArray[Any], order: npt.NDArray[np.uint32], out: npt.NDArray[Any], workers: Workers) -> None:
    """Write ``values[order]`` to ``out``, (rows,)."""

    def take(first: int, last: int) -> None:
        take_rows(values, order[first:last], out[first:last])

    workers.over(len(order), take, smallest=VALUES_PER_TASK)
