"""CatBoost's hash of a category: the low 32 bits of CityHash64."""

from __future__ import annotations

from frameboost.errors import ParameterError
from frameboost.schema.types import Physical

__all__ = ["category_hash"]


def category_hash(category: Physical) -> int:
    """Return the signed 32-bit hash that stands for a category in CatBoost's models.

    Raises
    ------
    ParameterError
        If the library with the hash is not installed.

    Examples
    --------
    >>> # needs clickhouse_cityhash
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
