"""Frames that only read files are told from those that do more."""

from pathlib import Path

import polars as pl
import pytest

import frameboost as fb
from frameboost.data.plans import scanned_formats
from tests.support.cases import cases

x, s = pl.col("x"), pl.col("s")


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("scans") / "rows.parquet"
    pl.DataFrame({"x": [1.5, None, 3.0], "s": ["2013-01-01", "b", None]}).write_parquet(path)
    return path


def test_formats(path):
    assert scanned_formats(pl.scan_parquet(path)) == {"parquet"}
    pl.read_parquet(path).write_csv(path.with_suffix(".csv"))
    assert scanned_formats(pl.scan_csv(path.with_suffix(".csv"))) == {"csv"}


@cases("change", [
    lambda rows: rows.head(2), lambda rows: rows.drop("s").rename({"x": "y"}), lambda rows: rows.drop_nulls(),
    lambda rows: rows.with_row_index(),
    *(lambda rows, each=each: rows.with_columns(z=each) for each in (
        -x.abs() / 2, x.is_in([1.5, 2.5]), x.is_null() | x.is_nan(), x.cast(pl.Int8), x.fill_nan(0),
        x.fill_null(s.str.len_chars()),
        pl.when(x > 2).then(x).otherwise(None), s.cast(pl.Categorical), s.replace({"b": "c"}), s.str.to_uppercase(),
        x.cast(pl.Int64).cast(pl.Datetime("us")).dt.year(), pl.lit("a"), pl.max_horizontal(x, x + 1),
    )),
])  # fmt: skip
def test_row_by_row(path, change):
    assert scanned_formats(change(pl.scan_parquet(path))) == {"parquet"}


@cases("change", [
    lambda rows: rows.sort("x"), lambda rows: rows.sort("x").head(2), lambda rows: rows.unique(),
    lambda rows: rows.join(rows, on="x"), lambda rows: rows.group_by("s").agg(pl.len()), lambda rows: rows.reverse(),
    lambda rows: rows.map_batches(lambda frame: frame), lambda rows: pl.concat([rows, rows.reverse()]),
    lambda rows: rows.collect().lazy(), lambda rows: rows.select("nothing"), lambda rows: rows.filter(x > 2).head(1),
    *(lambda rows, each=each: rows.with_columns(z=each) for each in (
        x.mean(), x.cum_sum(), x.shift(), x.shuffle(), x.rank(), x.max().over("s"), pl.int_range(pl.len()),
        x.is_unique(), pl.lit(pl.Series([1, 2, 3])), x.fill_null(strategy="forward"), s.str.to_date(strict=False),
        x.map_elements(lambda value: value, return_dtype=pl.Float64), x - x.mean(), x.sample(3),
    )),
    lambda rows: rows.filter(x > x.mean()),
])  # fmt: skip
def test_what_needs_other_rows(path, change):
    assert scanned_formats(change(pl.scan_parquet(path))) is None


def test_what_cannot_be_read(path):
    assert scanned_formats(pl.scan_parquet(path.with_name("none.parquet"))) is None


@pytest.mark.parametrize("scan", [
    lambda: pl.scan_parquet("no-such-folder/rows.parquet", schema={"x": pl.Float64, "y": pl.Float64}),
    lambda: [pl.LazyFrame({"x": [1.0], "y": [1.0]}), pl.scan_csv("no-such-folder/rows.csv")],
])  # fmt: skip
def test_a_lazy_frame_over_a_file_that_is_not_there_is_told(scan):
    with pytest.raises(fb.DataError, match=r"^a file of the data can't be read: .*no-such-folder"):
        fb.fit(scan(), "y", n_estimators=1, verbose=False)


def test_an_error_of_another_file_stays_what_it_is(tmp_path):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]})

    def fail(*_: object) -> None:
        (tmp_path / "absent.txt").read_text()

    with pytest.raises(FileNotFoundError):
        fb.fit(frame, "y", n_estimators=1, callbacks=[fail], verbose=False)
