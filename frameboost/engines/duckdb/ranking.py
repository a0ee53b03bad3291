"""Ranking in a database: windows over the rows of each query, and sums over pairs of rows, as SQL."""

from __future__ import annotations

from collections.abc import Mapping

from frameboost.engines.contract import QueryWindow
from frameboost.expressions.grid import Rounded
from frameboost.losses.loss import RankingPairs

__all__ = ["pair_parts", "window_sql"]


def window_sql(window: QueryWindow, names: Mapping[str, str]) -> str:
    """Return a window function over each row's query; the rows have the columns ``qid`` and ``position``."""
    value = window.value.to_sql(names)
    match window.function:
        case "rank":  # ties: the row that comes first
            place = f"row_number() OVER (PARTITION BY qid ORDER BY {value} DESC, position ASC)"
            return f"CAST({place} - 1 AS DOUBLE)"
        case "running":
            assert window.order is not None
            return f"SUM({value}) OVER (PARTITION BY qid ORDER BY {window.order.to_sql(names)} ASC)"
    return f"{window.function.upper()}({value}) OVER (PARTITION BY qid)"


def pair_parts(pairs: RankingPairs, offset: float, names: Mapping[str, str]) -> dict[str, object]:
    """Return the parts of ``rank_pairs.sql`` other than its tables."""
    of_pair = {f"{name}_{side}": f"{side}.{names[name]}" for side in "ij" for name in pairs.columns}
    return {
        "columns": ", ".join(names[name] for name in pairs.columns),
        "truncation": pairs.truncation,
        "size": Rounded(pairs.size, offset).to_sql(of_pair),
        "curvature": Rounded(pairs.curvature, offset).to_sql(of_pair),
    }
