"""A model as a udf of a DuckDB connection, which scores Arrow batches with compiled kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl

from frameboost.checks.messages import shown
from frameboost.compile.polars import lookup_expr, output_expr
from frameboost.compile.sql.sql_model import check_labels
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.losses.outputs import Lookup, Output
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import Feature, FeatureType

__all__ = ["udf_of"]


def udf_of(predictor: Predictor, con: duckdb.DuckDBPyConnection, output: str) -> Callable[[str], object]:
    """Return a function that registers the model as a udf of the connection under a name.

    DuckDB calls the udf from several threads.
    """
    try:
        import pyarrow  # noqa: F401, DuckDB makes its batches with it
    except ImportError as error:
        raise ParameterError(
            "form='udf' needs pyarrow: pip install 'frameboost[arrow]'; form='macro' does not"
        ) from error
    features = predictor.ensemble.features
    _refuse_types(features)
    returned = predictor.ensemble.output(output)
    # DuckDB casts narrower columns. For a type that it lacks it hands over another one: microseconds with a time zone
    # instead of milliseconds.
    types = [str(DUCKDB.type_of(feature.type.widened)) for feature in features]
    batch_types = {feature.name: _delivered(type_name) for feature, type_name in zip(features, types, strict=True)}
    # A batch has only 2,048 rows, so all setup is done once, here. DuckDB calls the function from its threads.
    margins_of = _scorer(predictor, batch_types)
    inputs_of = [pl.col(name) for name in returned.inputs]
    offset = predictor.ensemble.offset
    starts = [] if offset is None else [None if name is None else inputs_of[k] for k, name in enumerate(offset.columns)]
    value = output_expr(returned, inputs_of, starts).alias("prediction")
    names, lookup = predictor.ensemble.read_names, returned.lookup
    types += [str(DUCKDB.type_of(feature.type)) for feature in predictor.ensemble.read_features[len(types) :]]
    indices = {} if offset is None else {name: names.index(name) for name in offset.names}
    if lookup is not None and lookup.column not in names:
        names.append(lookup.column)
        types.append(str(DUCKDB.type_of(lookup.type)))
    look_up = None if lookup is None else _look_up(lookup, names.index(lookup.column))

    def score(*batches: Any) -> Any:
        inputs = margins_of(batches[: len(batch_types)])
        if indices:
            rows = pl.DataFrame([pl.Series(name, pl.from_arrow(batches[at])) for name, at in indices.items()])
            inputs = predictor.with_offset(rows, inputs)
        inputs = inputs if look_up is None else [*inputs, look_up(batches)]
        return pl.DataFrame(dict(zip(returned.inputs, inputs, strict=True))).select(value).to_series().to_arrow()

    # DuckDB reads the number of columns from the function's signature.
    columns = [inspect.Parameter(f"c{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(types))]
    score.__signature__ = inspect.Signature(columns)  # type: ignore[attr-defined]
    type_name = _type(returned)

    def create(name: str) -> object:
        return con.create_function(name, score, types, type_name, type="arrow", null_handling="special")  # type: ignore[call-overload]

    return create


def _look_up(lookup: Lookup, index: int) -> Callable[[Sequence[Any]], pl.Series]:
    """Return a function over all batches that returns the lookup's numbers by the batch of an index."""
    value = lookup_expr(lookup)
    return lambda batches: pl.Series(lookup.column, pl.from_arrow(batches[index])).to_frame().select(value).to_series()


def _type(output: Output) -> str:
    """Return DuckDB's type of an output."""
    if output.names:
        check_labels(output.names, DUCKDB)
        return f"STRUCT({', '.join(f'{quote_identifier(name)} DOUBLE' for name in output.names)})"
    type_name = "DOUBLE"
    if output.is_class:
        labels = {type(label) for label in output.labels.values()}
        type_name = "VARCHAR" if str in labels else "BOOLEAN" if bool in labels else "BIGINT"
    return type_name if len(output.values) == 1 else f"{type_name}[]"


def _delivered(type_name: str) -> FeatureType:
    """Return the feature type of the Arrow batches that DuckDB delivers for a column type."""
    kind = FeatureType.from_duckdb(str(duckdb.sqltype(type_name)))
    assert kind is not None, f"{type_name} is the type of a feature"
    return kind


def _scorer(predictor: Predictor, types: Mapping[str, FeatureType]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that computes the margins of batches with columns of these types, in its caller's thread."""
    if predictor.ensemble.is_linear:
        margins = [margin.alias(str(k)) for k, margin in enumerate(predictor.margin_exprs)]

        def of_expressions(batches: Sequence[Any]) -> list[Any]:
            columns = [pl.Series(name, pl.from_arrow(batch)) for name, batch in zip(types, batches, strict=True)]
            return pl.DataFrame(columns).select(margins).get_columns()

        return of_expressions
    trees, arrays, bases = predictor.byte_trees, predictor.arrays, predictor.ensemble.base_margins
    if trees is not None:
        from frameboost.compile.arrays.byte_trees import BatchScorer  # which needs numba

        return BatchScorer(trees, types, bases).margins
    code_exprs = arrays.code_exprs(types)

    def walked(batches: Sequence[Any]) -> list[Any]:
        columns = [pl.Series(name, pl.from_arrow(batch)) for name, batch in zip(types, batches, strict=True)]
        codes = np.ascontiguousarray(pl.DataFrame(columns).select(code_exprs).to_numpy())
        return arrays.margins(codes, bases, in_parallel=False)

    return walked


def _refuse_types(features: Sequence[Feature]) -> None:
    for feature in features:
        if feature.type.family == "duration" or feature.type.values.name == "uint128":
            raise ParameterError(
                f"feature {shown(feature.name)} has type {feature.type}, which DuckDB can't pass to a udf; use "
                "form='macro'"
            )
