"""Predictions of an ensemble, by compiled kernels or as polars expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

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
    from frameboost.compile.arrays.flat_trees import FewRows, NumberTrees, TreeArrays
    from frameboost.compile.arrays.linear_trees import LinearScorer

__all__ = ["Predictor"]

Margins = Sequence[npt.NDArray[np.float64]] | npt.NDArray[np.float64]


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
        self._last_reader: _ArrayReader | _TableReader | None = None
        self._last_started: Predictor | None = None

    @cached_property
    def arrays(self) -> TreeArrays:
        """The trees as flat arrays, for kernels that walk them row by row."""
        from frameboost.compile.arrays.flat_trees import TreeArrays

        return TreeArrays.compile(self.ensemble.trees, self.ensemble.features)

    @cached_property
    def few_rows(self) -> FewRows:
        """The coder of a few rows with strings, and of dicts."""
        from frameboost.compile.arrays.flat_trees import FewRows

        return FewRows(self.arrays, self.ensemble.features)

    @cached_property
    def number_trees(self) -> NumberTrees | None:
        """The trees over rows of numbers, for a few rows; None if they compare other values."""
        from frameboost.compile.arrays.flat_trees import NumberTrees

        return NumberTrees.compile(self.arrays, self.ensemble.base_margins)

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
    def fine_features(self) -> set[str]:
        """The features to warn about if they are float32."""
        return set(self.ensemble.needs_float64())

    def types(self, source: Source) -> dict[str, FeatureType]:
        """Return the types of the features in the data; warn once about each that is too coarse for its thresholds."""
        types = self.ensemble.find_in(source)
        single = [name for name, kind in types.items() if kind.name == "float32"]
        if single and (coarse := sorted(self.fine_features.intersection(single))):
            self.fine_features.difference_update(coarse)
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
        return _series(self.values(data, output, n_jobs))

    def values(self, data: Any, output: str, n_jobs: int | None = None) -> npt.NDArray[Any] | pl.Series:
        """Return the predictions of rows, as a new array if they are numbers of few rows (see `RowOutput.values`)."""
        with at_most(n_jobs):
            if output == "leaf":
                return self._leaves(data)
            if output not in OUTPUTS:
                raise ParameterError(f"output must be one of {listed((*OUTPUTS, 'leaf'))}, not {shown(output)}")
            compiled = self._output(output)
            return compiled.values(self._inputs(compiled.output, data))

    def _inputs(self, output: Output, data: Any) -> Margins | list[Any]:
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
        types = self.types(source)
        frame = source.to_frame(self.ensemble.read_names).collect()
        sums: Sequence[Any] = self.ensemble.base_margins
        for number in range(self.ensemble.n_rounds):
            sums = Predictor(self.ensemble.rounds(number, number + 1)).sums(frame.lazy(), types, sums)
            yield _series(output.values(self.with_offset(frame, sums)))

    def _output(self, name: str) -> RowOutput:
        if name not in self._outputs:
            may_be_null = self.ensemble.offset is not None
            self._outputs[name] = RowOutput(self.ensemble.output(name), may_be_null=may_be_null)
        return self._outputs[name]

    def _leaves(self, data: Any) -> pl.Series:
        source = open_rows(data, self.ensemble.features)
        types = self.types(source)
        codes = self.arrays.codes(source.to_frame(self.ensemble.feature_names), types)
        return pl.Series("prediction", self.arrays.leaves(codes), dtype=pl.Array(pl.Int32, len(self.ensemble.trees)))

    def _margins(self, data: Any) -> Margins:
        """Return the margins of each output."""
        is_known = isinstance(data, pl.DataFrame | pl.LazyFrame | Matrix | dict)
        if not is_known and is_frame_of("pandas", data) and (numbers := numbers_of_pandas(data)) is not None:
            data = numbers
        has_offset, bases = self.ensemble.offset is not None, self.ensemble.base_margins
        if not self._is_linear and not has_offset:
            if type(data) is dict and (codes := self.few_rows.of_dict(data)) is not None:
                return self.margins_of_codes(codes)
            if (margins := self._margins_in_place(data)) is not None:
                return margins
        source = open_rows(data, self.ensemble.read_features)
        types = self.types(source)
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
                return self._linear_scorer.margins(frame, types, bases)
            leaves = frame.select(expr.alias(str(k)) for k, expr in enumerate(self._margin_exprs([0.0] * len(bases))))
            return [base + sums.to_numpy() for base, sums in zip(bases, leaves.collect(), strict=True)]
        if (scorer := self.scorer(types)) is not None:
            return scorer.margins(frame, bases, kept_workers())
        return self.arrays.margins(self.arrays.codes(frame, types), bases)

    def margins_of_codes(self, codes: npt.NDArray[np.unsignedinteger]) -> Margins:
        """Return the margins of a few rows by their codes."""
        return self.arrays.margins(codes, self.ensemble.base_margins, in_parallel=False)

    def _margins_in_place(self, data: Any) -> Margins | None:
        """Return the margins of an array, or of a table that is read by its types alone; None for other data."""
        read: type[_ArrayReader | _TableReader] = _ArrayReader if type(data) is Matrix else _TableReader
        is_read = read is _ArrayReader or isinstance(data, pl.DataFrame | pl.LazyFrame) or is_arrow_table(data)
        if not is_read or not self.arrays.features:
            return None
        reader = self._last_reader
        if reader is None or not reader.fits(data):
            self._last_reader = reader = read(self, data)
        margins = reader.margins(data)
        if margins is None and not reader.has_types_of(data):
            self._last_reader = reader = read(self, data)
            margins = reader.margins(data)
        return margins

    def scorer(self, types: Mapping[str, FeatureType]) -> ByteScorer | None:
        """Return what scores columns of these types by byte trees, if there are any; that of the last call is kept."""
        if self.byte_trees is None:
            return None
        last, key = self._last_scorer, tuple(types.values())
        if last is None or last[0] != key:
            from frameboost.compile.arrays.byte_trees import ByteScorer

            self._last_scorer = last = key, ByteScorer(self.byte_trees, types)
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


def _series(values: npt.NDArray[Any] | pl.Series) -> pl.Series:
    """Return predictions as a series; polars reads an array of rows and values faster if it is flat."""
    if isinstance(values, pl.Series):
        return values
    flat = pl.Series("prediction", values.ravel())
    return flat if values.ndim == 1 else flat.reshape(values.shape)


# --- rows that are scored where they lie ------------------------------------------------------------------------------

# Most calls have columns like those of the call before. So what the columns determine is prepared once: which of them
# trees use, and how their values are compared. A call then checks that its columns are the same. A few rows are not
# coded, as setting up a query takes longer than to score them.

# Rows with strings of which Python reads the values.
_FEW = 16
# Columns of one row, and of several, that are read in the time of selecting one.
_OF_ROW, _OF_ROWS = 16, 1.5
# Values of several rows with strings that are coded faster in Python than by columns.
_MAX_VALUES = 1 << 12


class _ArrayReader:
    """Reads arrays of numbers of one type, with the columns of one array."""

    def __init__(self, trees: Predictor, matrix: Any) -> None:
        self._trees, self._columns, self._dtype = trees, matrix.columns, matrix.values.dtype
        self._scorer = trees.scorer(trees.types(open_rows(matrix[:0], trees.ensemble.features)))
        self._reads = self._scorer is not None and self._scorer.reads(self._dtype)
        index = {name: i for i, name in enumerate(matrix.columns)}
        self._used = np.array([index[feature.name] for feature in trees.arrays.features], np.int64)

    def fits(self, data: Any) -> bool:
        """Whether the columns of an array are the same."""
        return type(data) is Matrix and data.values.dtype == self._dtype and data.columns == self._columns

    def has_types_of(self, data: Any) -> bool:
        """Whether an array that fits has the type of the first one."""
        return True

    def margins(self, matrix: Any) -> Margins | None:
        """Return the margins of each output; None if the model compares no numbers, and without byte trees."""
        if not self._reads or self._scorer is None:
            return None
        values, numbers = matrix.values, self._trees.number_trees
        if numbers is not None and 0 < len(values) <= numbers.max_rows:
            margins = numbers.margins(values.take(self._used, axis=1))
            if margins is not None:
                return margins
        return self._scorer.margins_of_array(values, self._used, self._trees.ensemble.base_margins, kept_workers())


class _TableReader:
    """Reads tables of one library with the columns of one table.

    With thousands of columns, reading the types of all takes longer than scoring a few rows, so types of frames are
    compared only where they matter: of the columns that trees use, or where values are not plain numbers.
    """

    def __init__(self, trees: Predictor, table: Any) -> None:
        from frameboost.compile.arrays.flat_trees import getter

        self._trees, self._kind, self._columns = trees, type(table), _columns_of(table)
        is_arrow = is_arrow_table(table)
        no_rows = table.slice(0, 0) if is_arrow else table
        source = open_rows(no_rows, trees.ensemble.features)
        types = trees.types(source)
        schema = (frame_of_arrow(no_rows) if is_arrow else no_rows).lazy().collect_schema()
        self._used = [feature.name for feature in trees.arrays.features]
        self._dtypes = [schema[name] for name in self._used]
        self._all_dtypes = schema.dtypes()
        self._has_times = any(dtype.is_temporal() for dtype in self._all_dtypes)  # not all of which Python can hold
        index = {name: i for i, name in enumerate(schema)}
        # The values of a row that the model reads, and those that trees use.
        self._features_of, self._used_of = (getter([index[name] for name in names]) for names in (types, self._used))
        self._at = np.array([index[name] for name in self._used])
        self._uses_all = self._used == list(schema)
        scorer = trees.scorer(types)
        self._is_plain = (
            scorer is not None
            and scorer.is_plain
            and all(schema[name] == kind.physical_dtype for name, kind in types.items())
        )  # no Float16
        # Types do not determine how columns are read that are entirely missing, or times that may be dates, or anything
        # but numbers in Arrow.
        are_as_read = all(FeatureType.from_polars(schema[name]) == kind for name, kind in types.items())
        is_read = are_as_read and (not is_arrow or (self._is_plain and not source.categorical))
        self._scorer = scorer if is_read else None
        if self._is_plain:
            from frameboost.compile.arrays.byte_trees import NUMPY_TYPES

            self._numpy_has_used, self._numpy_has_all = (
                NUMPY_TYPES.keys() >= set(map(type, dtypes)) for dtypes in (self._dtypes, self._all_dtypes)
            )

    def fits(self, data: Any) -> bool:
        """Whether the columns of a table are the same: the names of a frame, otherwise types, too."""
        return type(data) is self._kind and bool(_columns_of(data) == self._columns)

    def margins(self, table: Any) -> Margins | None:
        """Return the margins of each output; None for a table that is not read by its types, or with other types."""
        is_frame = isinstance(table, pl.DataFrame)
        if self._scorer is None and not is_frame:
            return None
        frame = table if is_frame else self._frame(table)
        has_all = frame.width == len(self._all_dtypes)
        if (margins := self._margins_of_few(frame, has_all=has_all)) is not None:
            return margins
        rows = frame[self._used] if has_all and not self._uses_all else frame
        if self._scorer is None or not self._are_the_types(rows.dtypes, self._dtypes):
            return None
        bases, workers = self._trees.ensemble.base_margins, kept_workers()
        if self._is_plain:
            return self._scorer.margins_of_plain(rows, bases, workers)
        return self._scorer.margins(rows.lazy(), bases, workers)

    def has_types_of(self, table: Any) -> bool:
        """Whether a table that fits has the types of the first one."""
        return not isinstance(table, pl.DataFrame) or self._has_types(table, has_all=True)

    def _has_types(self, frame: pl.DataFrame, *, has_all: bool) -> bool:
        """Whether a frame of all columns, or of those that trees use, has the types of the first one."""
        return self._are_the_types(frame.dtypes, self._all_dtypes if has_all else self._dtypes)

    def _are_the_types(self, dtypes: list[pl.DataType], expected: list[pl.DataType]) -> bool:
        """Whether types are the expected ones; those of plain numbers have no parameters, and compare faster."""
        return list(map(type, dtypes)) == list(map(type, expected)) and (self._is_plain or dtypes == expected)

    def _frame(self, table: Any) -> pl.DataFrame:
        """Return all columns of a lazy frame or a table of Arrow, or those that trees use if they are few."""
        has_many = 2 * len(self._used) > len(self._all_dtypes)
        if isinstance(table, pl.LazyFrame):
            return (table if has_many else table.select(cs.by_name(*self._used).as_expr())).collect()
        return frame_of_arrow(table if has_many else table.select(self._used))

    def _margins_of_few(self, frame: pl.DataFrame, *, has_all: bool) -> Margins | None:
        """Return the margins of a few rows of plain numbers and strings; None for others, or if numbers may round."""
        n_rows = len(frame)
        if self._trees.few_rows.has_text:
            codes = self._codes_of_few(frame) if has_all and 0 < n_rows <= _FEW else None
            return None if codes is None else self._trees.margins_of_codes(codes)
        numbers = self._trees.number_trees if self._is_plain else None
        if numbers is None or not 0 < n_rows <= numbers.max_rows:
            return None
        values = self._row(frame, has_all=has_all) if n_rows == 1 else self._rows(frame, has_all=has_all)
        return None if values is None else numbers.margins(values)

    def _row(self, frame: pl.DataFrame, *, has_all: bool) -> list[Sequence[Any]] | None:
        """Return the values that trees use of the only row; None if its types differ from those of the first table."""
        if has_all and (self._has_times or frame.width > _OF_ROW * len(self._used)):
            frame, has_all = frame[self._used], False
        row = frame.row(0)
        # The types of values are read faster than those of columns.
        types = map(type, self._features_of(row) if has_all else row)
        is_known = not self._trees.fine_features and {float, int}.issuperset(types)
        return [self._used_of(row) if has_all else row] if is_known or self._has_types(frame, has_all=has_all) else None

    def _rows(self, frame: pl.DataFrame, *, has_all: bool) -> npt.NDArray[Any] | None:
        """Return the values that trees use of several rows; None as for one, or if numpy lacks their type."""
        if not self._numpy_has_used:
            return None
        if has_all and not (self._numpy_has_all and frame.width <= _OF_ROWS * len(self._used)):
            frame, has_all = frame[self._used], False
        if not self._has_types(frame, has_all=has_all):
            return None
        values = frame.to_numpy(order="c")
        return values.take(self._at, axis=1) if has_all and not self._uses_all else values

    def _codes_of_few(self, frame: pl.DataFrame) -> npt.NDArray[np.unsignedinteger] | None:
        """Return the codes of a few rows with strings; None if they must be read column by column."""
        if self._has_times or (len(frame) * frame.width > _MAX_VALUES and len(frame) > 1):
            return None
        rows, few = [*map(self._features_of, frame.rows())], self._trees.few_rows
        if not self._trees.fine_features and (codes := few.codes(rows, may_be_none=False)) is not None:
            return codes
        return few.codes(rows, may_be_none=True) if self.has_types_of(frame) else None


def _columns_of(table: Any) -> Any:
    """Return the names of a frame's columns, and their types in others, of which reading them takes no longer."""
    if isinstance(table, pl.DataFrame):
        return table.columns
    return table.collect_schema() if isinstance(table, pl.LazyFrame) else table.schema


def _warn_of_exposures(ensemble: Ensemble, rows: pl.DataFrame) -> None:
    """Warn about rows without a prediction because their exposure is not above 0."""
    offset = ensemble.offset
    if offset is None or offset.kind != EXPOSURE:
        return
    values = rows[offset.names[0]]
    if wrong := int((values <= 0).sum()):
        warn(f"{offset} is 0 or negative in {wrong:,} of {len(rows):,} rows, whose predictions are NULL")


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
