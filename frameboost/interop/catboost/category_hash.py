"""The number that CatBoost knows a category by: the low half of CityHash64."""

from __future__ import annotations

from frameboost.errors import ParameterError

__all__ = ["category_hash"]


def category_hash(category: str | int) -> int:
    """Return the number, of 32 bits with a sign, by which CatBoost's models know a category.

    Raises
    ------
    ParameterError
        If the library with the hash is not installed.

    Examples
    --------
    >>> category_hash("x"), category_hash(1) == category_hash("1")
    (-784473192, True)
    """
    try:
        from clickhouse_cityhash.cityhash import CityHash64
    except ImportError as error:
        raise ParameterError(
            "categories of CatBoost need clickhouse-cityhash: pip install frameboost[catboost]"
        ) from error
    low = int(CityHash64(str(category).encode("utf-8"))) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low
