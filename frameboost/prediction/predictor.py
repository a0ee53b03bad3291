"""Predictions of an ensemble, by compiled kernels or as polars expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs

from frameboost.checks.messages import counted, listed, shown, warn
from frameboost.compile.polars import lookup_expr, margin_expr, margin_exprs, output_expr
from frameboost.data.foreign_tables import frame_of_arrow, is_arrow_table, is_frame_of, numbers_of_pandas
from frameboost.data.matrix import Matrix
from frameboost.data.opening import open_rows
from frameboost.data.sources import Source
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.losses.loss import EXPOSURE
from frameboost.losses.outputs import OUTPUTS, Lookup, Output
from frameboost.prediction.outputs import RowOutput
from frameboost.runtime.workers import at_most, has_numba, kept_workers
from frameboost.schema.types import FeatureType, column
from frameboost.trees.linear_leaves import MAX_STEPS

if TYPE_CHECKING:
    from frameboost.compile.arrays.byte_trees import ByteScorer, ByteTrees
    from frameboost.compile.arrays.flat_trees import FewRows, Getter, NumberTrees, TreeArrays
    from frameboost.compile.arrays.linear_trees import LinearScorer

__all__ = ["Predictor"]


# Rows of numbers up to which each walks by itself.
_FEW = 16
# Values of such rows that are read row by row in the time of a column.
_AS_COLUMN = 8


class _TableColumns(NamedTuple):
    """The columns of a table of polars or PyArrow, and the scorer for tables with these columns.

    Attributes
    ----------
    columns
        All columns: names for a frame, as reading all types takes longer than scoring, and for a lazy one; a schema of
        Arrow.
    names
        Those that trees use; empty if trees use all, in order.
    selector
        The same as an expression.
    features, used
        Return the values of a row that the model reads, and those that trees use.
    dtypes
        The types of the columns that trees use.
    scorer
        The scorer; None if types do not determine how columns are read: entirely missing ones, or times that may be
        dates, or anything but numbers in Arrow.
    is_plain
        Whether the columns are compared without conversion.
    has_numpy_types
        Whether NumPy has the types of the columns that trees use: it lacks integers of 128 bits.
    """

    columns: Any
    names: list[str]
    selector: pl.Expr
    features: Getter
    used: Getter
    dtypes: list[pl.DataType]
    scorer: ByteScorer | None
    is_plain: bool
    has_numpy_types: bool

    def of(self, table: Any) -> pl.DataFrame:
        """Return the columns that trees use, or all."""
        if isinstance(table, pl.DataFrame):
            return table[self.names] if self.names else table
        if isinstance(table, pl.LazyFrame):
            return table.select(self.selector).collect()
        return self.of(frame_of_arrow(table)) if self.are_most else frame_of_arrow(table.select(self.names))

    @property
    def are_most(self) -> bool:
        """Whether trees use most columns, so that selecting them takes longer than reading all."""
        return 2 * len(self.dtypes) > len(self.columns)

    def is_few(self, frame: pl.DataFrame) -> bool:
        """Whether a frame has so few values that they are read row by row."""
        return 0 < len(frame) * len(self.columns) <= _AS_COLUMN * len(self.dtypes)

    def fits(self, dtypes: list[pl.DataType]) -> bool:
        """Whether the columns that trees use have these types; types of plain numbers have no parameters."""
        return list(map(type, dtypes)) == list(map(type, self.dtypes)) and (self.is_plain or dtypes == self.dtypes)


class Predictor:
    """Scores rows in Python.

    Trees are compiled on first use into three cached forms: flat arrays, byte trees and polars expressions. A copied or
    unpickled model builds a new predictor. Without numba, numpy walks the flat arrays to the same predictions, more
    slowly.

    Parameters
    ----------
    ensemble
        The trees to score with.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        # What the last call prepared: most calls have columns of the same types and the same output.
        self._outputs: dict[str, RowOutput] = {}
        self._last_scorer: tuple[tuple[FeatureType, ...], ByteScorer] | None = None
        self._last_table: _TableColumns | None = None
        self._last_matrix: tuple[tuple[list[str], Any], ByteScorer, Any] | None = None
        self._last_started: Predictor | None = None

    @cached_property
    def arrays(self) -> TreeArrays:
        """The trees as flat arrays, for kernels that walk them row by row."""
        from frameboost.compile.arrays.flat_trees import TreeArrays

        return TreeArrays.compile(self.ensemble.trees, self.ensemble.features)

    @cached_property
    def _few_rows(self) -> FewRows:
        from frameboost.compile.arrays.flat_trees import FewRows

        return FewRows(self.arrays, self.ensemble.features)

    @cached_property
    def _number_trees(self) -> NumberTrees | None:
        from frameboost.compile.arrays.flat_trees import NumberTrees

        return NumberTrees.compile(self.arrays)

    @cached_property
    def byte_trees(self) -> ByteTrees | None:
        """The trees over byte columns, which score faster; None if a tree or a column has too many values.

        None without numba, as they need kernels.
        """
        if not has_numba():
            return None
        from frameboost.compile.arrays.byte_trees import ByteTrees

        return ByteTrees.compile(self.arrays)

    @cached_property
    def _fine_features(self) -> set[str]:
        """The features to warn about if they are float32."""
        return set(self.ensemble.needs_float64())

    def _types(self, source: Source) -> dict[str, FeatureType]:
        """Return the types of the features in the data; warn once about each that is too coarse for its thresholds."""
        types = self.ensemble.find_in(source)
        single = [name for name, kind in types.items() if kind.name == "float32"]
        if single and (coarse := sorted(self._fine_features.intersection(single))):
            self._fine_features.difference_update(coarse)
            warn(
                f"{listed(coarse)}: float32 here, but float64 in training, where thresholds lie between numbers that "
                "are equal as float32; rows next to them may take the other branch: pass float64"
            )
        return types

    @cached_property
    def _is_linear(self) -> bool:
        return self.ensemble.is_linear

    @cached_property
    def _ranges_of_slopes(self) -> dict[str, tuple[float, float]]:
        """The ranges in which slopes of LightGBM's linear leaves apply, by feature; LightGBM's are unbounded.

        Ranges end at the feature's grid; those of a model trained here lie within it.
        """
        if not self._is_linear or "max_bin" in self.ensemble.parameters:
            return {}
        leaves = chain.from_iterable(tree.linear_leaves().values() for tree in self.ensemble.trees)
        terms = [term for leaf in leaves for term in leaf.terms]
        if any(not -term.low == term.high == MAX_STEPS * term.step for term in terms):
            return {}
        names = self.ensemble.feature_names
        return {names[term.feature]: (term.centre + term.low, term.centre + term.high) for term in terms}

    @cached_property
    def _linear_scorer(self) -> LinearScorer:
        from frameboost.compile.arrays.linear_trees import LinearScorer

        return LinearScorer.compile(self.arrays, self.ensemble.trees, self.ensemble.features)

    def started_from(self, base_margin: str | Sequence[str] | None) -> Predictor:
        """Return the predictor of `Ensemble.started_from`."""
        ensemble = self.ensemble.started_from(base_margin)
        if ensemble is self.ensemble:
            return self
        if self._last_started is None or self._last_started.ensemble.offset != ensemble.offset:
            self._last_started = Predictor(ensemble)
        return self._last_started

    def of_numbers(self) -> Predictor:
        """Return the predictor of the model without labels; its classes are numbers."""
        return self._of_numbers if self.ensemble.labels else self

    @cached_property
    def _of_numbers(self) -> Predictor:
        return Predictor(replace(self.ensemble, labels=()))

    # --- by kernels ---------------------------------------------------------------------------------------------------

    def predict(self, data: Any, output: str, n_jobs: int | None = None) -> pl.Series:
        """Predict rows; see `frameboost.Model.predict`."""
        values = self.values(data, output, n_jobs)
        return values if isinstance(values, pl.Series) else pl.Series("prediction", values)

    def values(self, data: Any, output: str, n_jobs: int | None = None) -> npt.NDArray[Any] | pl.Series:
        """Return the predictions of rows, as a new array if they are numbers of few rows (see `RowOutput.values`)."""
        with at_most(n_jobs):
            if output == "leaf":
                return self._leaves(data)
            if output not in OUTPUTS:
                raise ParameterError(f"output must be one of {listed((*OUTPUTS, 'leaf'))}, not {shown(output)}")
            compiled = self._output(output)
            return compiled.values(self._inputs(compiled.output, data))

    def _inputs(self, output: Output, data: Any) -> list[Any]:
        """Return the margins of each row, and the index of the output's lookup, if any."""
        lookup, features = output.lookup, self.ensemble.read_features
        if lookup is None:
            return self._margins(data)
        is_feature = lookup.column in self.ensemble.feature_names
        source = open_rows(data, features if is_feature else [*features, lookup.feature])
        _check_lookup(source, lookup)
        self.ensemble.find_in(source)
        names = dict.fromkeys([*self.ensemble.read_names, lookup.column])
        frame = source.to_frame(list(names)).collect()  # once, so that all have the same row order
        return [*self._margins(frame), frame.select(lookup_expr(lookup)).to_series()]

    def staged(self, data: Any, name: str) -> Iterator[pl.Series]:
        """Yield the predictions of the first round, of the first two, and so on; each tree scores once."""
        output = self._output(name)
        source = open_rows(data, self.ensemble.read_features)
        types = self._types(source)
        frame = source.to_frame(self.ensemble.read_names).collect()
        sums: Sequence[Any] = self.ensemble.base_margins
        for number in range(self.ensemble.n_rounds):
            sums = Predictor(self.ensemble.rounds(number, number + 1)).sums(frame.lazy(), types, sums)
            values = output.values(self.with_offset(frame, sums))
            yield values if isinstance(values, pl.Series) else pl.Series("prediction", values)

    def _output(self, name: str) -> RowOutput:
        if name not in self._outputs:
            may_be_null = self.ensemble.offset is not None
            self._outputs[name] = RowOutput(self.ensemble.output(name), may_be_null=may_be_null)
        return self._outputs[name]

    def _leaves(self, data: Any) -> pl.Series:
        source = open_rows(data, self.ensemble.features)
        types = self._types(source)
        codes = self.arrays.codes(source.to_frame(self.ensemble.feature_names), types)
        return pl.Series("prediction", self.arrays.leaves(codes), dtype=pl.Array(pl.Int32, len(self.ensemble.trees)))

    def _margins(self, data: Any) -> list[Any]:
        """Return the margins of each output."""
        is_known = isinstance(data, pl.DataFrame | pl.LazyFrame | Matrix | dict)
        if not is_known and is_frame_of("pandas", data) and (numbers := numbers_of_pandas(data)) is not None:
            data = numbers
        has_offset, bases = self.ensemble.offset is not None, self.ensemble.base_margins
        if not self._is_linear and not has_offset:
            if (codes := self._few_rows.codes(data)) is not None:
                if self._fine_features and not isinstance(data, dict) and pl.Float32 in map(type, data.dtypes):
                    self._types(open_rows(data, self.ensemble.features))
                return list(self.arrays.margins(codes, bases, in_parallel=False))
            if isinstance(data, Matrix):
                margins = self._margins_of_matrix(data)
            elif isinstance(data, pl.DataFrame | pl.LazyFrame) or is_arrow_table(data):
                margins = self._margins_of_table(data)
            else:
                margins = None
            if margins is not None:
                return margins
        source = open_rows(data, self.ensemble.read_features)
        types = self._types(source)
        frame = source.to_frame(self.ensemble.read_names)
        if self._ranges_of_slopes:
            frame = frame.collect().lazy()
            self._warn_of_far_numbers(frame)
        if not has_offset:
            return self.sums(frame, types, bases)
        in_order = frame.collect()  # once, so that codes and offsets have the same row order
        _warn_of_exposures(self.ensemble, in_order)
        return self.with_offset(in_order, self.sums(in_order.lazy(), types, bases))

    def _warn_of_far_numbers(self, frame: pl.LazyFrame) -> None:
        """Warn about rows with numbers that are clipped here, but not in the library that the model comes from."""
        numbers = {name: column(name).cast(pl.Float64, strict=False) for name in self._ranges_of_slopes}
        far = frame.select(
            (numbers[name].is_finite() & ~numbers[name].is_between(*ends)).sum().alias(name)
            for name, ends in self._ranges_of_slopes.items()
        )
        for name, n_rows in far.collect().row(0, named=True).items():
            if n_rows:
                low, high = self._ranges_of_slopes[name]
                warn(
                    f"feature {shown(name)} is far outside of its range in training in {counted(n_rows, 'row')}: the "
                    f"slopes of linear leaves end at {low:g} and {high:g} here, and go on in LightGBM"
                )

    def with_offset(self, rows: pl.DataFrame, sums: Sequence[Any]) -> list[Any]:
        """Return the margins of rows: base margins plus leaf values plus any offset.

        Polars adds them, as a sum with NULL is NULL there, as in SQL.
        """
        offset = self.ensemble.offset
        if offset is None:
            return list(sums)
        exprs = [(k, expr.alias(str(k))) for k, expr in enumerate(offset.exprs()) if expr is not None]
        added = rows.select(expr for _, expr in exprs)
        return [added[str(k)] + pl.Series(total) if str(k) in added.columns else total for k, total in enumerate(sums)]

    def sums(self, frame: pl.LazyFrame, types: Mapping[str, FeatureType], bases: Sequence[Any]) -> list[Any]:
        """Return each row's base margin plus leaf values, by output, without offset, for columns of these types."""
        if self._is_linear:
            if has_numba():
                return self._linear_scorer.margins(frame, types, bases, kept_workers())
            leaves = frame.select(expr.alias(str(k)) for k, expr in enumerate(self._margin_exprs([0.0] * len(bases))))
            return [base + sums.to_numpy() for base, sums in zip(bases, leaves.collect(), strict=True)]
        if self.byte_trees is not None:
            return self._scorer(self.byte_trees, types).margins(frame, bases, kept_workers())
        return self.arrays.margins(self.arrays.codes(frame, types), bases)

    def _margins_of_table(self, table: Any) -> list[Any] | None:
        """Return the margins of a table that is read by its types alone; None for others, or without byte trees.

        Tables with the same columns share a scorer. With thousands of columns, reading all types takes longer than
        scoring a few rows, so from the second such frame on only the types of columns that trees use are read.
        """
        if self.byte_trees is None or not self.arrays.features:
            return None
        schema = table.collect_schema() if isinstance(table, pl.LazyFrame) else None
        columns = table.schema if is_arrow_table(table) else table.columns if schema is None else list(schema)
        last = self._last_table
        if (
            last is None
            or last.columns != columns
            or (schema is not None and not last.fits([schema[name] for name in last.names or columns]))
        ):
            self._last_table = last = self._table_columns(self.byte_trees, table, columns)
        if last.scorer is None and not isinstance(table, pl.DataFrame):
            return None
        if schema is not None and last.are_most:
            table = table.collect()
        if isinstance(table, pl.DataFrame) and (margins := self._margins_by_row(table, last)) is not None:
            return margins
        rows = last.of(table)
        if not last.fits(rows.dtypes):
            self._last_table = last = self._table_columns(self.byte_trees, table, columns)
            rows = last.of(table)
            if not last.fits(rows.dtypes):  # a query may break its promise of types
                return None
        if last.scorer is None:
            return None
        bases = self.ensemble.base_margins
        if not last.is_plain:
            return list(last.scorer.margins(rows.lazy(), bases, kept_workers()))
        is_few = 0 < len(rows) <= _FEW and last.has_numpy_types
        if is_few and (margins := self._margins_of_few(rows.to_numpy())) is not None:
            return margins
        return list(last.scorer.margins_of_plain(rows, bases, kept_workers()))

    def _margins_by_row(self, frame: pl.DataFrame, last: _TableColumns) -> list[Any] | None:
        """Return the margins of a frame of so few numbers that they are read row by row; None for others."""
        if last.scorer is None or not last.is_plain or not last.is_few(frame) or self._fine_features:
            return None
        rows = frame.rows()
        kinds = set(map(type, chain.from_iterable(map(last.features, rows))))
        return self._margins_of_few([*map(last.used, rows)]) if kinds <= {float, int} else None

    def _table_columns(self, trees: ByteTrees, table: Any, columns: Any) -> _TableColumns:
        is_of_polars = isinstance(table, pl.DataFrame | pl.LazyFrame)
        no_rows = table if is_of_polars else table.slice(0, 0)
        source = open_rows(no_rows, self.ensemble.features)
        types = self._types(source)
        schema = (no_rows if is_of_polars else frame_of_arrow(no_rows)).lazy().collect_schema()
        scorer = self._scorer(trees, types)
        names = [feature.name for feature in self.arrays.features]
        is_plain = scorer.is_plain and all(
            schema[name] == kind.physical_dtype for name, kind in types.items()
        )  # no Float16
        are_as_read = all(FeatureType.from_polars(schema[name]) == kind for name, kind in types.items())
        is_read = are_as_read and (is_of_polars or (is_plain and not source.categorical))
        some = [] if names == list(schema) else names
        dtypes = [schema[name] for name in some or schema]
        features, used = (_getter_of(some, schema) for some in (types, names))
        scorer_if_read, selector = scorer if is_read else None, cs.by_name(*names).as_expr()
        has_numpy_types = not any(dtype in (pl.Int128, pl.UInt128) for dtype in dtypes)
        return _TableColumns(columns, some, selector, features, used, dtypes, scorer_if_read, is_plain, has_numpy_types)

    def _margins_of_matrix(self, matrix: Matrix) -> list[Any] | None:
        """Return the margins of rows in an array; None if the model compares no numbers, and without byte trees."""
        last, key = self._last_matrix, (matrix.columns, matrix.values.dtype)
        if last is None or last[0] != key:
            if self.byte_trees is None:
                return None
            scorer = self._scorer(self.byte_trees, self._types(open_rows(matrix[:0], self.ensemble.features)))
            index = {name: i for i, name in enumerate(matrix.columns)}
            used = np.array([index[feature.name] for feature in self.arrays.features], np.int64)
            self._last_matrix = last = key, scorer, used
        _, scorer, columns = last
        if not scorer.reads(matrix.values.dtype):
            return None
        if 0 < len(matrix) <= _FEW and (margins := self._margins_of_few(matrix.values[:, columns])) is not None:
            return margins
        return list(scorer.margins_of_array(matrix.values, columns, self.ensemble.base_margins, kept_workers()))

    def _margins_of_few(self, rows: npt.ArrayLike) -> list[Any] | None:
        """Return the margins of a few rows of numbers, (rows, used features or more); None if they may round."""
        trees = self._number_trees
        return None if trees is None else trees.margins(rows, self.ensemble.base_margins)

    def _scorer(self, trees: ByteTrees, types: Mapping[str, FeatureType]) -> ByteScorer:
        last, key = self._last_scorer, tuple(types.values())
        if last is None or last[0] != key:
            from frameboost.compile.arrays.byte_trees import ByteScorer

            self._last_scorer = last = key, ByteScorer(trees, types)
        return last[1]

    # --- as an expression ---------------------------------------------------------------------------------------------

    def expr(self, name: str) -> pl.Expr:
        """Return the polars expression of an output; see `frameboost.Model.expr`."""
        output, offset = self.ensemble.output(name), self.ensemble.offset
        looked_up = [] if output.lookup is None else [lookup_expr(output.lookup)]
        used, nothing = output.used_margins(), pl.lit(0.0)
        margins, indices = self._shared_exprs
        known = [margin if k in used or not used else nothing for k, margin in enumerate(margins)]
        added = [] if offset is None else offset.exprs()
        known = [margin if more is None else margin + more for margin, more in zip_longest(known, added)]
        return output_expr(output, [*known, *looked_up], added, indices).alias("prediction")

    @cached_property
    def _shared_exprs(self) -> tuple[list[pl.Expr], dict[str, pl.Expr]]:
        ensemble = self.ensemble
        return margin_exprs(ensemble.base_margins, ensemble.trees_by_output(), ensemble.features)

    @cached_property
    def margin_exprs(self) -> list[pl.Expr]:
        """The margin of each output without offset; building them takes longer than scoring a few thousand rows."""
        return self._margin_exprs(self.ensemble.base_margins)

    def _margin_exprs(self, bases: Sequence[float]) -> list[pl.Expr]:
        trees_of = self.ensemble.trees_by_output()
        return [margin_expr(base, trees, self.ensemble.features) for base, trees in zip(bases, trees_of, strict=True)]


