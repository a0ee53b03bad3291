"""A model as a function of a DuckDB connection: a macro, or a udf over the compiled kernels."""

from __future__ import annotations

import duckdb

from frameboost.database.database_model import database_model
from frameboost.database.functions import as_connection, create_macro, create_udf, place_of
from frameboost.database.lookup_columns import read_columns
from frameboost.database.udf import udf_of
from frameboost.errors import ParameterError
from frameboost.prediction.predictor import OutputName, Predictor

__all__ = ["register"]


def register(
    predictor: Predictor, con: duckdb.DuckDBPyConnection, name: str, output: OutputName, form: str, *,
    temporary: bool, replace: bool,
) -> None:  # fmt: skip
    """Register the model as a function of a connection; `frameboost.Model.register` describes the arguments."""
    if form == "udf" and not temporary:
        raise ParameterError("a udf goes with the connection; temporary=False needs form='macro'")
    ensemble = predictor.ensemble
    database = database_model(ensemble, "duckdb")
    connection = as_connection(con)
    place = place_of(connection, name, temporary=temporary)
    if form == "udf":
        create_udf(connection, place.name, udf_of(predictor, connection, output), replace=replace)
        return
    about = f"output {output}, {ensemble.loss.name}, {len(ensemble.trees):,} trees"
    read = read_columns(ensemble, database.columns, {}, database.dialect, ensemble.output(output))
    arguments = [column.name for column in read]
    create_macro(connection, place, arguments, database.sql(output, form="auto"), about, replace=replace)
