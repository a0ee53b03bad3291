"""A Spark DataFrame as training data."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.predicates import check_repeatable, unusable
from frameboost.dialects.spark import SPARK
from frameboost.errors import ClusterError, DataError, ParameterError
from frameboost.schema.types import FeatureType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["SparkSource", "functions_of", "is_remote", "is_spark_frame"]


def is_spark_frame(data: object) -> bool:
    """Whether this is a Spark DataFrame."""
    # Whoever has such a frame has imported it; another thread may be about to.
    kind = getattr(sys.modules.get("pyspark.sql"), "DataFrame", None)
    return kind is not None and isinstance(data, kind)


def is_remote(frame: DataFrame) -> bool:
    """Whether a frame belongs to Spark Connect, with the driver in another process."""
    return type(frame).__module__.startswith("pyspark.sql.connect")


def functions_of(frame: DataFrame) -> Any:
    """Return Spark's functions for the columns of a frame, as a process may have sessions of both kinds."""
    if is_remote(frame):
        from pyspark.sql.connect.functions import builtin

        return builtin
    from pyspark.sql import functions

    return functions


class SparkSource:
    """A Spark DataFrame as a source; its rows stay in Spark.

    Columns are renamed by position, as Spark's names may differ only in case, or contain dots and backticks.

    Parameters
    ----------
    frame
        The frame.
    argument
        Its name in messages.

    Raises
    ------
    ClusterError
        If its session of Spark Connect is stopped.
    DataError
        If it is a stream, or two columns have the same name.
    """

    categorical: ClassVar[frozenset[str]] = frozenset()  # Spark has no categories but strings
    dialect = SPARK

    def __init__(self, frame: DataFrame, argument: str = "data") -> None:
        session: Any = frame.sparkSession
        if is_remote(frame) and session.is_stopped:
            raise ClusterError("the Spark session of the data is stopped; make the DataFrame in a new one")
        if frame.isStreaming:
            raise DataError(f"{argument} is a stream of Spark, which has no last row; write it to a table first")
        self.frame = frame
        names = self.names()
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"column {shown(name)} occurs {names.count(name)} times; column names must be unique")
        self._types = {field.name: _polars_type(field.dataType) for field in frame.schema.fields}

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return list(self.frame.columns)

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        return {name: None if dtype is None else FeatureType.from_polars(dtype) for name, dtype in self._types.items()}

    def type_names(self) -> dict[str, str]:
        """Return the name of each column's type in Spark."""
        return {field.name: field.dataType.simpleString() for field in self.frame.schema.fields}

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> SparkSource:
        """Return the rows where a Boolean column or a SQL predicate is true; if ``negated``, all other rows."""
        from pyspark.errors import AnalysisException

        functions = functions_of(self.frame)
        try:
            holds = functions.coalesce(
                self._column(predicate) if is_column else functions.expr(predicate), functions.lit(False)
            )
            return SparkSource(self.frame.where(~holds if negated else holds))  # which Spark Connect analyses there
        except AnalysisException as error:  # of which one that can't be parsed is a kind
            raise unusable(predicate, error) from error

    def with_columns(self, columns: Mapping[str, str]) -> SparkSource:
        """Return the frame with further columns, by their SQL."""
        functions = functions_of(self.frame)
        return SparkSource(self.frame.select("*", *(functions.expr(sql).alias(n) for n, sql in columns.items())))

    def labels(self, name: str, most: int) -> list[str]:
        """See `frameboost.data.sources.FrameSource.labels`."""
        chosen = self.selected([name])
        distinct = chosen.where(chosen[0].isNotNull()).distinct().limit(most)
        return sorted(str(row[0]) for row in distinct.collect())

    def with_codes(self, name: str, labels: Sequence[str]) -> SparkSource:
        """See `frameboost.data.sources.FrameSource.with_codes`."""
        functions = functions_of(self.frame)
        old = self._column(name)
        codes = functions.when(old == functions.lit(labels[0]), 0)
        for code, label in enumerate(labels[1:], start=1):
            codes = codes.when(old == functions.lit(label), code)
        new = codes.cast("smallint").alias(name)
        return SparkSource(
            self.frame.select(*(new if other == name else self._column(other) for other in self.names()))
        )

    def check_repeatable(self, predicate: str | None) -> None:
        """Raise `ParameterError` if a predicate may have another value for a row when it is read again."""
        from pyspark.errors import AnalysisException

        if predicate is None:
            return
        what = f"valid={shown(predicate)}"
        check_repeatable(predicate, what)
        self.where(predicate, is_column=False, negated=False)
        functions = functions_of(self.frame)
        try:  # Spark aggregates no such values
            _ = self.frame.agg(functions.max(functions.expr(predicate))).schema
        except AnalysisException as error:
            if error.getCondition() != "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION":
                return
            raise ParameterError(
                f"{what} calls a function that Spark marks as non-deterministic; "
                "make it a column of a table first, or write a fixed value"
            ) from error

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Read the columns into memory."""
        import pyarrow as pa

        positions, schema = [str(i) for i in range(len(names))], self.arrow_schema(names)
        table = self.selected(names).toDF(*positions).toArrow()
        frame = pl.DataFrame(table.cast(pa.schema(zip(positions, schema.types, strict=True))))
        return frame.lazy().select(pl.col(i).alias(name) for i, name in zip(positions, names, strict=True))

    def selected(self, names: Sequence[str]) -> DataFrame:
        """Return some columns of the frame."""
        return self.frame.select(*(self._column(name) for name in names))

    def with_partitions(self, names: Sequence[str]) -> DataFrame:
        """Return some columns of the frame, and the number of each row's partition."""
        return self.selected(names).select("*", functions_of(self.frame).spark_partition_id())

    def arrow_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the Arrow types of some columns; times with a zone are in UTC."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        types = {field.name: field.dataType for field in self.frame.schema.fields}
        return pa.schema([(name, to_arrow_type(types[name], timezone="UTC")) for name in names])

    def _column(self, name: str) -> Column:
        column: Column = functions_of(self.frame).col("`" + name.replace("`", "``") + "`")
        return column


def _polars_type(dtype: Any) -> pl.DataType | None:
    """Return the type in polars of a column of Spark, None for a type that Arrow lacks."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        arrow = to_arrow_type(dtype, timezone="UTC")
    except PySparkException:
        return None
    if pa.types.is_nested(arrow):
        return None
    return pl.Series(pa.array([], arrow)).dtype