def _warn_of_exposures(ensemble: Ensemble, rows: pl.DataFrame) -> None:
    """Warn about rows without a prediction because their exposure is not above 0."""
    offset = ensemble.offset
    if offset is None or offset.kind != EXPOSURE:
        return
    values = rows[offset.names[0]]
    if wrong := int((values <= 0).sum()):
        warn(f"{offset} is 0 or negative in {wrong:,} of {len(rows):,} rows, whose predictions are NULL")


def _getter_of(names: Iterable[str], columns: Iterable[str]) -> Getter:
    """Return a function that takes the values of some columns from a row."""
    from frameboost.compile.arrays.flat_trees import getter

    index = {name: i for i, name in enumerate(columns)}
    return getter([index[name] for name in names])


_WORDS = {"string": "strings", "codes": "integers", "boolean": "Booleans"}


def _check_lookup(source: Source, lookup: Lookup) -> None:
    """Raise `DataError` if the lookup's column is missing, or its type differs from the values of the lookup."""
    if lookup.column not in source.names():
        raise DataError(f"the data lacks column {shown(lookup.column)}, the groups of the model's interval")
    kind = source.types()[lookup.column]
    if kind is None or kind.family != lookup.type.family:
        raise DataError(
            f"column {shown(lookup.column)} has type {source.type_names()[lookup.column]}, but the model's interval "
            f"differs by {_WORDS[lookup.type.name]} in it"
        )
