"""Ranking in a dialect's SQL: windows over the rows of each query, and sums over pairs of these rows.

Expressions have two more names: ``qid``, which is equal within a query, and ``position``, which breaks ties.
"""

from __future__ import annotations

from collections.abc import Mapping

from frameboost.dialects.dialect import Dialect
from frameboost.engines.contract import QueryWindow
from frameboost.expressions.grid import Rounded
from frameboost.losses.loss import PAIR_SUMS, RankingPairs

__all__ = ["query_window", "ranked_rows", "sums_over_pairs", "with_pair_sums"]


def query_window(window: QueryWindow, names: Mapping[str, str], dialect: Dialect) -> str:
    """Return a window function over the rows of each query; ``names`` are the columns of the rows."""
    value, of_query = window.value.to_sql(names, dialect), f"PARTITION BY {names['qid']}"
    match window.function:
        case "rank":
            order = f"{value} DESC, {names['position']} ASC"
            return dialect.cast(f"ROW_NUMBER() OVER ({of_query} ORDER BY {order}) - 1", "float64")
        case "running":
            assert window.order is not None
            order = f"{window.order.to_sql(names, dialect)} ASC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
            return f"SUM({value}) OVER ({of_query} ORDER BY {order})"
    return f"{window.function.upper()}({value}) OVER ({of_query})"


def ranked_rows(pairs: RankingPairs, rows: str, names: Mapping[str, str], dialect: Dialect) -> str:
    """Return the query of the inputs of `sums_over_pairs`, from a query of rows with these columns."""
    columns = (f"{names[name]} AS {dialect.quote(f'{name}_of')}" for name in ("position", "qid", *pairs.columns))
    return f"SELECT {', '.join(columns)} FROM ({rows}) {dialect.statements.alias}{dialect.quote('ranked')}"


def sums_over_pairs(pairs: RankingPairs, offset: float, ranked: str, dialect: Dialect) -> str:
    """Return the query of each row's sums over its pairs, for rows with pairs (see `RankingPairs`).

    Parameters
    ----------
    offset
        Rounds sizes and curvatures to a grid.
    ranked
        A table of `ranked_rows`, which is joined with itself.
    """
    quote, number, alias = dialect.quote, dialect.number, dialect.statements.alias
    i, j, at, side, qid, position = map(quote, ("i", "j", "at", "side", "qid_of", "position_of"))
    of_pair = {f"{name}_{s}": f"{quote(s)}.{quote(f'{name}_of')}" for s in "ij" for name in pairs.columns}
    is_above = f"{of_pair['label_i']} > {of_pair['label_j']}"
    pulls = f"CASE WHEN {is_above} THEN {number(1.0)} ELSE {number(-1.0)} END"
    values = {
        "position_i": f"{i}.{position}", "position_j": f"{j}.{position}", "up": pulls,
        "size": Rounded(pairs.size, offset).to_sql(of_pair, dialect),
        "curvature": Rounded(pairs.curvature, offset).to_sql(of_pair, dialect),
    }  # fmt: skip
    # Databases join by equality; what besides is compared is a condition.
    paired = (
        f"SELECT {', '.join(f'{value} AS {quote(name)}' for name, value in values.items())}\n"
        f"FROM {ranked} {alias}{i} JOIN {dialect.statements.joined.format(table=ranked)} {alias}{j}\n"
        f"ON {i}.{qid} = {j}.{qid}\n"
        f"WHERE {of_pair['rank_i']} < {number(float(pairs.truncation))}\n"
        f"AND {of_pair['rank_i']} < {of_pair['rank_j']} AND {of_pair['label_i']} <> {of_pair['label_j']}"
    )
    # Each pair counts for both of its rows.
    first, size = f"{side} = 0", quote("size")
    of_row = {
        "at": f"CASE WHEN {first} THEN {quote('position_i')} ELSE {quote('position_j')} END",
        "g": f"CASE WHEN {first} THEN -{quote('up')} ELSE {quote('up')} END * {size}",
        "h": quote("curvature"),
        "s": size,
    }
    sides = dialect.constant_rows([["0"], ["1"]], [side])
    both = (
        f"SELECT {', '.join(f'{value} AS {quote(name)}' for name, value in of_row.items())}\n"
        f"FROM ({paired}) {alias}{quote('paired')} CROSS JOIN ({sides}) {alias}{quote('sides')}"
    )
    sums = ", ".join(f"SUM({quote(name)}) AS {quote(f'sum_{name}')}" for name in "ghs")
    return f"SELECT {at}, {sums} FROM ({both}) {alias}{quote('of_rows')} GROUP BY {at}"


def with_pair_sums(rows: str, sums: str, dialect: Dialect) -> str:
    """Return a query of rows with their `sums_over_pairs`, 0 without pairs."""
    quote, zero, alias = dialect.quote, dialect.number(0.0), dialect.statements.alias
    values = (f"COALESCE({quote(f'sum_{name}')}, {zero}) + {zero}" for name in "ghs")  # no zero keeps its sign
    added = ", ".join(f"{value} AS {quote(name)}" for name, value in zip(PAIR_SUMS, values, strict=True))
    is_same = f"{quote('unpaired')}.{quote('position')} = {quote('pairs')}.{quote('at')}"
    return f"{dialect.select_besides(rows, added, 'unpaired')}\nLEFT JOIN ({sums}) {alias}{quote('pairs')} ON {is_same}"
