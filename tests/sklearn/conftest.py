"""Rows that the tests of estimators share."""

import polars as pl
import pytest

from tests.support.estimator_frames import COLUMNS, typed


@pytest.fixture(scope="package")
def frame() -> pl.DataFrame:
    return typed()


@pytest.fixture(scope="package", name="X")
def features(frame) -> pl.DataFrame:
    return frame.select(COLUMNS)
