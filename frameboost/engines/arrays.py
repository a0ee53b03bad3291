"""What the engines in memory share: the frame read once, margins and gradients as numpy arrays, and threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from frameboost.columns import physical_expr
from frameboost.engines.contract import Aggregate, Sample, Stats
from frameboost.engines.frame import FrameEngine
from frameboost.engines.frame_queries import PAIR_SUMS
from frameboost.engines.ranking_kernels import sum_pairs
from frameboost.parallel import Workers
from frameboost.query_terms import Pairs
from frameboost.schema import Feature

__all__ = ["SMALLEST_TASK", "ArrayEngine"]

# Below this many additions a thread costs more than it saves.
SMALLEST_TASK = 1 << 15


# The kernel's number of what pairs change, and the columns that it reads for that (``label`` where it reads none).
_IN_KERNEL = {
    "pairwise": (0, ("label", "label", "label")),
    "ndcg": (1, ("worth", "discount", "label")),
    "map": (2, ("hits", "credit", "relevant")),
}


class ArrayEngine(FrameEngine):
    """Row state of an engine whose rows are in arrays."""

    def __init__(
        self,
        frame: pl.LazyFrame,
        features: tuple[Feature, ...],
        roles: Mapping[str, str],
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(frame, features, roles)
        self.workers = Workers(n_jobs)
        self._values = pl.DataFrame()

    def load(self) -> pl.DataFrame:
        """Read the frame, once; return the features' physical values, named by their number, until they are binned."""
        if self.rows is None:
            values = [physical_expr(f.name, f.type).alias(str(i)) for i, f in enumerate(self.features)]
            everything = self.frame.select(*values, *self.row_exprs).collect()
            self.rows = everything.select(self.row_names)
            self._values = everything.drop(self.row_names)
        return self._values

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        self.load()  # all of it will be needed, and a lazy frame should be read once
        return super().aggregate(aggregates)

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        return list(self.load().null_count().row(0))

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        totals = super().start_tree(output, sample)
        self.gradient_pairs = self.pairs.to_numpy(order="c")
        return totals

    def sum_pairs(self, pairs: Pairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        rows = self.all_rows().select("qid", *pairs.columns).with_row_index("position").collect()
        ranked = rows.select("qid", "place", "position").sort("qid", "place")
        starts = np.append(np.flatnonzero(ranked["qid"].rle_id().diff().fill_null(1).to_numpy()), len(rows))
        change, names = _IN_KERNEL[pairs.change]
        labels, margins = rows["label"].to_numpy(), rows["margin"].to_numpy()
        first_of_row, second_of_row, relevant = (rows[name].to_numpy() for name in names)
        order, out = ranked["position"].cast(pl.Int64).to_numpy(), np.zeros((len(rows), 3))

        def add(first: int, last: int) -> None:
            sum_pairs(
                order, starts, labels, margins, change, first_of_row, second_of_row, relevant,
                pairs.truncation, pairs.by_difference, offset, first, last, out,
            )  # fmt: skip

        n_queries = len(starts) - 1
        largest = int(np.diff(starts).max())
        n_pairs = len(rows) * min(pairs.truncation, largest)
        self.workers.over(n_queries, add, smallest=n_queries * SMALLEST_TASK // n_pairs)
        self.store_pairs(pl.DataFrame(out + 0.0, schema=PAIR_SUMS))

    def margins(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return a copy of the rows' margins of that name."""
        assert self.rows is not None
        return np.array(self.rows[name])

    def publish_margins(self, name: str, margins: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """Replace the rows' margins of that name."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(pl.Series(name, margins))

    def close(self) -> None:
        """See `Engine.close`."""
        super().close()
        self.workers.close()
