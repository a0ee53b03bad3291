"""A plugin of pytest for `.ci/lowest`: of the cases of a test, the first with each library.

A library is meant by its name in the case's id: a database, an engine, a container of rows, a model of another library.
"""

from __future__ import annotations

import re

import pytest

LIBRARIES = re.compile(
    r"arrow|catboost|clickhouse|dask|datafusion|duckdb|ibis|lightgbm|mariadb|narwhals|numba|pandas|parquet|polars|postgres"
    r"|pyarrow|sklearn|spark|sqlite|xgboost"
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first case of each test with each library."""
    first: dict[tuple[str, frozenset[str]], pytest.Item] = {}
    for item in items:
        test, _, case = item.nodeid.partition("[")
        first.setdefault((test, frozenset(LIBRARIES.findall(case.lower()))), item)
    kept = dict.fromkeys(first.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
