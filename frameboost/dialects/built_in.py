"""The dialects by name.

``docs/dialects.md`` has the rules and the tests, ``docs/vendors.md`` the vendors' documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.dialects.bigquery import BIGQUERY
from frameboost.dialects.clickhouse import CLICKHOUSE
from frameboost.dialects.datafusion import DATAFUSION
from frameboost.dialects.dialect import Dialect, Limits
from frameboost.dialects.duckdb import DUCKDB
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
        DUCKDB, POSTGRES, SQLITE, CLICKHOUSE, DATAFUSION, SPARK, DATABRICKS, SNOWFLAKE, BIGQUERY, REDSHIFT, TRINO,
        PRESTO, ATHENA, MYSQL, MARIADB, TSQL, FABRIC, ORACLE,
    )
}  # fmt: skip


def get_dialect(name: str, limits: Mapping[str, int | None] | None = None) -> Dialect:
    """Return the dialect of that name, with a user's limits applied.

    Raises
    ------
    ParameterError
        If the dialect or a limit is unknown; if a limit is neither a positive integer nor None.
    """
    if not isinstance(name, str) or name not in DIALECTS:
        raise ParameterError(
            f"dialect must be one of {listed(DIALECTS, None)}, not {shown(name)}{did_you_mean(name, DIALECTS)}"
        )
    dialect = DIALECTS[name]
    if limits is None:
        return dialect
    if not isinstance(limits, Mapping):
        raise ParameterError(
            f"limits must be a dict of numbers by limit, such as {{'text': 2000000}}, not {shown(limits)}"
        )
    known = [field.name for field in fields(Limits)]
    for limit, most in limits.items():
        if limit not in known:
            advice = did_you_mean(limit, known) or f"; they are {listed(known)}"
            raise ParameterError(f"limits names {shown(limit)}, which is not a limit{advice}")
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise ParameterError(
                f"limits must have a positive integer for {shown(limit)}, or None for no limit, not {shown(most)}"
            )
    return replace(dialect, limits=replace(dialect.limits, **limits))
