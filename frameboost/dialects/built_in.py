"""The dialects by name.

``docs/dialects.md`` has the rules and what was tried, ``docs/vendors.md`` what the vendors' documentation says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.dialects.bigquery import BIGQUERY
from frameboost.dialects.clickhouse import CLICKHOUSE
from frameboost.dialects.dialect import Dialect
from frameboost.dialects.duckdb import DUCKDB
from frameboost.dialects.limits import with_overrides
from frameboost.dialects.mysql import MARIADB, MYSQL
from frameboost.dialects.oracle import ORACLE
from frameboost.dialects.postgres import POSTGRES, REDSHIFT
from frameboost.dialects.snowflake import SNOWFLAKE
from frameboost.dialects.spark import DATABRICKS, SPARK
from frameboost.dialects.sqlite import SQLITE
from frameboost.dialects.trino import ATHENA, PRESTO, TRINO
from frameboost.dialects.tsql import FABRIC, TSQL
from frameboost.errors import ParameterError

__all__ = ["DIALECTS", "get_dialect"]

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        DUCKDB, POSTGRES, SQLITE, CLICKHOUSE, SPARK, DATABRICKS, SNOWFLAKE, BIGQUERY, REDSHIFT, TRINO, PRESTO, ATHENA,
        MYSQL, MARIADB, TSQL, FABRIC, ORACLE,
    )
}  # fmt: skip


def get_dialect(name: str, limits: Mapping[str, int | None] | None = None) -> Dialect:
    """Return the dialect of that name, with a user's limits in place of its own where they are given.

    Raises
    ------
    ParameterError
        If there is no such dialect, with a list of them, or no such limit.
    """
    if not isinstance(name, str) or name not in DIALECTS:
        raise ParameterError(
            f"dialect must be one of {listed(DIALECTS, None)}, not {shown(name)}{did_you_mean(name, DIALECTS)}"
        )
    dialect = DIALECTS[name]
    return dialect if limits is None else replace(dialect, limits=with_overrides(dialect.limits, limits))
