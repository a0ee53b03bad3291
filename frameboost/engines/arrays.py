"""What the engines in memory share: the frame read once, margins and gradients as numpy arrays, and threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from frameboost.columns import physical_expr
from frameboost.engines.contract import Aggregate, Stats
from frameboost.engines.frame import FrameEngine
from frameboost.expressions import Expression
from frameboost.parallel import Workers
from frameboost.schema import Feature

__all__ = ["SMALLEST_TASK", "ArrayEngine"]

# Below this many additions a thread costs more than it saves.
SMALLEST_TASK = 1 << 15


class ArrayEngine(FrameEngine):
    """Row state of an engine whose rows are in arrays."""

    def __init__(
        self,
        frame: pl.LazyFrame,
        features: tuple[Feature, ...],
        target: str,
        weight: str | None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(frame, features, target, weight)
        self.workers = Workers(n_jobs)
        self._values = pl.DataFrame()

    def load(self) -> pl.DataFrame:
        """Read the frame, once; return the features' physical values, named by their number, until they are binned."""
        if self.rows is None:
            values = [physical_expr(f.name, f.type).alias(str(i)) for i, f in enumerate(self.features)]
            everything = self.frame.select(*values, *self.row_exprs).collect()
            self.rows = everything.select("label", "weight")
            self._values = everything.drop("label", "weight")
        return self._values

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        self.load()  # all of it will be needed, and a lazy frame should be read once
        return super().aggregate(aggregates)

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        return list(self.load().null_count().row(0))

    def start_margins(self, margin: float) -> None:
        """See `Engine.start_margins`."""
        self.margins = np.full(self.n_rows, margin)
        self._publish_margins()

    def _publish_margins(self) -> None:
        assert self.rows is not None
        self.rows = self.rows.with_columns(pl.Series("margin", self.margins))

    def compute_gradients(self, gradient: Expression, hessian: Expression) -> Stats:
        """See `Engine.compute_gradients`."""
        columns, totals = self.gradients(gradient, hessian)
        self.gradient_pairs = columns.to_numpy(order="c")
        return totals

    def close(self) -> None:
        """See `Engine.close`."""
        super().close()
        self.workers.close()
