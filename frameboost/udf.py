"""A model as a function of a DuckDB connection: Arrow batches, scored by the compiled kernels."""

from __future__ import annotations

import inspect
from typing import Any

import duckdb
import polars as pl

from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.outputs import output_of
from frameboost.scorer import Scorer

__all__ = ["create_udf"]


def create_udf(model: Scorer, con: duckdb.DuckDBPyConnection, name: str, output: Any) -> None:
    """Register the model (see `Model.register`); DuckDB calls it from several threads at once."""
    try:
        import pyarrow  # noqa: F401, DuckDB makes its batches with it
    except ImportError as error:
        raise ParameterError("form='udf' needs pyarrow; install it, or take form='macro'") from error
    wanted = output_of(model._loss, output, model._calibration)
    kinds = [feature.type for feature in model._features]

    def score(*batches: Any) -> Any:
        columns = [
            pl.Series(feature.name, pl.from_arrow(batch))
            for feature, batch in zip(model._features, batches, strict=True)
        ]
        return model.predict(pl.DataFrame(columns), output).to_arrow()

    # DuckDB asks the function how many columns it takes.
    names = [inspect.Parameter(f"c{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(kinds))]
    score.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    returned = "BIGINT" if wanted.is_class else "DOUBLE" if len(wanted.values) == 1 else "DOUBLE[]"
    if any(row[0] == name for row in con.execute("SELECT function_name FROM duckdb_functions()").fetchall()):
        try:
            con.remove_function(name)
        except duckdb.InvalidInputException:  # none of ours: a macro, which the function takes precedence over
            con.execute(f"DROP MACRO IF EXISTS {DUCKDB.quote_path(name)}")
    con.create_function(
        name, score, [str(DUCKDB.type_of(kind)) for kind in kinds], returned, type="arrow", null_handling="special"
    )  # type: ignore[call-overload]
