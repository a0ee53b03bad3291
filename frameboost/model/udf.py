"""A model as a udf of a DuckDB connection: Arrow batches, scored by the compiled kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl

from frameboost.checks.messages import shown
from frameboost.compile.polars import output_expr
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.losses.outputs import output_of
from frameboost.model.scorer import Scorer
from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType

__all__ = ["udf_of"]


def udf_of(model: Scorer, con: duckdb.DuckDBPyConnection, output: Any) -> Callable[[str], object]:
    """Return what makes the model a udf (see `Model.register`) under a name; DuckDB calls it from several threads."""
    try:
        import pyarrow  # noqa: F401, DuckDB makes its batches with it
    except ImportError as error:
        raise ParameterError("form='udf' needs pyarrow; install it, or take form='macro'") from error
    _refuse_types(model._features)
    wanted = output_of(model._loss, output, model._calibration)
    # Narrower columns are cast by DuckDB. Where it lacks a type, values of another come: microseconds with a time zone
    # for milliseconds.
    types = [str(DUCKDB.type_of(feature.type.widened)) for feature in model._features]
    taken = {feature.name: _delivered(type_name) for feature, type_name in zip(model._features, types, strict=True)}
    # A batch has 2,048 rows: what can be worked out before is, and DuckDB brings the threads.
    margins_of = _scorer(model, taken)
    value = output_expr(wanted, [pl.col(margin) for margin in wanted.margins]).alias("prediction")

    def score(*batches: Any) -> Any:
        margins = margins_of(batches)
        return pl.DataFrame(dict(zip(wanted.margins, margins, strict=True))).select(value).to_series().to_arrow()

    # DuckDB asks the function how many columns it takes.
    names = [inspect.Parameter(f"c{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(taken))]
    score.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    returned = "BIGINT" if wanted.is_class else "DOUBLE" if len(wanted.values) == 1 else "DOUBLE[]"

    def create(name: str) -> object:
        return con.create_function(name, score, types, returned, type="arrow", null_handling="special")  # type: ignore[call-overload]

    return create


def _delivered(type_name: str) -> FeatureType:
    """Return the type of the batches of a column that is declared to have a type of DuckDB's."""
    kind = FeatureType.from_duckdb(str(duckdb.sqltype(type_name)))
    assert kind is not None, f"{type_name} is the type of a feature"
    return kind


def _scorer(model: Scorer, types: Mapping[str, FeatureType]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return what finds the margins of batches whose columns have those types, in the caller's thread."""
    trees, arrays, bases = model._byte_trees, model._arrays, model._base_margins
    if trees is not None:
        from frameboost.compile.arrays.batch_scorer import BatchScorer  # which needs numba

        return BatchScorer(trees, types, bases).margins
    code_exprs = arrays.code_exprs(types)

    def walked(batches: Sequence[Any]) -> list[Any]:
        columns = [pl.Series(name, pl.from_arrow(batch)) for name, batch in zip(types, batches, strict=True)]
        codes = np.ascontiguousarray(pl.DataFrame(columns).select(code_exprs).to_numpy())
        return arrays.margins(codes, bases, in_parallel=False)

    return walked


def _refuse_types(features: Sequence[Feature]) -> None:
    for feature in features:
        if feature.type.family == "duration" or feature.type.name == "uint128":
            raise ParameterError(
                f"feature {shown(feature.name)} has type {feature.type}, which DuckDB can't hand to a udf; take "
                "form='macro'"
            )
