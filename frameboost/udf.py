"""A model as a function of a DuckDB connection: Arrow batches, scored by the compiled kernels."""

from __future__ import annotations

import inspect
from typing import Any

import duckdb
import numpy as np
import polars as pl

from frameboost.compile.polars import output_expr
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.outputs import output_of
from frameboost.scorer import Scorer
from frameboost.types import FeatureType

__all__ = ["create_udf"]


def create_udf(model: Scorer, con: duckdb.DuckDBPyConnection, name: str, output: Any) -> None:
    """Register the model (see `Model.register`); DuckDB calls it from several threads at once."""
    try:
        import pyarrow  # noqa: F401, DuckDB makes its batches with it
    except ImportError as error:
        raise ParameterError("form='udf' needs pyarrow; install it, or take form='macro'") from error
    wanted = output_of(model._loss, output, model._calibration)
    taken = {feature.name: _widened(feature.type) for feature in model._features}
    # A batch has 2,048 rows: what can be worked out before is, and DuckDB brings the threads.
    arrays, bases = model._arrays, model._base_margins
    codes_of = arrays.code_exprs(taken)
    value = output_expr(wanted, [pl.col(margin) for margin in wanted.margins]).alias("prediction")

    def score(*batches: Any) -> Any:
        frame = pl.DataFrame(
            [pl.Series(name, pl.from_arrow(batch)) for name, batch in zip(taken, batches, strict=True)]
        )
        found = np.ascontiguousarray(frame.select(codes_of).to_numpy()) if codes_of else np.empty((len(frame), 0), "u2")
        margins = arrays.margins(found, bases, in_parallel=False)
        return pl.DataFrame(dict(zip(wanted.margins, margins, strict=True))).select(value).to_series().to_arrow()

    # DuckDB asks the function how many columns it takes.
    names = [inspect.Parameter(f"c{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(taken))]
    score.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    returned = "BIGINT" if wanted.is_class else "DOUBLE" if len(wanted.values) == 1 else "DOUBLE[]"
    _remove(con, name)
    types = [str(DUCKDB.type_of(kind)) for kind in taken.values()]
    con.create_function(name, score, types, returned, type="arrow", null_handling="special")  # type: ignore[call-overload]


def _widened(kind: FeatureType) -> FeatureType:
    """Return the type of the function's parameter, which DuckDB casts narrower columns to."""
    if kind.is_float:
        return FeatureType("float64")
    return FeatureType("int64") if kind.name in ("int8", "int16", "int32", "uint8", "uint16", "uint32") else kind


def _remove(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Remove a function that has been registered under the name before, of either kind."""
    if any(row[0] == name for row in con.execute("SELECT function_name FROM duckdb_functions()").fetchall()):
        try:
            con.remove_function(name)
        except duckdb.InvalidInputException:  # none of ours: a macro, which would take precedence
            con.execute(f"DROP MACRO IF EXISTS {DUCKDB.quote_path(name)}")
